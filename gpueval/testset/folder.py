"""The files of a test set: itself, its corpus and judgments in BEIR's layout, what was dropped, and the card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import DataError
from gpueval.fingerprint import text_digest
from gpueval.run_folder import write_atomically, write_json
from gpueval.testset.card import Card
from gpueval.testset.chunks import Chunk
from gpueval.testset.items import Checked, Item

SET, DROPPED = "testset.jsonl", "dropped.jsonl"


def write_set(
    folder: Path, chunks: Sequence[Chunk], kept: Sequence[Checked], dropped: Sequence[Checked], card: Card
) -> None:
    """Write the set, what was dropped, the corpus, queries and judgments in BEIR's layout, and ``card.json``."""
    write_corpus(folder, chunks)
    write_lines(folder / SET, [one.item for one in kept])
    write_lines(folder / DROPPED, [one.item for one in dropped])
    write_judgments(folder, [one.item for one in kept])
    write_json(folder / "card.json", card.to_dict())


def write_judgments(folder: Path, items: Sequence[Item]) -> None:
    """Write ``queries.jsonl`` and ``qrels/test.tsv`` of the items that have evidence, in BEIR's layout."""
    items = [item for item in items if item.relevant_ids]
    write_lines(folder / "queries.jsonl", ({"_id": item.id, "text": item.standalone} for item in items))
    lines = ["query-id\tcorpus-id\tscore", *(f"{item.id}\t{name}\t1" for item in items for name in item.relevant_ids)]
    (folder / "qrels").mkdir(exist_ok=True)
    write_atomically(folder / "qrels" / "test.tsv", ("\n".join(lines) + "\n").encode())


def write_corpus(folder: Path, chunks: Sequence[Chunk]) -> None:
    """Write ``corpus.jsonl``: id, text, source and place of every chunk."""
    rows = (
        {"_id": one.id, "text": one.text, "source": one.document, "start": one.start, "end": one.end} for one in chunks
    )
    write_lines(folder / "corpus.jsonl", rows)


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write JSON lines, whole or not at all."""
    encode = msgspec.json.Encoder().encode
    write_atomically(path, b"".join(encode(row) + b"\n" for row in rows))


def read_more(path: Path) -> list[Item]:
    """Read items put aside earlier; none where the file is missing or empty."""
    return read_items(path) if path.is_file() and path.read_bytes().strip() else []


def read_items(path: Path) -> list[Item]:
    """Read a set; a line needs a question, and a reference unless it is not answerable.

    Raises:
        DataError: The file or a line is wrong.
    """
    decode = msgspec.json.Decoder(Item).decode
    found: list[Item] = []
    seen: set[bytes] = set()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(path)) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            item = decode(line)
        except msgspec.DecodeError as error:
            raise DataError(f"is no item of a test set: {error}", file=str(path), line=number) from error
        if item.answerable and not (item.reference or "").strip():
            raise DataError(
                "is missing",
                file=str(path),
                line=number,
                field="reference",
                remedy='An item has a reference, or "answerable": false.',
            )
        key = text_digest(item.id)
        if key in seen:
            raise DataError(f"'{item.id}' is used twice", file=str(path), line=number, field="id")
        seen.add(key)
        found.append(item)
    if not found:
        raise DataError("holds no item", file=str(path))
    return found
