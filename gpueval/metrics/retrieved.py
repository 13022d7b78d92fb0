"""Metrics over judged chunks: is what was retrieved any use, and does the useful part stand first?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from gpueval.metrics.base import Metric, has_context, is_blank, share, worst_state, yes
from gpueval.records import Cell, Judgments, Need, Sample, State, Verdict

_MOST_ENUMERATED = 10


def average_precision(useful: Sequence[bool]) -> float:
    """Return the average precision of a ranked list, ``sum_k P@k v_k / sum_k v_k``.

    ``v_k`` is 1 where rank k is useful, ``P@k`` the share of useful items among the first k. 0 when none is useful;
    exactly 1.0 when all useful ones come first.

    >>> average_precision([True, False, True])
    0.8333333333333333
    """
    hits, total = 0, 0.0
    for k, value in enumerate(useful, start=1):
        if value:
            hits += 1
            total += hits / k
    return total / hits if hits else 0.0


def _ranked(verdicts: Sequence[Verdict], threshold: float) -> Cell:
    values = [yes(verdict, threshold) for verdict in verdicts]
    unknown = [k for k, value in enumerate(values) if value is None]
    if len(unknown) == len(values):
        return Cell(None, worst_state(verdicts))
    as_zero = average_precision([value is True for value in values])
    detail = {"useful": values, "share": sum(value is True for value in values) / len(values)}
    if not unknown:
        return Cell(as_zero, State.OK, detail=detail)
    low, high = 0.0, 1.0
    if len(unknown) <= _MOST_ENUMERATED:
        outcomes = []
        for choice in product((False, True), repeat=len(unknown)):
            filled = [value is True for value in values]
            for k, value in zip(unknown, choice, strict=True):
                filled[k] = value
            outcomes.append(average_precision(filled))
        low, high = min(outcomes), max(outcomes)
    return Cell(as_zero, State.PARTIAL, low, high, detail=detail | {"n_asked": len(values), "n_missing": len(unknown)})


def _precision_by_reference(sample: Sample, judgments: Judgments) -> Cell:
    if not has_context(sample):
        return Cell(0.0, State.NO_CONTEXT)
    return _ranked(judgments.verdicts[Need.USEFUL_FOR_REFERENCE], judgments.threshold)


CONTEXT_PRECISION = Metric(
    "context_precision",
    ("question", "contexts", "reference"),
    (Need.USEFUL_FOR_REFERENCE,),
    _precision_by_reference,
)
"""Average precision at K of chunk usefulness for the reference answer. 0 when nothing was retrieved or nothing is
useful. ``detail.share`` is the unranked share of useful chunks."""


def _precision_by_answer(sample: Sample, judgments: Judgments) -> Cell:
    if not has_context(sample):
        return Cell(0.0, State.NO_CONTEXT)
    if is_blank(sample.answer):
        return Cell(None, State.NO_CLAIMS)
    if judgments.claims["answer"].abstains:
        return Cell(None, State.ABSTAINED)
    return _ranked(judgments.verdicts[Need.USEFUL_FOR_ANSWER], judgments.threshold)


CONTEXT_PRECISION_ANSWER = Metric(
    "context_precision_answer",
    ("question", "answer", "contexts"),
    (Need.USEFUL_FOR_ANSWER,),
    _precision_by_answer,
)
"""The variant without a reference: usefulness for the answer that was given."""


def _relevance(sample: Sample, judgments: Judgments, need: Need) -> Cell:
    if not has_context(sample):
        return Cell(0.0, State.NO_CONTEXT)
    verdicts = judgments.verdicts[need]
    values = [yes(verdict, judgments.threshold) for verdict in verdicts]
    return share(values, verdicts, detail={"n_relevant": sum(v is True for v in values), "n": len(values)})


CONTEXT_RELEVANCE = Metric(
    "context_relevance",
    ("question", "contexts"),
    (Need.RELEVANT_SENTENCE,),
    lambda sample, judgments: _relevance(sample, judgments, Need.RELEVANT_SENTENCE),
)
"""Sentences of the chunks that help to answer the question / all their sentences."""

CONTEXT_RELEVANCE_CHUNK = Metric(
    "context_relevance_chunk",
    ("question", "contexts"),
    (Need.RELEVANT_CHUNK,),
    lambda sample, judgments: _relevance(sample, judgments, Need.RELEVANT_CHUNK),
)
"""Chunks that help to answer the question / all chunks."""
