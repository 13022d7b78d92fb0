"""Which chunks belong together: shared names, and nearness in meaning. Pure.

Two chunks are linked when they name the same thing and are near in meaning without saying the same. A question over
two chunks is asked of such a pair, with the shared name as its bridge.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from gpueval.metrics.wording import is_number, key, names, tokens_of
from gpueval.testset.chunks import Chunk
from gpueval_kernels import cosine_topk

Vectors = NDArray[np.float32]

NEIGHBOURS = 20
"""Nearest chunks that are looked at per chunk."""

SAME = 0.95
"""Cosine from which two chunks say the same: no question needs both."""

COMMON = 0.05
"""A name in more than this share of the documents, and in more than :data:`FEW`, joins everything, and so nothing."""

FEW = 8

FEW_DOCUMENTS = 20
"""Below it names are counted by chunk: in a single handbook every name is in one document."""

_ENDS = re.compile(r"[.!?:;。！？]+(?=\s|$)|\n")
_BREAKS = re.compile(r"[^\w\s'’.&-]+")


@dataclass(frozen=True, slots=True)
class Link:
    """A pair of chunks.

    Attributes:
        first, second: Positions among the chunks.
        bridge: The rarest name that both hold, as it is written in the first.
        weight: ``log(1 + documents / documents that hold the name) * cosine``, chunks counted where documents are few.
    """

    first: int
    second: int
    bridge: str
    weight: float


def entities(text: str) -> dict[str, str]:
    """Names of a text: runs of capitalised words, comparable form to written form.

    A rule of writing, not of a model: it finds none in languages without capitals, where only nearness links chunks.
    """
    found: dict[str, str] = {}
    for part in _ENDS.split(text):
        tokens = tokens_of(_BREAKS.sub(" x ", part))  # a comma ends a name: a small letter in its place does, too
        for run in names(tokens):
            words = [tokens[i] for i in run]
            if not all(map(is_number, words)) and len(words[0]) > 1:
                found.setdefault(" ".join(map(key, words)), " ".join(words))
    return found


def links(chunks: Sequence[Chunk], vectors: Vectors) -> tuple[Link, ...]:
    """Return the pairs of chunks, the strongest first; every pair once.

    The candidates of a chunk are its :data:`NEIGHBOURS` nearest (exact, by the kernels) that share a name with it,
    which is not a common one, and say something else. O(chunks^2 x dimensions) time in blocks, O(chunks x NEIGHBOURS)
    memory.

    Args:
        chunks: Chunks.
        vectors: (chunks, dimensions) float32, of length 1.
    """
    if len(chunks) < 2:
        return ()
    held = [entities(chunk.text) for chunk in chunks]
    by_document = len({chunk.document for chunk in chunks}) >= FEW_DOCUMENTS
    places = [chunk.document if by_document else chunk.id for chunk in chunks]
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for place, some in zip(places, held, strict=True):
        for name in some:
            holders[name].add(place)
    n = len(set(places))
    most = max(FEW, COMMON * n)
    rare = {name: log(1 + n / len(where)) for name, where in holders.items() if len(where) <= most}
    found: dict[tuple[int, int], Link] = {}
    nearest = cosine_topk(vectors, vectors, min(NEIGHBOURS + 1, len(chunks)))
    for i, (row, cosines) in enumerate(zip(nearest.ids.tolist(), nearest.scores.tolist(), strict=True)):
        for j, cosine in zip(row, cosines, strict=True):
            if j in (-1, i) or not 0 < cosine < SAME:
                continue
            shared = [name for name in held[i] if name in held[j] and name in rare]
            if shared:
                bridge = max(shared, key=lambda name: (rare[name], name))
                pair = (min(i, j), max(i, j))
                found.setdefault(pair, Link(*pair, held[pair[0]][bridge], rare[bridge] * cosine))
    return tuple(sorted(found.values(), key=lambda link: (-link.weight, link.first, link.second)))


def spread_over(found: Sequence[Link], n: int) -> tuple[Link, ...]:
    """Return at most ``n`` links, strong ones first, so that each chunk is used as seldom as possible."""
    used: Counter[int] = Counter()
    left, chosen = list(found), list[Link]()
    limit = 1
    while left and len(chosen) < n:
        later = []
        for link in left:
            if len(chosen) < n and used[link.first] < limit and used[link.second] < limit:
                used.update((link.first, link.second))
                chosen.append(link)
            else:
                later.append(link)
        left, limit = later, limit + 1
    return tuple(chosen)
