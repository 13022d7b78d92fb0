"""Nearest documents of queries: exactly, or by a FAISS index. Vectors have length 1; the score is the cosine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval.engines.text_encoder import Vectors
from gpueval.errors import UsageError
from gpueval.lazy import require
from gpueval.retrieval.vectors import Rows, VectorStore

KINDS = ("exact", "flat", "ivf", "hnsw", "ivfpq")
_QUERY_BLOCK, _DOCUMENT_BLOCK = 256, 16_384
"""Their scores (16 MiB) stay in the processor's cache."""
_TRAIN_PER_LIST = 64
_LISTS_LOOKED_INTO = (1, 4, 16, 64)
_CANDIDATES_PER_RESULT = (1, 2, 8)


@dataclass(frozen=True, slots=True)
class Found:
    """Documents of every query.

    Attributes:
        documents: (queries, k) numbers of documents, best first; -1 where there are fewer.
        scores: (queries, k) cosines.
        seconds: Time of the search.
    """

    documents: NDArray[np.int64]
    scores: Vectors
    seconds: float


def exact(queries: Vectors, store: VectorStore, rows: Rows, k: int) -> Found:
    """Search all documents, block by block, so that a corpus larger than memory streams through.

    O(queries x documents x dimensions) operations; memory for one block of documents and the best k so far. Equal
    scores go to the lower document number.
    """
    began = time.perf_counter()
    k = min(k, len(rows))
    best = np.full((len(queries), k), -np.inf, np.float32)
    number = np.full((len(queries), k), -1, np.int64)
    first = 0
    for block in store.blocks(rows, _DOCUMENT_BLOCK):
        for start in range(0, len(queries), _QUERY_BLOCK):
            at = slice(start, start + _QUERY_BLOCK)
            best[at], number[at] = _merged(best[at], number[at], queries[at] @ block.T, first)
        first += len(block)
    return Found(number, best, time.perf_counter() - began)


def _merged(best: Vectors, number: NDArray[np.int64], scores: Vectors, first: int) -> tuple[Vectors, NDArray[np.int64]]:
    """Merge a block's scores into the best k so far; later documents must be better, not equal, to get in."""
    k = best.shape[1]
    floor = best[:, -1:]
    if not np.isfinite(floor).all() and scores.shape[1] > k:  # the first block: its own k-th score is a floor too
        border = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k, None]
        floor = np.maximum(floor, np.nextafter(border, np.float32(-np.inf)))
    row, column = np.nonzero(scores > floor)
    if not len(row):
        return best, number
    counts = np.bincount(row, minlength=len(best))
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = int(counts.max())
    candidates = np.full((len(best), width), -np.inf, np.float32)
    candidates[row, place] = scores[row, column]
    numbers = np.full((len(best), width), np.iinfo(np.int64).max)
    numbers[row, place] = column + first
    merged = np.concatenate([best, candidates], axis=1)
    merged_numbers = np.concatenate([number, numbers], axis=1)
    order = np.lexsort((merged_numbers, -merged), axis=1)[:, :k]
    kept = np.take_along_axis(merged_numbers, order, 1)
    return np.take_along_axis(merged, order, 1), np.where(kept == np.iinfo(np.int64).max, -1, kept)


@dataclass(frozen=True, slots=True)
class Built:
    """A FAISS index and what it cost.

    Attributes:
        index: The index.
        seconds: Time to train and fill it; 0 when it was read from disk.
        size_bytes: Its size on disk.
    """

    index: Any
    seconds: float
    size_bytes: int


def build(kind: str, store: VectorStore, rows: Rows, dimensions: int, file: Path) -> Built:
    """Build a FAISS index over documents, or read it where it was built before.

    Args:
        kind: ``flat``, ``ivf``, ``hnsw`` or ``ivfpq``.
        store: Vectors.
        rows: Rows of the documents.
        dimensions: Length of a vector.
        file: Where it is kept; its name must tell documents and kind apart.

    Raises:
        PrerequisiteError: FAISS is not installed.
        UsageError: Too few documents for this kind.
    """
    faiss = require("faiss", "retrieve")
    if file.is_file():
        try:
            return Built(faiss.read_index(str(file)), 0.0, file.stat().st_size)
        except RuntimeError:  # cut off or of another FAISS: it is built again
            file.unlink()
    began = time.perf_counter()
    index = faiss.index_factory(dimensions, _factory(kind, len(rows), dimensions), faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        wanted = min(len(rows), max(10_000, _TRAIN_PER_LIST * _lists(len(rows))))
        sample = np.random.Generator(np.random.Philox(0)).choice(len(rows), wanted, replace=False)
        index.train(store.take(rows[np.sort(sample)]))
    for block in store.blocks(rows):
        index.add(block)
    seconds = time.perf_counter() - began
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    faiss.write_index(index, str(partial))
    partial.replace(file)
    return Built(index, seconds, file.stat().st_size)


def _lists(documents: int) -> int:
    """Lists of an inverted file: about four times the square root of the documents, a power of two."""
    return int(2 ** max(2, round(np.log2(4 * documents**0.5))))


def _factory(kind: str, documents: int, dimensions: int) -> str:
    if kind == "flat":
        return "Flat"
    if kind == "hnsw":
        return "HNSW32,Flat"
    lists = _lists(documents)
    if documents < 40 * lists:
        lists = max(1, documents // 40)
    if kind == "ivf":
        return f"IVF{lists},Flat"
    if documents < 10_000:
        raise UsageError(f"ivfpq needs 10,000 documents to train on; there are {documents:,}.", "Use hnsw or ivf.")
    parts = next(parts for parts in range(dimensions // 8, 0, -1) if dimensions % parts == 0)
    return f"IVF{lists},PQ{parts}"


def settings(kind: str, index: Any, k: int) -> Sequence[int | None]:
    """Search settings of the trade-off table: lists looked into, or candidates kept; None for an index without."""
    if kind == "hnsw":
        return [share * k for share in _CANDIDATES_PER_RESULT]
    if kind.startswith("ivf"):
        return [lists for lists in _LISTS_LOOKED_INTO if lists <= index.nlist]
    return (None,)


def search(kind: str, built: Built, queries: Vectors, k: int, setting: int | None) -> Found:
    """Search an index with one setting."""
    if setting is not None:
        if kind == "hnsw":
            built.index.hnsw.efSearch = setting
        else:
            built.index.nprobe = setting
    began = time.perf_counter()
    scores, documents = built.index.search(queries, k)
    return Found(documents.astype(np.int64), scores, time.perf_counter() - began)


def agreement(found: Found, truth: Found, k: int) -> float:
    """Mean share of the exact ``k`` nearest that an index found: documents that reach the exact k-th score, so that of
    equal documents any counts.
    """
    wanted = np.minimum((truth.documents[:, :k] >= 0).sum(axis=1), k)
    border = truth.scores[np.arange(len(wanted)), np.maximum(wanted - 1, 0)] - 1e-5
    hits = ((found.scores[:, :k] >= border[:, None]) & (found.documents[:, :k] >= 0)).sum(axis=1)
    return float(np.mean(np.minimum(hits, wanted) / np.maximum(wanted, 1))) if len(wanted) else 0.0


def lists_of(
    found: Found, queries: Sequence[str], documents: Sequence[str]
) -> Iterator[tuple[str, tuple[list[str], list[float]]]]:
    """Yield each query with its documents' names and scores."""
    for query, row, scores in zip(queries, found.documents.tolist(), found.scores.tolist(), strict=True):
        kept = [(documents[number], score) for number, score in zip(row, scores, strict=True) if number >= 0]
        yield query, ([name for name, _ in kept], [score for _, score in kept])
