"""Before and after: what changed between two runs, and which change each metric's difference comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval.decisions.compare import Difference, compare, unlike
from gpueval.decisions.scored import read_scored
from gpueval.diagnosis.causes import CAUSES, causes_of
from gpueval.errors import UsageError
from gpueval.records import Passage, Sample
from gpueval.run_folder import read_scores
from gpueval.stats.intervals import bootstrap_means
from gpueval.stats.paired import holm, sign_flip_p

_ALIKE = 0.5
"""Share of words that two texts must have in common to be taken for two states of one chunk."""

_SIGNIFICANT = 0.05


class Change(StrEnum):
    """What changed in a sample. Where several did, the first of this order counts: the later ones follow from it."""

    QUESTION = "question"
    DOCUMENTS = "documents"
    CHUNKS = "chunks"
    RETRIEVAL = "retrieval"
    ORDER = "order"
    GENERATION = "generation"
    NOTHING = "nothing"


CHANGE_WORDS: Mapping[Change, str] = {
    Change.QUESTION: "Question or reference differ.",
    Change.DOCUMENTS: "A retrieved text was edited: the same chunk, or nearly the same words, says something else.",
    Change.CHUNKS: "The same text is cut in other places.",
    Change.RETRIEVAL: "Other documents were retrieved.",
    Change.ORDER: "The same documents came in another order.",
    Change.GENERATION: "From the same documents another answer was made.",
    Change.NOTHING: "Documents and answer are the same: what differs is the judge's doing.",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What one kind of change did to a metric.

    Attributes:
        n: Samples with that change and a value in both runs.
        difference: What they add to the metric's mean difference: their sum over all pairs. The parts add up to it.
        low, high: 95 % bootstrap interval; None below two pairs.
    """

    n: int
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CauseChange:
    """A cause in both runs, over the samples they share.

    Attributes:
        title: For people.
        before, after: Samples that have it.
        n: Samples that both runs have.
        low, high: 95 % bootstrap interval of the difference of the shares; None below two samples.
        p_value: By random sign flips, corrected (Holm) over the causes.
        rose, fell: The p-value is below 0.05, and it is more, or less, frequent than before.
    """

    title: str
    before: int
    after: int
    n: int
    low: float | None
    high: float | None
    p_value: float
    rose: bool
    fell: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed from a run to another.

    Attributes:
        n: Samples that both runs have.
        counts: Samples per kind of change, over those.
        examples: Up to five ids per kind of change.
        judged_otherwise: What the runs were judged with differently: judge, prompts, threshold and so on.
        parts: Per metric what each kind of change did to it.
        metrics: Per metric its paired difference.
        causes: Causes in both runs.
    """

    n: int
    counts: dict[Change, int]
    examples: dict[Change, tuple[str, ...]]
    judged_otherwise: tuple[str, ...]
    parts: dict[str, dict[Change, Part]]
    metrics: dict[str, Difference]
    causes: dict[str, CauseChange]

    def moved(self) -> dict[str, Difference]:
        """Return the metrics whose difference is more than chance (5 %, corrected)."""
        return {
            name: one for name, one in self.metrics.items() if one.p_value is not None and one.p_value < _SIGNIFICANT
        }

    def risen(self) -> tuple[str, ...]:
        """Return the causes that became more frequent, the one that rose most first."""
        found = [key for key, one in self.causes.items() if one.rose]
        return tuple(sorted(found, key=lambda key: self.causes[key].before - self.causes[key].after))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``gpueval diagnose --against --json``."""
        return asdict(self) | {"risen": list(self.risen())}


def changes(base: Path, other: Path) -> Changes:
    """Hold a run against one from before. O(samples) time; memory for the run from before.

    Args:
        base: Run folder from before.
        other: Run folder from after.

    Raises:
        UsageError: One is no finished run folder, or they share no sample.
    """
    before, after = read_scored(base), read_scored(other)
    held = {sample.id: (sample, causes_of(sample, line)) for sample, line in read_scores(base, dict[str, Any])}
    kinds: dict[str, Change] = {}
    masks: list[tuple[int, int]] = []
    for sample, line in read_scores(other, dict[str, Any]):
        if sample.id in held:
            was, mask = held[sample.id]
            kinds[sample.id] = change_of(was, sample)
            masks.append((mask, causes_of(sample, line)))
    if not kinds:
        raise UsageError(
            f"{base} and {other} share no sample.", "Samples are matched by id: give both runs the same ids."
        )
    metrics = [name for name in before.metrics if name in after.metrics]
    counts = {kind: sum(one == kind for one in kinds.values()) for kind in Change}
    (compared,) = compare(before, [after], metrics)
    places = {id_: row for row, id_ in enumerate(after.ids)}
    at = np.array([places.get(id_, -1) for id_ in before.ids], np.int64)
    parts = {
        name: _parts(before.values[name], np.where(at >= 0, after.values[name][at], np.nan), before.ids, kinds)
        for name in metrics
    }
    return Changes(
        len(kinds),
        {kind: n for kind, n in counts.items() if n},
        {kind: tuple(id_ for id_, one in kinds.items() if one == kind)[:5] for kind in Change if counts[kind]},
        tuple(unlike(before, after)),
        parts,
        compared,
        _causes(np.array(masks, np.int64)),
    )


def change_of(before: Sample, after: Sample) -> Change:
    """Say what changed in a sample.

    A retrieved text that the run before lacks is held against those of its id, else of its source, else all that
    are gone. It was edited where most of the two is a common beginning and end, and cut otherwise where one is part of
    the other or they only overlap.
    """
    if (before.question, before.reference) != (after.question, after.reference):
        return Change.QUESTION
    old, new = before.contexts or (), after.contexts or ()
    old_texts, new_texts = [one.text for one in old], [one.text for one in new]
    if old_texts == new_texts:
        return Change.NOTHING if before.answer == after.answer else Change.GENERATION
    if sorted(old_texts) == sorted(new_texts):
        return Change.ORDER
    gone = [one for one in old if one.text not in set(new_texts)]
    found = {_touched(one, gone) for one in new if one.text not in set(old_texts)}
    return next((kind for kind in (Change.DOCUMENTS, Change.CHUNKS) if kind in found), Change.RETRIEVAL)


def _touched(passage: Passage, gone: Sequence[Passage]) -> Change | None:
    """Say what was done to a text that is new: edited, cut otherwise, or None where it is another one."""
    words = passage.text.split()
    for other in _earlier(passage, gone):
        theirs = other.text.split()
        shorter, longer = sorted((words, theirs), key=len)
        common = len(set(words) & set(theirs))
        if not shorter or common < _ALIKE * min(len(set(words)), len(set(theirs))):
            continue
        if " ".join(shorter) in " ".join(longer):  # by characters: a chunk may end within a word
            return Change.CHUNKS
        ends = _common(words, theirs) + _common(words[::-1], theirs[::-1])
        if ends >= _ALIKE * len(shorter):
            return Change.DOCUMENTS
        return Change.CHUNKS
    return None


def _earlier(passage: Passage, gone: Sequence[Passage]) -> Sequence[Passage]:
    """Return the texts that may be an earlier state of one: those of its id, else of its source, else all."""
    if passage.id is None and passage.source is None:
        return gone
    same = [one for one in gone if passage.id is not None and one.id == passage.id]
    return same or [one for one in gone if passage.source is not None and one.source == passage.source]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the common beginning."""
    n = 0
    while n < min(len(one), len(other)) and one[n] == other[n]:
        n += 1
    return n


def _parts(
    before: NDArray[np.float64], after: NDArray[np.float64], ids: Sequence[str], kinds: Mapping[str, Change]
) -> dict[Change, Part]:
    """Share a metric's mean difference out to the kinds of change."""
    both = ~np.isnan(before) & ~np.isnan(after)
    difference = (after - before)[both]
    kind_of = np.array([kinds.get(id_, "") for id_ in ids], object)[both]
    present = [kind for kind in Change if (kind_of == kind).any()]
    columns = [np.where(kind_of == kind, difference, 0.0) for kind in present]
    found = {}
    for kind, column, interval in zip(present, columns, bootstrap_means(columns), strict=True):
        low, high = interval or (None, None)
        found[kind] = Part(int((kind_of == kind).sum()), float(column.mean()), low, high)
    return found


def _causes(masks: NDArray[np.int64]) -> dict[str, CauseChange]:
    """Count the causes in both runs; ``masks`` is (samples, 2)."""
    bits = {cause.key: (masks >> k & 1).astype(np.float64) for k, cause in enumerate(CAUSES)}
    bits = {key: both for key, both in bits.items() if both.any()}
    p_values = holm({key: sign_flip_p(both[:, 1] - both[:, 0]) for key, both in bits.items()})
    ends = bootstrap_means([both[:, 1] - both[:, 0] for both in bits.values()])
    titles = {cause.key: cause.title for cause in CAUSES}
    found = {}
    for (key, both), interval in zip(bits.items(), ends, strict=True):
        n_before, n_after = (int(n) for n in both.sum(axis=0))
        low, high = interval or (None, None)
        sure = p_values[key] < _SIGNIFICANT
        rose, fell = sure and n_after > n_before, sure and n_after < n_before
        found[key] = CauseChange(titles[key], n_before, n_after, len(masks), low, high, p_values[key], rose, fell)
    return found
