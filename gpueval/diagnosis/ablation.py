"""What an ablation says: where answers are lost, with the evidence, or that the samples are too few to tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpueval.stats.intervals import paired_shares, wilson

Floats = NDArray[np.float64]
Answer = Literal["yes", "no", "cannot tell"]

MATTERS = 0.05
"""Least difference of the share of right answers that matters."""

ENOUGH = 0.9
"""Share of right answers with the true documents from which the generator is good enough."""

_Z = 1.959964


class Condition(StrEnum):
    """What the generator was given besides the question."""

    FULL = "full"
    """The documents that the system retrieved."""
    ORACLE = "oracle"
    """The documents that are known to be relevant."""
    CLOSED = "closed"
    """None."""


@dataclass(frozen=True, slots=True)
class Right:
    """Right answers of one condition: n of them, their share with Wilson's 95 % interval, the mean score."""

    n: int
    n_total: int
    share: float
    low: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference between conditions, or from what is enough, and whether it matters.

    Attributes:
        difference: In the share of right answers.
        low, high: Its 95 % interval.
        matters: ``yes``: surely above zero and at least what matters. ``no``: surely below what matters.
        needed: Samples from which such a difference could be told; None where it is told.
    """

    difference: float
    low: float
    high: float
    matters: Answer
    needed: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an ablation says of one set of samples.

    Attributes:
        n: Samples scored in every condition.
        right: Right answers per condition.
        retrieval: Oracle minus full: what the true documents would add; None without an oracle.
        documents: Share of samples whose true documents do not hold the reference, held against what is tolerated; None
            where nobody looked.
        generation: What is missing from all right where the true documents hold the reference, held against what is
            enough.
        knowledge: Full minus closed: what the documents add to what the model knows; None without a closed book.
        conclusions: In words, the most important first.
    """

    n: int
    right: dict[Condition, Right]
    retrieval: Gap | None
    documents: Gap | None
    generation: Gap | None
    knowledge: Gap | None
    conclusions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """An ablation's result.

    Attributes:
        metric: What makes an answer right, and from which score on.
        good: That score.
        whole: Reading over all samples.
        groups: Reading per group of the samples; empty where they have none.
        notes: What was left out, and how each condition was answered.
    """

    metric: str
    good: float
    whole: Reading
    groups: dict[str, Reading]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``gpueval ablate --json``."""
        return asdict(self)


def read(
    values: Mapping[Condition, Floats],
    *,
    held: Floats | None = None,
    good: float = 0.5,
    matters: float = MATTERS,
    enough: float = ENOUGH,
) -> Reading | None:
    """Read an ablation off the scores of its conditions.

    A difference matters where its 95 % interval lies above zero and it reaches ``matters``; it does not where the
    interval lies below ``matters``; else nobody can tell. Shortfalls matter where they are surely above ``1 - enough``.

    Args:
        values: Per condition (n,) float64, in the same order of samples; NaN where one has no value. Samples with a
            value in every condition count.
        held: (n,) share of the reference that the true documents hold (context recall of the oracle), NaN where
            unknown; None where nobody looked.
        good: Score from which an answer is right, and a reference held.
        matters: Least difference that matters.
        enough: Share of right answers with the true documents that is enough.

    Returns:
        None where no sample has a value in every condition.
    """
    conditions = list(values)
    stacked = np.stack([values[condition] for condition in conditions])
    scored = ~np.isnan(stacked).any(axis=0)
    stacked = stacked[:, scored]
    n = stacked.shape[1]
    if not n:
        return None
    right = dict(zip(conditions, stacked >= good, strict=True))
    told = {condition: _right(right[condition], row) for condition, row in zip(conditions, stacked, strict=True)}

    def gap(more: Condition, less: Condition) -> Gap | None:
        if more not in right or less not in right:
            return None
        gained, lost = int((right[more] & ~right[less]).sum()), int((right[less] & ~right[more]).sum())
        low, high = paired_shares(gained, lost, n)
        varied = (gained + lost + 1) / (n + 2) - ((gained - lost) / (n + 2)) ** 2
        return _gap((gained - lost) / n, low, high, matters, ceil((_Z / matters) ** 2 * varied))

    documents = generation = None
    if Condition.ORACLE in right:
        answers = right[Condition.ORACLE]
        if held is not None:
            known = ~np.isnan(held[scored])
            holds = held[scored] >= good
            documents = _shortfall(holds[known], matters, enough)
            answers = answers[holds]
        generation = _shortfall(answers, matters, enough)
    gaps = (gap(Condition.ORACLE, Condition.FULL), documents, generation, gap(Condition.FULL, Condition.CLOSED))
    return Reading(n, told, *gaps, tuple(_conclude(*gaps)))


def _right(right: NDArray[np.bool_], values: Floats) -> Right:
    n, total = int(right.sum()), len(right)
    low, high = wilson(n, total)
    return Right(n, total, n / total, max(0.0, low), min(1.0, high), float(values.mean()))


def _shortfall(fine: NDArray[np.bool_], matters: float, enough: float) -> Gap | None:
    """Hold what is missing from all against what is tolerated; None where there is nothing to hold."""
    n = len(fine)
    if not n:
        return None
    share = float(fine.mean())
    low, high = wilson(float(fine.sum()), n)
    if high < enough or low >= enough:
        return Gap(1 - share, max(0.0, 1 - high), min(1.0, 1 - low), "yes" if high < enough else "no", None)
    distance = max(abs(share - enough), matters)
    needed = ceil(_Z**2 * max(share * (1 - share), enough * (1 - enough)) / distance**2)
    return Gap(1 - share, max(0.0, 1 - high), min(1.0, 1 - low), "cannot tell", needed)


def _gap(difference: float, low: float, high: float, matters: float, needed: int) -> Gap:
    if low > 0 and difference >= matters:
        return Gap(difference, low, high, "yes", None)
    if high < matters:
        return Gap(difference, low, high, "no", None)
    return Gap(difference, low, high, "cannot tell", needed)


def _conclude(
    retrieval: Gap | None, documents: Gap | None, generation: Gap | None, knowledge: Gap | None
) -> Iterator[str]:
    lossy = {"retrieval": retrieval, "the documents": documents, "generation": generation}
    loses = [name for name, one in lossy.items() if one and one.matters == "yes"]
    unsure = [name for name, one in lossy.items() if one and one.matters == "cannot tell"]
    if len(loses) == 1:
        yield _BOTTLENECK[loses[0]]
    elif loses:
        yield f"Several parts lose answers: {' and '.join(loses)}."
    elif not unsure and any(lossy.values()):
        yield "No part loses answers that matter."
    if unsure:
        yield f"Cannot tell with so few samples whether answers are lost in {' or '.join(unsure)}."
    if knowledge and knowledge.matters == "no":
        yield "Retrieval is not needed: without documents the answers are as good."
    elif knowledge and knowledge.matters == "cannot tell":
        yield "Cannot tell with so few samples whether the documents are needed."


_BOTTLENECK = {
    "retrieval": "Retrieval is the bottleneck: with the true documents more answers are right.",
    "the documents": "The documents are the bottleneck: the true ones do not hold the reference.",
    "generation": "Generation is the bottleneck: answers are wrong although the true documents hold the reference.",
}
