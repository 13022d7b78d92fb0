"""Replies put together into the judgments of a sample. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gpueval.judge import parse
from gpueval.judge.evidence import best_of_chunks, by_words
from gpueval.judge.plan import Draft, Slot
from gpueval.records import BY_EMBEDDER_ALONE, Claims, Completion, Evidence, Judgments, Need, Verdict

SIMILAR = BY_EMBEDDER_ALONE | {Need.SIMILAR_QUESTIONS}
"""Needs that the embedding model answers, about the texts given and about questions that the judge wrote."""

ALIGNED = frozenset({Need.ANSWER_BY_ALL, Need.REFERENCE_BY_ALL})
"""Needs whose claims get evidence by tokens where there is an embedding model."""

Band = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Replies:
    """Replies by key: of the judge, the checker and the embedding model."""

    verdicts: Mapping[bytes, Completion]
    checks: Mapping[bytes, Completion]
    similar: Mapping[bytes, Completion]


@dataclass(frozen=True, slots=True)
class Limits:
    """A verdict is yes from ``threshold`` on; the other two as in :class:`gpueval.judge.run.Bench`."""

    threshold: float
    sure_from: float
    band: Band


def settled_keys(drafts: Iterable[Draft], checks: Mapping[bytes, Completion], band: Band) -> frozenset[bytes]:
    """Return the judge's requests that nobody needs any more, because the checker is sure of their claims."""
    spared: set[bytes] = set()
    needed: set[bytes] = set()
    for draft in drafts:
        for need, keys in draft.checks.items():
            for slot, key in zip(draft.slots[need], keys, strict=True):
                if isinstance(slot, tuple):
                    sure = key in checks and _sure(parse.verdict([checks[key]]), band)
                    (spared if sure else needed).update(slot)
        for slots in draft.entailed.values():
            needed.update(key for slot in slots if isinstance(slot, tuple) for key in slot)
    return frozenset(spared - needed)


def _sure(verdict: Verdict, band: Band) -> bool:
    return verdict.p is not None and (band is None or not band[0] <= verdict.p <= band[1])


def _tiered(row: Sequence[Verdict], checks: Sequence[Completion | None], band: Band) -> list[Verdict]:
    """Take the checker's verdict where it is sure, or alone; else the judge's, with the checker's beside it."""
    found = []
    for verdict, completion in zip(row, checks, strict=True):
        check = parse.verdict([completion]) if completion else None
        if check is not None and (_sure(check, band) or (band is None and verdict.p is None)):
            found.append(msgspec.structs.replace(check, p_checker=check.p, tier="checker"))
        elif check is not None:
            found.append(msgspec.structs.replace(verdict, p_checker=check.p))
        else:
            found.append(verdict)
    return found


def judgments(draft: Draft, replies: Replies, limits: Limits) -> Judgments:
    """Read everything that was asked about a sample."""
    verdicts, similar = replies.verdicts, replies.similar
    read: dict[Need, tuple[Verdict, ...]] = {}
    for need, slots in draft.slots.items():
        if need in SIMILAR:
            read[need] = tuple(
                parse.similarity(similar.get(slot[0])) if isinstance(slot, tuple) else slot for slot in slots
            )
        else:
            row = [_read(slot, verdicts, limits.sure_from) for slot in slots]
            keys = draft.checks.get(need, [])
            read[need] = tuple(_tiered(row, [replies.checks.get(key) for key in keys], limits.band) if keys else row)
    claims = dict(draft.claims)
    evidence = {
        side: _evidence(draft, side, similar)
        for side, need in (("answer", Need.ANSWER_BY_ALL), ("reference", Need.REFERENCE_BY_ALL))
        if draft.slots.get(need)
    }
    for side, entailed in draft.entailed.items():
        kept = [
            i for i, slot in enumerate(entailed) if _holds(_read(slot, verdicts, limits.threshold), limits.threshold)
        ]
        n = len(entailed)
        if len(kept) in (0, n):  # a judge that entails none of its own claims is no check: they all stay
            continue
        texts = claims[side].texts
        claims[side] = Claims(tuple(texts[i] for i in kept), n_dropped=n - len(kept))
        for need, judged in read.items():
            if need.startswith(f"{side}/"):
                read[need] = tuple(judged[k * n + i] for k in range(len(judged) // n) for i in kept)
        if side in evidence:
            evidence[side] = tuple(evidence[side][i] for i in kept)
    return Judgments(claims, read, limits.threshold, evidence)


def _evidence(draft: Draft, side: str, similar: Mapping[bytes, Completion]) -> tuple[tuple[Evidence, ...], ...]:
    """Find each claim's best sentences: by tokens where the embedding model was asked and answered, else by words."""
    texts = draft.claims[side].texts
    replies = [similar.get(key) for key in draft.aligned.get(side, ())]
    shares = [list(reply.labels) if reply and len(reply.labels) == len(draft.places) else None for reply in replies]
    if not shares or None in shares:
        return tuple(best_of_chunks(row, draft.places) for row in by_words(texts, draft.places))
    return tuple(best_of_chunks(row, draft.places) for row in shares if row is not None)


def _holds(verdict: Verdict, threshold: float) -> bool:
    """Keep a claim unless its own sentence clearly does not say it; an unanswered check keeps it."""
    return verdict.p is None or verdict.p >= threshold


def _read(slot: Slot, verdicts: Mapping[bytes, Completion], sure_from: float) -> Verdict:
    if isinstance(slot, tuple):
        return parse.verdict([verdicts.get(key) for key in slot], sure_from)
    return slot
