"""The documents have changed: which items still rest on what stands there? Needs no model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from gpueval.errors import DataError
from gpueval.run_folder import locked
from gpueval.testset.chunks import Chunk, cut
from gpueval.testset.documents import Document, read_corpus
from gpueval.testset.folder import SET, read_items, read_more, write_corpus, write_judgments, write_lines
from gpueval.testset.items import Item, Proof

STALE = "stale.jsonl"


class Change(StrEnum):
    """What became of an item."""

    SAME = "same"
    MOVED = "moved"
    CHANGED = "changed"
    GONE = "gone"
    RECHECK = "to be checked again"


CHANGE_WORDS = {
    Change.SAME: "Its evidence stands where it stood.",
    Change.MOVED: "Its evidence stands elsewhere, word by word: place and document were put right.",
    Change.CHANGED: "The document is there, and no longer says the same.",
    Change.GONE: "The document is gone, and its words stand nowhere else.",
    Change.RECHECK: "It is meant to be unanswerable, and some document is new or another one.",
}


@dataclass(frozen=True, slots=True)
class Updated:
    """What a change of the documents did to a set.

    Attributes:
        changes: Per item id what became of it.
        n_kept: Items that stay in the set.
    """

    changes: dict[str, Change]
    n_kept: int


def update_testset(folder: Path | str, corpus: Path | str, chunk_characters: int | None = None) -> Updated:
    """Hold a set against the documents as they are now.

    Items whose evidence changed or is gone move from ``testset.jsonl`` to ``stale.jsonl``, as do unanswerable ones
    when any document is new or changed: what they ask for may now be told. Evidence that stands elsewhere, word by
    word, gets its new place. ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv`` are written anew.

    Args:
        folder: Folder of the set.
        corpus: Folder of the documents.
        chunk_characters: Longest chunk; None takes what the set was made with.

    Raises:
        DataError: The set, its corpus file or the documents cannot be read.
    """
    folder = Path(folder)
    with locked(folder):
        items = read_items(folder / SET)
        before = _texts_before(folder / "corpus.jsonl")
        read = read_corpus(Path(corpus))
        chunks = cut(read.documents, chunk_characters or _chunk_characters(folder / "card.json"))
        now = {document.name: document for document in read.documents}
        new = any(chunk.text not in before for chunk in chunks)
        of_document: defaultdict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            of_document[chunk.document].append(chunk)
        kept, stale, changes = list[Item](), list[Item](), dict[str, Change]()
        for item in items:
            change, moved = _change(item, now, of_document, new=new)
            changes[item.id] = change
            (kept if change in (Change.SAME, Change.MOVED) else stale).append(moved)
        before_stale = read_more(folder / STALE)
        write_lines(folder / STALE, [*before_stale, *stale])
        write_lines(folder / SET, kept)
        write_corpus(folder, chunks)
        write_judgments(folder, kept)
    return Updated(changes, len(kept))


def _texts_before(path: Path) -> frozenset[str]:
    try:
        return frozenset(msgspec.json.decode(line)["text"] for line in path.read_bytes().splitlines() if line.strip())
    except (OSError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise DataError(
            f"cannot be read: {error}", file=str(path), remedy="It is written with the set: give the whole folder."
        ) from error


def _chunk_characters(card: Path) -> int:
    try:
        return int(msgspec.json.decode(card.read_bytes())["facts"]["wish"]["chunk_characters"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            "does not say how long its chunks are", file=str(card), remedy="Give it with --chunk, in characters."
        ) from error


def _change(
    item: Item, now: dict[str, Document], chunks: Mapping[str, Sequence[Chunk]], *, new: bool
) -> tuple[Change, Item]:
    if item.answerable and not item.evidence:  # made by hand: its ids are all there is
        there = {chunk.id for name in item.relevant_ids for chunk in chunks.get(name.rpartition("#")[0], ())}
        return (Change.SAME if there.issuperset(item.relevant_ids) else Change.CHANGED), item
    found = [_place(proof, now) for proof in item.evidence]
    if any(place is None for place in found):
        gone = any(
            place is None and proof.document not in now for proof, place in zip(item.evidence, found, strict=True)
        )
        return (Change.GONE if gone else Change.CHANGED), item
    if not item.answerable and new:
        return Change.RECHECK, item
    places = tuple(place for place in found if place is not None)
    relevant = tuple(
        dict.fromkeys(name for place in places for name in _holding(place, chunks.get(place.document, ())))
    )
    moved = msgspec.structs.replace(item, evidence=places, relevant_ids=relevant if item.answerable else ())
    return (Change.SAME if moved == item else Change.MOVED), moved


def _holding(proof: Proof, chunks: Sequence[Chunk]) -> list[str]:
    """Chunks that hold a proof: the one with its words, or those that share at least half of it or of themselves."""
    if same := [chunk.id for chunk in chunks if chunk.text == proof.text]:
        return same

    def shares_half(chunk: Chunk) -> bool:
        shared = min(chunk.end, proof.end) - max(chunk.start, proof.start)
        return shared * 2 >= min(len(chunk.text), len(proof.text))

    return [chunk.id for chunk in chunks if shares_half(chunk)]


def _place(proof: Proof, now: dict[str, Document]) -> Proof | None:
    """Where the words of a proof stand now: in its own document, else in the only other one that has them."""
    own = now.get(proof.document)
    if own is not None:
        if _stands(proof.text, own.text, proof.start):
            return proof
        start = _find(proof.text, own.text)
        if start is not None:
            return msgspec.structs.replace(proof, start=start, end=start + len(proof.text))
    others = [(one, at) for one in now.values() if one is not own and (at := _find(proof.text, one.text)) is not None]
    if len(others) != 1:
        return None
    document, start = others[0]
    name = f"{document.name}#{proof.id.rpartition('#')[2]}"
    return Proof(name, document.name, start, start + len(proof.text), proof.text)


def _find(wanted: str, text: str) -> int | None:
    start = text.find(wanted)
    while start >= 0 and not _stands(wanted, text, start):
        start = text.find(wanted, start + 1)
    return start if start >= 0 else None


def _stands(wanted: str, text: str, start: int) -> bool:
    """Whether a text stands at a place, and no word or number goes on across its borders."""
    end = start + len(wanted)
    around = (text[start - 1 : start] + wanted[:1], wanted[-1:] + text[end : end + 1])
    return text.startswith(wanted, start) and not any(len(two) > 1 and two.isalnum() for two in around)


def by_change(updated: Updated) -> dict[Change, Sequence[str]]:
    """Ids per change, in the order of :class:`Change`."""
    found: defaultdict[Change, list[str]] = defaultdict(list)
    for name, change in updated.changes.items():
        found[change].append(name)
    return {change: found[change] for change in Change if change in found}
