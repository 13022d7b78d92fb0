"""What is kept of checked items: nothing with a problem, nothing asked before, no more than is wanted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gpueval.metrics.wording import is_number, named_places, tokens_of
from gpueval.testset.checks import Problem
from gpueval.testset.items import Checked
from gpueval.testset.kinds import Kind

NEARLY_SAME = 0.92
"""Cosine of two questions from which they ask the same, where they hold the same names and numbers."""


class Kept:
    """Items kept so far, against which a further one is held; their vectors stand in one array that doubles."""

    def __init__(self) -> None:
        self.items: list[Checked] = []
        self._texts: set[str] = set()
        self._marks: list[frozenset[str]] = []
        self._vectors = np.empty((0, 0), np.float32)

    def repeats(self, one: Checked) -> bool:
        """Whether an item asks what a kept one asks: the same words, or nearly the same meaning with the same names
        and numbers. O(kept x dimensions).
        """
        if _plain(one.item.standalone) in self._texts:
            return True
        if not self.items:
            return False
        cosines = self._vectors[: len(self.items)] @ one.vector
        mine = _marks(one.item.standalone)
        return any(self._marks[i] == mine for i in np.flatnonzero(cosines >= NEARLY_SAME))

    def add(self, one: Checked) -> None:
        """Keep an item."""
        n = len(self.items)
        if n == len(self._vectors):
            grown = np.empty((max(64, 2 * n), len(one.vector)), np.float32)
            grown[:n] = self._vectors[:n] if n else 0
            self._vectors = grown
        self._vectors[n] = one.vector
        self.items.append(one)
        self._texts.add(_plain(one.item.standalone))
        self._marks.append(_marks(one.item.standalone))


def sift(checked: Sequence[Checked], kept: Kept, left: Mapping[Kind, int], *, checks: bool = True) -> list[Checked]:
    """Keep what is good until a kind is full, in order; return the rest with the reason added.

    Args:
        checked: Checked items.
        kept: Filled in place.
        left: Items still wanted, by kind.
        checks: Drop items with problems; else keep them all.
    """
    room = dict(left)
    dropped = []
    for one in checked:
        problems = one.item.problems if checks else ()
        if not problems and checks and kept.repeats(one):
            problems = (Problem.REPEATED,)
        if not problems and room.get(one.item.kind, 0) <= 0:
            problems = (Problem.SPARE,)
        if problems:
            item = msgspec.structs.replace(one.item, problems=problems)
            dropped.append(Checked(item, one.recall, one.vector))
        else:
            kept.add(one)
            room[one.item.kind] -= 1
    return dropped


def _plain(text: str) -> str:
    return " ".join(tokens_of(text)).casefold()


def _marks(text: str) -> frozenset[str]:
    tokens = tokens_of(text)
    named = named_places(tokens)
    return frozenset(token.casefold() for i, token in enumerate(tokens) if i in named or is_number(token))
