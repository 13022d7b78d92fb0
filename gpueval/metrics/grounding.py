"""Metrics over the support matrix: is what the answer says in the documents, and is it right?

Definitions follow Ragas (Es et al. 2024, arXiv 2309.15217) and RAGChecker (Ru et al. 2024, arXiv 2408.08067); the
denominator is always the number of claims asked. ``A`` are the claims of the answer, ``R`` those of the reference,
``C`` all retrieved chunks together, ``c`` one chunk.
"""

from __future__ import annotations

from math import prod
from typing import Any

from gpueval.metrics.base import (
    Metric,
    both,
    claim_rows,
    claims_state,
    either,
    has_context,
    is_blank,
    negate,
    share,
    unanswerable,
    worst_state,
    yes,
)
from gpueval.metrics.mixing import mixed
from gpueval.records import FAILURES, Cell, Judgments, Need, Sample, State


def _read(judgments: Judgments, need: Need) -> list[bool | None]:
    return [yes(verdict, judgments.threshold) for verdict in judgments.verdicts[need]]


def _faithfulness(sample: Sample, judgments: Judgments) -> Cell:
    decided = claims_state(sample, judgments.claims["answer"], higher_is_better=True)
    if decided is not None:
        return decided
    if not has_context(sample):
        claims = tuple(
            {"text": text, "p": 0.0, "supported": False, "evidence": None} for text in judgments.claims["answer"].texts
        )
        return Cell(0.0, State.NO_CONTEXT, claims=claims)
    supported = _read(judgments, Need.ANSWER_BY_ALL)
    verdicts = judgments.verdicts[Need.ANSWER_BY_ALL]
    detail: dict[str, Any] = {}
    known = [verdict.p for verdict in verdicts if verdict.p is not None]
    if len(known) == len(verdicts):
        detail |= {"p_grounded": prod(known), "p_weakest": min(known)}
    if n_unsure := sum(verdict.unsure for verdict in verdicts):
        detail["n_cannot_tell"] = n_unsure
    if n_dropped := judgments.claims["answer"].n_dropped:
        detail["n_claims_dropped"] = n_dropped
    return share(supported, verdicts, claim_rows(judgments, "answer", Need.ANSWER_BY_ALL, supported, sample), detail)


FAITHFULNESS = Metric(
    "faithfulness",
    ("answer", "contexts"),
    (Need.ANSWER_BY_ALL,),
    _faithfulness,
)
"""Share of A supported by C. 0 with state ``no_context`` when nothing was retrieved. Undefined without claims.
``detail.p_grounded`` is the probability that the answer is grounded as a whole: the product over its claims, as if the
judge erred on each by itself. Of seven rules it agrees best with people (benchmarks/aggregation.py); the smallest
probability, ``p_weakest``, is its upper bound."""


def _hallucination(sample: Sample, judgments: Judgments) -> Cell:
    decided = claims_state(sample, judgments.claims["answer"], higher_is_better=False)
    if decided is not None:
        return decided
    right = _read(judgments, Need.ANSWER_BY_REFERENCE)
    grounded = _grounded(sample, judgments)
    values = [negate(either(g, r)) for g, r in zip(grounded, right, strict=True)]
    return share(values, _both_columns(judgments))


HALLUCINATION = Metric(
    "hallucination",
    ("answer", "contexts", "reference"),
    (Need.ANSWER_BY_ALL, Need.ANSWER_BY_REFERENCE),
    _hallucination,
    higher_is_better=False,
)
"""Share of A supported neither by C nor by the reference. Leaving things out is not hallucination."""


def _self_knowledge(sample: Sample, judgments: Judgments) -> Cell:
    decided = claims_state(sample, judgments.claims["answer"], higher_is_better=False)
    if decided is not None:
        return decided
    right = _read(judgments, Need.ANSWER_BY_REFERENCE)
    values = [both(negate(g), r) for g, r in zip(_grounded(sample, judgments), right, strict=True)]
    return share(values, _both_columns(judgments))


SELF_KNOWLEDGE = Metric(
    "self_knowledge",
    ("answer", "contexts", "reference"),
    (Need.ANSWER_BY_ALL, Need.ANSWER_BY_REFERENCE),
    _self_knowledge,
    higher_is_better=False,
)
"""Share of A right by the reference and absent from C: right from memory, not from the documents."""


def _noise(sample: Sample, judgments: Judgments, part: str) -> Cell:
    decided = claims_state(sample, judgments.claims["answer"], higher_is_better=False)
    if decided is not None:
        return decided
    if judgments.claims["reference"].state in FAILURES:
        return Cell(None, judgments.claims["reference"].state)
    if not has_context(sample):
        return Cell(0.0, State.NO_CONTEXT)
    n_claims = len(judgments.claims["answer"].texts)
    n_reference = len(judgments.claims["reference"].texts)
    by_chunk = _read(judgments, Need.ANSWER_BY_CHUNK)
    reference_by_chunk = _read(judgments, Need.REFERENCE_BY_CHUNK)
    relevant = [
        _any(reference_by_chunk[k * n_reference : (k + 1) * n_reference]) for k in range(len(by_chunk) // n_claims)
    ]
    values = []
    for i, right in enumerate(_read(judgments, Need.ANSWER_BY_REFERENCE)):
        supports = by_chunk[i::n_claims]
        from_relevant = _any([both(s, r) for s, r in zip(supports, relevant, strict=True)])
        from_any = _any(supports)
        source = {
            "all": from_any,
            "relevant": from_relevant,
            "irrelevant": both(from_any, negate(from_relevant)),
        }[part]
        values.append(both(negate(right), source))
    needs = (Need.ANSWER_BY_REFERENCE, Need.ANSWER_BY_CHUNK, Need.REFERENCE_BY_CHUNK)
    return share(values, [verdict for need in needs for verdict in judgments.verdicts[need]])


def _noise_metric(name: str, part: str) -> Metric:
    return Metric(
        name,
        ("answer", "contexts", "reference"),
        (Need.ANSWER_BY_REFERENCE, Need.ANSWER_BY_CHUNK, Need.REFERENCE_BY_CHUNK),
        lambda sample, judgments: _noise(sample, judgments, part),
        higher_is_better=False,
    )


NOISE_SENSITIVITY = _noise_metric("noise_sensitivity", "all")
"""Share of A not supported by the reference but supported by some c: the answer repeats the retriever's noise."""
NOISE_SENSITIVITY_RELEVANT = _noise_metric("noise_sensitivity_relevant", "relevant")
"""The part of it that comes from a chunk which also supports some claim of R."""
NOISE_SENSITIVITY_IRRELEVANT = _noise_metric("noise_sensitivity_irrelevant", "irrelevant")
"""The part of it that comes only from chunks which support no claim of R."""


def _context_recall(sample: Sample, judgments: Judgments) -> Cell:
    claims = judgments.claims["reference"]
    if claims.state in FAILURES:
        return Cell(None, claims.state)
    if not claims.texts:
        return Cell(None, State.ABSTAINED if claims.abstains else State.NO_CLAIMS, detail={"side": "reference"})
    if not has_context(sample):
        return Cell(0.0, State.NO_CONTEXT)
    found = _read(judgments, Need.REFERENCE_BY_ALL)
    return share(
        found,
        judgments.verdicts[Need.REFERENCE_BY_ALL],
        claim_rows(judgments, "reference", Need.REFERENCE_BY_ALL, found, sample),
    )


CONTEXT_RECALL = Metric("context_recall", ("contexts", "reference"), (Need.REFERENCE_BY_ALL,), _context_recall)
"""Share of R supported by C. 0 with state ``no_context`` when nothing was retrieved; ``abstained`` when the reference
itself declines."""


def _context_utilization(sample: Sample, judgments: Judgments) -> Cell:
    claims = judgments.claims["reference"]
    if claims.state in FAILURES:
        return Cell(None, claims.state)
    if not claims.texts:
        return Cell(None, State.NO_CLAIMS, detail={"side": "reference"})
    if not has_context(sample):
        return Cell(None, State.NO_CONTEXT)
    if judgments.claims["answer"].abstains:
        return Cell(1.0 if unanswerable(sample) else None, State.ABSTAINED)
    found = _read(judgments, Need.REFERENCE_BY_ALL)
    stated = [False] * len(found) if is_blank(sample.answer) else _read(judgments, Need.REFERENCE_BY_ANSWER)
    pairs = list(zip(found, stated, strict=True))
    n_found = sum(f is True for f, _ in pairs)
    n_stated = sum(f is True and s is True for f, s in pairs)
    if not n_found:
        if None in found:
            return Cell(None, worst_state(judgments.verdicts[Need.REFERENCE_BY_ALL]))
        return Cell(None, State.NO_CONTEXT, detail={"reason": "no claim of the reference is in the chunks"})
    value = n_stated / n_found
    n_missing = sum(f is None or (f is True and s is None) for f, s in pairs)
    if not n_missing:
        return Cell(value)
    # A claim that may be in the chunks lowers the share at worst when the answer may lack it, and raises it at best
    # when the answer may state it.
    low = n_stated / (n_found + sum(f is None and s is not True for f, s in pairs))
    n_hoped = sum(f is None and s is not False for f, s in pairs)
    high = (sum(f is True and s is not False for f, s in pairs) + n_hoped) / (n_found + n_hoped)
    return Cell(value, State.PARTIAL, low, high, detail={"n_asked": len(pairs), "n_missing": n_missing})


CONTEXT_UTILIZATION = Metric(
    "context_utilization",
    ("answer", "contexts", "reference"),
    (Need.REFERENCE_BY_ALL, Need.REFERENCE_BY_ANSWER),
    _context_utilization,
)
"""Of the claims of R that are in C, the share that the answer states. Undefined when C holds none of them."""


def _blending(sample: Sample, judgments: Judgments) -> Cell:
    decided = claims_state(sample, judgments.claims["answer"], higher_is_better=False)
    if decided is not None:
        return decided
    if not has_context(sample):
        return Cell(None, State.NO_CONTEXT)
    texts = judgments.claims["answer"].texts
    n = len(texts)
    by_chunk, by_source = _read(judgments, Need.ANSWER_BY_CHUNK), _read(judgments, Need.ANSWER_BY_SOURCE)
    together = _read(judgments, Need.ANSWER_BY_ALL)
    passages, evidence = sample.contexts or (), judgments.evidence.get("answer")

    def document(chunk: int) -> str | int:
        return passages[chunk].source or passages[chunk].id or chunk

    values: list[bool | None] = []
    blended: list[dict[str, Any]] = []
    n_synthesis = 0
    for i, text in enumerate(texts):
        unsupported = negate(either(_any(by_chunk[i::n]), _any(by_source[i::n])))
        halves = mixed(text, evidence[i], document) if evidence and unsupported is not False else None
        values.append(unsupported if halves else False)
        if halves and unsupported:
            told = {"documents": [document(half.chunk) for half in halves], "sentences": [h.sentence for h in halves]}
            blended.append({"claim": text} | told)
        n_synthesis += unsupported is True and together[i] is True and not halves
    verdicts = judgments.verdicts[Need.ANSWER_BY_CHUNK] + judgments.verdicts[Need.ANSWER_BY_SOURCE]
    detail = {"blended": blended} if blended else {}
    return share(values, verdicts, detail=detail | ({"n_synthesis": n_synthesis} if n_synthesis else {}))


BLENDING = Metric(
    "blending",
    ("answer", "contexts"),
    (Need.ANSWER_BY_ALL, Need.ANSWER_BY_CHUNK, Need.ANSWER_BY_SOURCE),
    _blending,
    higher_is_better=False,
)
"""Share of A that mixes documents: no single c and no single source document supports the claim, and its words stand
half in one document and half in another that speaks of something else (:mod:`gpueval.metrics.mixing`).
``detail.blended`` lists each such claim with the documents and the sentences; ``detail.n_synthesis`` counts claims that
C supports together, no c alone, and that mix nothing: honest conclusions. Undefined without context."""


def _grounded(sample: Sample, judgments: Judgments) -> list[bool | None]:
    if not has_context(sample):
        return [False] * len(judgments.claims["answer"].texts)
    return _read(judgments, Need.ANSWER_BY_ALL)


def _both_columns(judgments: Judgments) -> tuple[Any, ...]:
    return judgments.verdicts[Need.ANSWER_BY_ALL] + judgments.verdicts[Need.ANSWER_BY_REFERENCE]


def _any(values: list[bool | None]) -> bool | None:
    if True in values:
        return True
    return None if None in values else False
