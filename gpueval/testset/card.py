"""What a test set came to: counts by kind and reason, how hard it is, and what made it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpueval.testset.checks import Check
from gpueval.testset.items import Checked
from gpueval.testset.kinds import Kind
from gpueval.testset.trust import Trust

_AT = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One kind.

    Attributes:
        kind: Its name.
        wanted: Items asked for.
        written: Questions written.
        kept: Items kept.
        dropped: Per reason the items dropped for it; an item counts under its first.
        difficulty: Kept items per difficulty; an unanswerable one has none.
        recall_at_5: Share of kept items whose whole evidence is among the plain retriever's first five; None without
            evidence.
    """

    kind: Kind
    wanted: int
    written: int
    kept: int
    dropped: dict[str, int]
    difficulty: dict[str, int]
    recall_at_5: float | None


@dataclass(frozen=True, slots=True)
class Card:
    """A test set in numbers.

    Attributes:
        rows: Per kind.
        solvability: Mean share of the reference's claims that the true evidence holds, over kept items; None where it
            was not judged.
        solvability_written: The same over everything that the judge was asked about, dropped or not.
        n_documents, n_chunks: Of the corpus.
        n_documents_used: Documents that some kept item rests on.
        largest_share: Share of kept items of the document with the most.
        trust: Per check how good the judge is at it, and its threshold.
        left_out: Files that were not read, with the reason.
        facts: Models, versions, settings, times.
    """

    rows: tuple[Row, ...]
    solvability: float | None
    solvability_written: float | None
    n_documents: int
    n_chunks: int
    n_documents_used: int
    largest_share: float
    trust: Mapping[Check, Trust] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def n_kept(self) -> int:
        """Items of the set."""
        return sum(row.kept for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def rows_of(wanted: Mapping[Kind, int], kept: Sequence[Checked], dropped: Sequence[Checked]) -> tuple[Row, ...]:
    """Count items by kind."""
    found = []
    for kind in Kind:
        mine = [one.item for one in kept if one.item.kind is kind]
        lost = [one.item for one in dropped if one.item.kind is kind]
        if not (mine or lost or wanted.get(kind)):
            continue
        with_evidence = [item for item in mine if item.relevant_ids]
        hits = sum(item.rank is not None and item.rank <= _AT for item in with_evidence)
        found.append(
            Row(
                kind,
                wanted.get(kind, 0),
                len(mine) + len(lost),
                len(mine),
                dict(Counter(str(item.problems[0]) for item in lost).most_common()),
                dict(Counter(item.difficulty for item in mine if item.difficulty)),
                hits / len(with_evidence) if with_evidence else None,
            )
        )
    return tuple(found)


def mean_recall(checked: Sequence[Checked]) -> float | None:
    """Mean share of claims held, over the items for which it is known."""
    known = [one.recall for one in checked if one.recall is not None]
    return sum(known) / len(known) if known else None


def spread(kept: Sequence[Checked]) -> tuple[int, float]:
    """Documents that kept items rest on, and the share of items of the one with the most."""
    used = Counter(name for one in kept for name in {proof.document for proof in one.item.evidence})
    return len(used), max(used.values()) / len(kept) if used else 0.0
