"""Runs and relevance judgments as arrays, from TREC files or from lists of identifiers.

Identifiers are 64-bit hashes from the first byte on. A chance match of two different documents of one query is expected
once in 10^11 lookups; a document of another query does not count.
"""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpueval.errors import DataError
from gpueval.machine import usable_cores
from gpueval.retrieval.words import Block, Floats, Hashes, Ints, hashes, numbers, read_blocks

Ties = Literal["input", "trec"]


@dataclass(frozen=True, slots=True)
class Run:
    """What a retriever returned, ranked.

    Attributes:
        queries: Query identifiers, in order of first appearance.
        offsets: Row where each query's list begins, and the end; shape (queries + 1,).
        documents: Hashes of documents by rank; shape (rows,).
        duplicates: Repeated documents of a query that were dropped; the first rank counts.
    """

    queries: tuple[str, ...]
    offsets: Ints
    documents: Hashes
    duplicates: int


@dataclass(frozen=True, slots=True)
class Judgments:
    """Relevance grades.

    Attributes:
        queries: Query identifiers.
        offsets: Row where each query's judgments begin, and the end.
        documents: Hashes of documents.
        grades: Grade of each; below the relevance level a document is not relevant.
        duplicates: Repeated judgments that were dropped; the first one counts.
    """

    queries: tuple[str, ...]
    offsets: Ints
    documents: Hashes
    grades: Floats
    duplicates: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """Unranked rows of a file: query number, document hash, value, and where the document's name stands."""

    queries: tuple[str, ...]
    query: Ints
    document: Hashes
    value: Floats
    begin: Ints
    length: Ints
    data: memoryview


def read_run(path: Path, ties: Ties = "input") -> Run:
    """Read a TREC run (``query Q0 document rank score tag``), ranked by descending score.

    Args:
        path: Plain or ``.gz``.
        ties: Equal scores stay in the file's order (``input``), or go by descending document identifier after the
            scores are rounded to single precision (``trec``, what trec_eval does).

    Raises:
        DataError: A line is not of that form.
    """
    return _ordered(_rows(path, 6, 0, 2, 4, "score"), ties)


def read_judgments(path: Path) -> Judgments:
    """Read TREC relevance judgments (``query 0 document grade``).

    Raises:
        DataError: A line is not of that form.
    """
    return _grouped(_rows(path, 4, 0, 2, 3, "grade"))


def run_from_lists(lists: Mapping[str, Sequence[str]], scores: Mapping[str, Sequence[float]], ties: Ties) -> Run:
    """Make a run from lists of document identifiers.

    Args:
        lists: Documents by query.
        scores: Scores in the order of the documents; a query without stays in its list's order.
        ties: Rule for equal scores.
    """
    triples = (
        (query, document, value)
        for query, documents in lists.items()
        for document, value in zip(documents, scores.get(query) or range(0, -len(documents), -1), strict=True)
    )
    return _ordered(_from_triples(triples, lists), ties)


def judgments_from_grades(grades: Mapping[str, Mapping[str, float]]) -> Judgments:
    """Make judgments from grades by query and document."""
    triples = ((query, document, grade) for query, found in grades.items() for document, grade in found.items())
    return _grouped(_from_triples(triples, grades))


def _from_triples(triples: Iterable[tuple[str, str, float]], queries: Iterable[str]) -> _Rows:
    """Make rows of (query, document, value); ``queries`` are all queries, those without a row included."""
    place = {query: i for i, query in enumerate(queries)}
    number, names, values = [], [], []
    for query, document, value in triples:
        number.append(place[query])
        names.append(str(document).encode("utf-8", "surrogatepass"))
        values.append(value)
    lengths = np.fromiter((len(name) for name in names), np.int64, len(names))
    ends = np.cumsum(lengths)
    data = np.frombuffer(b"".join(names) + bytes(24), np.uint8)
    block = Block(data, (ends - lengths)[:, None], ends[:, None], memoryview(b""), 0)
    document_hashes = hashes(block, 0) if names else np.empty(0, np.uint64)
    return _Rows(
        tuple(place),
        np.array(number, np.int64),
        document_hashes,
        np.array(values, np.float64),
        ends - lengths,
        lengths,
        memoryview(data.tobytes()),
    )


def _rows(path: Path, columns: int, query: int, document: int, value: int, field: str) -> _Rows:
    data, file = _bytes(path), str(path)

    def read(block: Block) -> tuple[Hashes, list[str], Ints, Hashes, Floats, Ints, Ints]:
        found = hashes(block, query)
        heads = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
        begin, end = block.starts[:, document], block.ends[:, document]
        return (
            found[heads],
            [block.text(line, query) for line in heads.tolist()],
            np.diff(np.append(heads, len(found))),
            hashes(block, document),
            numbers(block, value, file, field),
            begin + block.offset,
            end - begin,
        )

    parts = read_blocks(data, columns, file, read, usable_cores())
    if not parts:
        raise DataError("holds no line", file=file)
    known: dict[int, int] = {}
    names: list[str] = []
    numbered: list[int] = []
    for keys, texts, *_ in parts:
        for key, text in zip(keys.tolist(), texts, strict=True):
            number = known.get(key)
            if number is None:
                number = known[key] = len(names)
                names.append(text)
            numbered.append(number)
    lengths = np.concatenate([part[2] for part in parts])
    query_of_row = np.repeat(np.array(numbered, np.int64), lengths)
    documents, values = np.concatenate([part[3] for part in parts]), np.concatenate([part[4] for part in parts])
    begins, sizes = np.concatenate([part[5] for part in parts]), np.concatenate([part[6] for part in parts])
    return _Rows(tuple(names), query_of_row, documents, values, begins, sizes, data)


def _without_mark(data: memoryview) -> memoryview:
    """Leave out a byte-order mark."""
    return data[3:] if bytes(data[:3]) == b"\xef\xbb\xbf" else data


def _bytes(path: Path) -> memoryview:
    try:
        if path.suffix == ".gz":
            return _without_mark(memoryview(gzip.decompress(path.read_bytes())))
        if path.stat().st_size == 0:
            raise DataError("is empty", file=str(path))
        with path.open("rb") as stream:
            return _without_mark(memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {error}", file=str(path)) from error


def _grouped(rows: _Rows) -> Judgments:
    """Order rows by query and drop repeated documents."""
    query, document, grade = rows.query, rows.document, rows.value
    if not (query[1:] >= query[:-1]).all():
        order = np.argsort(query, kind="stable")
        query, document, grade = query[order], document[order], grade[order]
    kept, offsets = _first_of_each(query, document, len(rows.queries))
    return Judgments(rows.queries, offsets, document[kept], grade[kept], int(len(kept) - kept.sum()))


def _ordered(rows: _Rows, ties: Ties) -> Run:
    """Order rows by query and descending score, and drop repeated documents."""
    query = rows.query
    with np.errstate(over="ignore"):  # beyond single precision all are equal, as in trec_eval
        score = rows.value.astype(np.float32) if ties == "trec" else rows.value
    order: Ints | None = None
    if not _ranked(query, score):
        order = np.lexsort((-score, query))
        query, score = query[order], score[order]
    if ties == "trec":
        order = _by_name(rows, query, score, order if order is not None else np.arange(len(query)))
    document = rows.document if order is None else rows.document[order]
    kept, offsets = _first_of_each(query, document, len(rows.queries))
    return Run(rows.queries, offsets, document[kept], int(len(kept) - kept.sum()))


def _ranked(query: Ints, score: NDArray[np.floating]) -> bool:
    """Whether the rows already stand as they should; most runs are written that way."""
    same = query[1:] == query[:-1]
    return bool(np.all((query[1:] > query[:-1]) | (same & (score[1:] <= score[:-1]))))


def _by_name(rows: _Rows, query: Ints, score: NDArray[np.floating], order: Ints) -> Ints:
    """Order stretches of equal scores by descending document name, byte by byte as ``strcmp`` does."""
    tied = np.zeros(len(order), bool)
    tied[1:] = (query[1:] == query[:-1]) & (score[1:] == score[:-1])
    if not tied.any():
        return order
    tied[:-1] |= tied[1:]
    where = np.flatnonzero(tied)
    heads = np.concatenate([[True], (query[where[1:]] != query[where[:-1]]) | (score[where[1:]] != score[where[:-1]])])
    group = np.cumsum(heads)
    line = order[where]
    longest = int(rows.length[line].max())
    letters = np.frombuffer(rows.data, np.uint8)
    names = np.zeros((len(line), longest), np.uint8)
    for i in range(longest):
        inside = rows.length[line] > i
        names[inside, i] = letters[rows.begin[line[inside]] + i]
    keys = names.view(f"S{longest}").reshape(-1)
    ascending = np.lexsort((keys, -group))  # reversed: groups ascend, names descend
    result = order.copy()
    result[where] = line[ascending[::-1]]
    return result


def _first_of_each(query: Ints, document: Hashes, n: int) -> tuple[NDArray[np.bool_], Ints]:
    """Mark the first row of every document of a query (rows are sorted by query) and return the marked rows' offsets
    by query, shape (n + 1,).
    """
    kept = np.ones(len(query), bool)
    offsets = np.searchsorted(query, np.arange(n + 1))
    if not _repeats(document, offsets):
        return kept, offsets
    order = np.lexsort((np.arange(len(query)), document, query))
    again = (query[order[1:]] == query[order[:-1]]) & (document[order[1:]] == document[order[:-1]])
    kept[order[1:][again]] = False
    return kept, np.searchsorted(query[kept], np.arange(n + 1))


def _repeats(document: Hashes, offsets: Ints) -> bool:
    """Whether a list holds a document twice: lists of one length are sorted together, which is far less than all
    rows.
    """
    lengths = np.diff(offsets)
    for length in np.unique(lengths):
        if length > 1:
            begins = offsets[:-1][lengths == length]
            whole = len(begins) * length == len(document)
            lists = document.reshape(-1, length) if whole else document[begins[:, None] + np.arange(length)]
            ordered = np.sort(lists, axis=1)
            if (ordered[:, 1:] == ordered[:, :-1]).any():
                return True
    return False
