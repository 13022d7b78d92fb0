"""Words of a text as the rules over claims compare them: without case and plural, names and numbers kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_TOKEN = re.compile(r"\w+(?:[.:]\d+)*")
_SHORT = 3
_EMPTY_WORDS = (
    "the a an this that these those in on at of for from by with and or but if when while after before since its his "
    "her their our your my it he she they we you there here as also both all each every some der die das ein eine im "
    "am le la les un une des el los las una il lo gli het een"
)
_EMPTY = frozenset(_EMPTY_WORDS.split())


def tokens_of(text: str) -> list[str]:
    """Split a text into words; a number keeps its decimals and a time its minutes."""
    return _TOKEN.findall(text)


def words(text: str) -> frozenset[str]:
    """Return all words of a text, comparable."""
    return frozenset(map(key, tokens_of(text)))


def telling(text: str) -> frozenset[str]:
    """Words that carry a claim: long ones, names and numbers."""
    tokens = tokens_of(text)
    named = named_places(tokens)
    return frozenset(
        key(token)
        for i, token in enumerate(tokens)
        if i in named or (not is_empty(token) and (len(token) > _SHORT or is_number(token)))
    )


def names(tokens: Sequence[str]) -> Iterator[range]:
    """Yield runs of capitalised words; a capital at the beginning counts only where another one follows."""
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and tokens[end][0].isupper() and (end > 0 or not is_empty(tokens[end])):
            end += 1
        if end - start > 1 or (end > start and start > 0):
            yield range(start, end)
        start = max(end, start + 1)


def named_places(tokens: Sequence[str]) -> frozenset[int]:
    """Return the places of all words that belong to a name."""
    return frozenset(i for run in names(tokens) for i in run)


def is_empty(token: str) -> bool:
    """Tell whether a word carries nothing: an article, a preposition, a pronoun."""
    return token.casefold() in _EMPTY


def is_number(token: str) -> bool:
    """Tell whether a word begins with a digit."""
    return token[0].isdigit()


def key(token: str) -> str:
    """Compare without case and plural; a single letter is a name and keeps its case."""
    if len(token) == 1:
        return token
    folded = token.casefold()
    return folded[:-1] if len(folded) > _SHORT and folded.endswith("s") else folded
