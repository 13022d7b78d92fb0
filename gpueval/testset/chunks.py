"""Documents cut into chunks at sentence ends, each with its place in the document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpueval.fingerprint import text_digest
from gpueval.judge.sentences import segmentable
from gpueval.testset.documents import Document

CHUNK_CHARACTERS = 1200
"""Longest chunk: some 300 tokens of English, which most retrievers index whole."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: ``document.text[start:end]``.

    Attributes:
        id: Name of the document and a digest of the text: it stays as long as the text does, wherever it moves.
        document: Name of the document.
        start, end: Characters from the document's beginning.
        text: The piece itself.
    """

    id: str
    document: str
    start: int
    end: int
    text: str


def cut(documents: Iterable[Document], longest: int = CHUNK_CHARACTERS) -> tuple[Chunk, ...]:
    """Cut documents: whole sentences are packed until ``longest`` characters; a longer sentence is cut at white space.

    A paragraph that would not fit into the chunk begins a new one where the chunk is half full already, so that chunks
    end where a thought ends. A text that stands in a document more than once is one chunk.

    Args:
        documents: Documents.
        longest: Characters of a chunk at most.
    """
    found: dict[str, Chunk] = {}
    for document in documents:
        for start, end in _spans(document.text, longest):
            text = document.text[start:end]
            name = f"{document.name}#{text_digest(text).hex()[:10]}"
            found.setdefault(name, Chunk(name, document.name, start, end, text))
    return tuple(found.values())


def _spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the borders of chunks, without white space around them."""
    begin: int | None = None
    last = 0
    for first, end, opens in _pieces(text, longest):
        if begin is not None and (end - begin > longest or (opens and last - begin > longest // 2)):
            yield begin, last
            begin = None
        begin, last = (first if begin is None else begin), end
    if begin is not None:
        yield begin, last


def _pieces(text: str, longest: int) -> Iterator[tuple[int, int, bool]]:
    """Yield begin and end of each sentence, and whether it opens a paragraph."""
    from sentencex import get_sentence_boundaries

    opens = True
    at = 0
    text = segmentable(text)  # as long as before: offsets stay
    for sentence in get_sentence_boundaries("en", text):
        piece = sentence["text"]
        at = text.index(piece, at)
        bare = piece.strip()
        if not bare:
            opens = True
        elif any(character.isalnum() for character in bare):
            start = at + piece.index(bare)
            for first, end in _cut_long(text, start, start + len(bare), longest):
                yield first, end, opens
                opens = False
        opens = opens or piece.endswith("\n\n")
        at += len(piece)


def _cut_long(text: str, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    while end - start > longest:
        space = max(text.rfind(mark, start, start + longest) for mark in (" ", "\n"))
        stop = space if space > start else start + longest
        yield start, start + len(text[start:stop].rstrip())
        while stop < end and text[stop].isspace():
            stop += 1
        start = stop
    if start < end:
        yield start, end
