"""Passages that a judge can read: whole when they fit, else in windows of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpueval.judge.prompts import documents
from gpueval.judge.sentences import sentences

OVERLAP_SENTENCES = 2
"""Sentences shared by neighbouring windows, so that a fact told over two sentences stands whole in one of them."""

SMALLEST_WINDOW_TOKENS = 64
_SEPARATOR_TOKENS = 2
"""Most tokens of the blank line between two chunks."""


class Reader(Protocol):
    """What a judge can read at once."""

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt in tokens, chat template and reply included."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text; may overestimate, never underestimate."""
        ...

    def windows(self, texts: tuple[str, ...], budget_tokens: int) -> tuple[str, ...]:
        """:func:`windows` of this reader, remembered."""
        ...


def fits(text: str, budget_tokens: int, reader: Reader) -> bool:
    """Tell whether a text has at most ``budget_tokens``. Counts only when the bytes leave a doubt: no tokenizer in use
    makes more than one token of a byte.
    """
    if len(text) * 4 <= budget_tokens or len(text.encode("utf-8", "surrogatepass")) <= budget_tokens:
        return True
    return reader.count_tokens(text) <= budget_tokens


def windows(texts: Sequence[str], budget_tokens: int, reader: Reader) -> tuple[str, ...]:
    """Lay out a passage of one or more chunks as one document text, or as several that each fit.

    Windows hold whole sentences in their order and overlap by :data:`OVERLAP_SENTENCES`; a sentence longer than a
    window is cut at white space. O(tokens of the passage).

    Args:
        texts: The chunks of the passage.
        budget_tokens: Tokens available for one window.
        reader: The judge's limits.

    Returns:
        The windows; empty when the budget is below :data:`SMALLEST_WINDOW_TOKENS`.
    """
    if budget_tokens < SMALLEST_WINDOW_TOKENS:
        return ()
    whole = documents(texts)
    if fits(whole, budget_tokens, reader):
        return (whole,)
    fence_tokens = reader.count_tokens(documents(("",)))
    room = budget_tokens - fence_tokens
    units = [
        (k, piece, reader.count_tokens(piece) + 1)
        for k, text in enumerate(texts)
        for sentence in sentences(text)
        for piece in _cut(sentence, room - 1, reader)
    ]
    found: list[str] = []
    start = 0
    while start < len(units):
        end, used, last_chunk = start, 0, -1
        while end < len(units):
            k, _, cost = units[end]
            cost += _SEPARATOR_TOKENS if k != last_chunk and last_chunk >= 0 else 0
            if used + cost > room and end > start:
                break
            used, last_chunk, end = used + cost, k, end + 1
        found.append(_lay_out(units[start:end]))
        if end == len(units):
            break
        start = max(start + 1, end - OVERLAP_SENTENCES)
    return tuple(found)


def _lay_out(units: Sequence[tuple[int, str, int]]) -> str:
    chunks: dict[int, list[str]] = {}
    for k, piece, _ in units:
        chunks.setdefault(k, []).append(piece)
    return documents([" ".join(pieces) for pieces in chunks.values()])


def _cut(sentence: str, room: int, reader: Reader) -> list[str]:
    if fits(sentence, room, reader):
        return [sentence]
    words = sentence.split(" ")
    if len(words) == 1:
        half = len(sentence) // 2
        left, right = sentence[:half], sentence[half:]
    else:
        left, right = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    return _cut(left, room, reader) + _cut(right, room, reader)
