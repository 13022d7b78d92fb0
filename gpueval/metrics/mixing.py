"""Claims that mix documents: each half stands somewhere, but of different things. Pure.

A rule of words. It looks at the sentence of each chunk that says most of the claim, and asks of two of them: do both
hold words of the claim that the other lacks, and nearly all of it together? And does one of them speak of something
that neither the claim nor the other sentence names? "The Brio headset costs 149 euros" does, beside "The Aria headset
costs 89 euros", for the claim that Aria costs 149 euros. In an honest conclusion it does not: either the claim names
both things ("Brio costs more than Aria"), or one sentence leads to the other ("… are in Bremen", "Bremen lies on …").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from gpueval.records import Evidence

COVERED = 0.8
"""Share of the claim's telling words that the two sentences must hold together."""

_TOKEN = re.compile(r"\w+(?:[.:]\d+)*")
_SHORT = 3
_EMPTY_WORDS = (
    "the a an this that these those in on at of for from by with and or but if when while after before since its his "
    "her their our your my it he she they we you there here as also both all each every some der die das ein eine im "
    "am le la les un une des el los las una il lo gli het een"
)
_EMPTY = frozenset(_EMPTY_WORDS.split())


def mixed(
    claim: str, evidence: Sequence[Evidence], document: Callable[[int], object]
) -> tuple[Evidence, Evidence] | None:
    """Return the two sentences that a claim mixes, in the order of their chunks; None where it mixes none.

    Args:
        claim: The claim.
        evidence: The best sentence of each chunk.
        document: Names the document of a chunk; sentences of one document are not mixed.
    """
    wanted = _telling(claim)
    if not wanted:
        return None
    held = [(one, _words(one.sentence)) for one in evidence]
    named = _words(claim)
    best: tuple[float, Evidence, Evidence] | None = None
    for (first, left), (second, right) in combinations(held, 2):
        if document(first.chunk) == document(second.chunk):
            continue
        a, b = wanted & left, wanted & right
        covered = len(a | b) / len(wanted)
        if not (a - b and b - a) or covered < COVERED or (best is not None and covered <= best[0]):
            continue
        if _subject(second.sentence) - named - left or _subject(first.sentence) - named - right:
            best = covered, first, second
    return None if best is None else best[1:]


def _words(text: str) -> frozenset[str]:
    return frozenset(map(_key, _TOKEN.findall(text)))


def _telling(text: str) -> frozenset[str]:
    """Words that carry a claim: long ones, names and numbers."""
    tokens = _TOKEN.findall(text)
    named = {i for run in _names(tokens) for i in run}
    return frozenset(
        _key(token)
        for i, token in enumerate(tokens)
        if i in named or (not _is_empty(token) and (len(token) > _SHORT or _is_number(token)))
    )


def _names(tokens: Sequence[str]) -> Iterator[range]:
    """Yield runs of capitalised words; a capital at the beginning counts only where another one follows."""
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and tokens[end][0].isupper() and (end > 0 or not _is_empty(tokens[end])):
            end += 1
        if end - start > 1 or (end > start and start > 0):
            yield range(start, end)
        start = max(end, start + 1)


def _subject(sentence: str) -> frozenset[str]:
    """What a sentence speaks of: its first run of names (a number only where it comes first), else its first word that
    is not an article or the like.
    """
    tokens = _TOKEN.findall(sentence)
    first = next((i for i, token in enumerate(tokens) if not _is_empty(token)), None)
    if first is None:
        return frozenset()
    run = next(_names(tokens), None)
    if _is_number(tokens[first]) or run is None:
        return frozenset({_key(tokens[first])})
    return frozenset(_key(tokens[i]) for i in run)


def _is_empty(token: str) -> bool:
    return token.casefold() in _EMPTY


def _is_number(token: str) -> bool:
    return token[0].isdigit()


def _key(token: str) -> str:
    """Compare without case and plural; a single letter is a name and keeps its case."""
    if len(token) == 1:
        return token
    folded = token.casefold()
    return folded[:-1] if len(folded) > _SHORT and folded.endswith("s") else folded
