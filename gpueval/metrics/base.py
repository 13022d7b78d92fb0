"""What a metric is, and the arithmetic that metrics share.

A metric is a record with a pure function. It names the judgments it needs and the fields a sample must have; the
planner asks for the union of all needs once; the function reads the answers. No metric owns a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpueval.records import FAILURES, Cell, Claims, Judgments, Need, Sample, State, Verdict

NOISE = 0.03
"""How far one request's probability can lie apart in two runs on a GPU, where neighbours in a batch change the order of
sums: label logits of 8 to 16 come in bfloat16 steps of 2^-4, and p near 0.5 moves by 0.25 x 2 x 2^-4 = 0.03 when both
are off by one. On a processor requests repeat to 1e-6 (benchmarks/stability.py). A verdict within it of the threshold
may turn."""

_BY_ALL = frozenset({Need.ANSWER_BY_ALL, Need.REFERENCE_BY_ALL})


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score between 0 and 1.

    Attributes:
        name: Name in results and on the command line.
        fields: Fields of the sample that must be given, else the cell is ``not_applicable``.
        needs: Judgments it reads; empty for a metric that needs no judge.
        score: Pure function; called only when all fields are given.
        higher_is_better: Direction, used by gates.
        extra: The extra that installs a library it uses; empty for none.
        decided: Tells whether a sample with all fields is scored without any judgment.
    """

    name: str
    fields: tuple[str, ...]
    needs: tuple[Need, ...]
    score: Callable[[Sample, Judgments], Cell]
    higher_is_better: bool = True
    extra: str = ""
    decided: Callable[[Sample], bool] | None = None


def score(metric: Metric, sample: Sample, judgments: Judgments) -> Cell:
    """Score one sample, or say which field it lacks."""
    for field in metric.fields:
        if lacks(sample, field):
            return Cell(None, State.NOT_APPLICABLE, detail={"missing": field})
    return metric.score(sample, judgments)


def lacks(sample: Sample, field: str) -> bool:
    """Tell whether a field is not given. A blank question or reference counts as not given (an empty CSV cell); a blank
    answer and empty contexts are results of the system under test.
    """
    value = getattr(sample, field)
    return value is None or (field in ("question", "reference") and is_blank(value))


def is_blank(text: str | None) -> bool:
    """Tell whether a text is absent or white space."""
    return text is None or not text.strip()


def has_context(sample: Sample) -> bool:
    """Tell whether any retrieved chunk holds text."""
    return any(passage.text.strip() for passage in sample.contexts or ())


def worst_state(verdicts: Sequence[Verdict]) -> State:
    """Return the most frequent failure among verdicts, the first met on a tie."""
    failures = [verdict.state for verdict in verdicts if verdict.p is None]
    return max(failures, key=failures.count, default=State.ENGINE_ERROR)


def yes(verdict: Verdict, threshold: float) -> bool | None:
    """Read a verdict: True, False, or None where it is missing. "Cannot tell" is False."""
    return None if verdict.p is None else verdict.p >= threshold


def both(first: bool | None, second: bool | None) -> bool | None:
    """Three-valued AND (Kleene): False wins over unknown."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def either(first: bool | None, second: bool | None) -> bool | None:
    """Three-valued OR (Kleene): True wins over unknown."""
    if first is True or second is True:
        return True
    return None if first is None or second is None else False


def negate(value: bool | None) -> bool | None:
    """Three-valued NOT."""
    return None if value is None else not value


def share(
    values: Sequence[bool | None],
    verdicts: Sequence[Verdict],
    claims: tuple[dict[str, Any], ...] = (),
    detail: Mapping[str, Any] | None = None,
) -> Cell:
    """Return the share of True among all values that were asked for.

    ``value = n_true / n`` with n the number asked, never the number answered. With some values unknown the state is
    ``partial``, the value counts them as False, and ``high`` counts them as True. With all unknown there is no value
    and the state is the failure.

    Args:
        values: One per claim or passage; none at all is ``no_claims``.
        verdicts: The verdicts behind them, to name the failure.
        claims: Passed on to the cell.
        detail: Passed on to the cell.
    """
    n = len(values)
    if n == 0:
        return Cell(None, State.NO_CLAIMS)
    n_true = sum(value is True for value in values)
    n_unknown = sum(value is None for value in values)
    extra = dict(detail or {})
    if n_unknown == n:
        return Cell(None, worst_state(verdicts), claims=claims, detail=extra)
    if n_unknown:
        extra |= {"n_asked": n, "n_missing": n_unknown}
        return Cell(n_true / n, State.PARTIAL, n_true / n, (n_true + n_unknown) / n, claims, extra)
    return Cell(n_true / n, State.OK, claims=claims, detail=extra)


def claims_state(sample: Sample, claims: Claims, *, higher_is_better: bool) -> Cell | None:
    """Decide a metric over answer claims when there is nothing to judge; None when there are claims.

    One policy for all of them: a blank answer and one without claims are ``no_claims``; an answer that declines is
    ``abstained``, with the best value where the question is known to be unanswerable and no value otherwise.
    """
    if is_blank(sample.answer):
        return Cell(None, State.NO_CLAIMS)
    if claims.abstains:
        best = 1.0 if higher_is_better else 0.0
        return Cell(best if unanswerable(sample) else None, State.ABSTAINED)
    if claims.state in FAILURES:
        return Cell(None, claims.state)
    if not claims.texts:
        return Cell(None, State.NO_CLAIMS)
    return None


def unanswerable(sample: Sample) -> bool:
    """Tell whether the sample says that its documents do not answer the question."""
    return sample.answerable is False


def claim_rows(
    judgments: Judgments, side: str, need: Need, supported: Sequence[bool | None], sample: Sample
) -> tuple[dict[str, Any], ...]:
    """Describe each claim for the result file.

    ``evidence`` is the id (or 0-based position) of the chunk that supports the claim best: where every chunk was judged
    alone by its verdict, else, for a supported claim, the chunk of the sentence that says most of it; None without one.
    Claims held against the chunks also get that ``sentence``, the closest one where the claim is not supported, and the
    ``share`` of the claim that it holds.
    """
    texts = judgments.claims[side].texts
    sentences = judgments.evidence.get(side, ()) if need in _BY_ALL else ()
    by_chunk = judgments.verdicts.get(Need.ANSWER_BY_CHUNK if side == "answer" else Need.REFERENCE_BY_CHUNK, ())
    rows = []
    for i, (text, verdict) in enumerate(zip(texts, judgments.verdicts[need], strict=True)):
        row: dict[str, Any] = {
            "text": text,
            "p": verdict.p,
            "supported": supported[i],
            "evidence": best_chunk(by_chunk[i :: len(texts)], sample, judgments.threshold),
        }
        if sentences and sentences[i]:
            best = max(sentences[i], key=lambda found: found.share)
            row |= {"sentence": best.sentence, "share": round(best.share, 4)}
            if row["evidence"] is None and supported[i]:
                row["evidence"] = chunk_name(sample, best.chunk)
        if verdict.p is None:
            row["state"] = verdict.state
        elif abs(verdict.p - judgments.threshold) <= NOISE:
            row["unstable"] = True
        if verdict.unsure:
            row["unsure"] = True
        if verdict.windows > 1:
            row["windows"] = verdict.windows
        if verdict.p_checker is not None:
            row |= {"p_checker": verdict.p_checker, "tier": verdict.tier}
        rows.append(row)
    return tuple(rows)


def best_chunk(verdicts: Sequence[Verdict], sample: Sample, threshold: float) -> str | int | None:
    """Return the chunk with the highest probability at or above the threshold: its id, else its position."""
    best, best_p = None, threshold
    for k, verdict in enumerate(verdicts):
        if verdict.p is not None and (verdict.p > best_p or (best is None and verdict.p >= best_p)):
            best, best_p = k, verdict.p
    return None if best is None else chunk_name(sample, best)


def chunk_name(sample: Sample, chunk: int) -> str | int:
    """Return a chunk's id, or its position where it has none."""
    return (sample.contexts or ())[chunk].id or chunk
