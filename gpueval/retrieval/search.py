"""Nearest documents of queries, exactly, and how near another search comes. Vectors have length 1; the score is the
cosine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval.engines.text_encoder import Vectors
from gpueval.lazy import require
from gpueval.retrieval.vectors import Rows, VectorStore
from gpueval_kernels import TopK, cosine_topk
from gpueval_kernels.cosine_topk.reference import score_pairs

_BLOCK_DOCUMENTS = 65_536
_BLOCK_QUERIES = 256


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


def exact(queries: Vectors, store: VectorStore, rows: Rows, k: int, device: str = "cpu") -> Found:
    """Search all documents, block by block, so that a corpus larger than memory streams through.

    O(queries x documents x dimensions) operations; memory for one block of documents and the best k so far. Equal
    scores go to the lower document number (:func:`gpueval_kernels.cosine_topk`).

    Args:
        queries: (queries, dimensions).
        store: Vectors.
        rows: Rows of the documents.
        k: Documents wanted.
        device: ``cpu``, or a GPU's name in torch.
    """
    began = time.perf_counter()
    moved: Any = queries
    if device.startswith("cuda"):
        moved = require("torch", "retrieve").from_numpy(queries).to(device)
    found: TopK | None = None
    first = 0
    for block in store.blocks(rows, _BLOCK_DOCUMENTS):
        found = cosine_topk(moved, block, min(k, len(rows)), first_id=first, carry=found)
        first += len(block)
    if found is None:
        return Found(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32), 0.0)
    return Found(found.ids, found.scores, time.perf_counter() - began)


def agreement(found: Found, truth: Found, k: int, queries: Vectors, store: VectorStore, rows: Rows) -> float:
    """Mean share of the exact ``k`` nearest that an index found.

    A document counts where its exact cosine reaches the exact k-th one, so that of equal documents any counts. The
    index's own scores are not asked: those of quantised vectors are estimates.

    Args:
        found: Result of the index.
        truth: Result of :func:`exact`.
        k: Documents that count.
        queries: (queries, dimensions).
        store: Vectors.
        rows: Rows of the documents.
    """
    wanted = np.minimum((truth.documents[:, :k] >= 0).sum(axis=1), k)
    border = truth.scores[np.arange(len(wanted)), np.maximum(wanted - 1, 0)] - 1e-6
    hits = np.zeros(len(wanted), np.int64)
    for start in range(0, len(wanted), _BLOCK_QUERIES):
        block = slice(start, start + _BLOCK_QUERIES)
        query, place = np.nonzero(found.documents[block, :k] >= 0)
        documents, at = np.unique(found.documents[block][query, place], return_inverse=True)
        cosines = score_pairs(queries[block], store.take(rows[documents]), query, at, True)
        hits[block] = np.bincount(query[cosines >= border[block][query]], minlength=len(hits[block]))
    return float(np.mean(np.minimum(hits, wanted) / np.maximum(wanted, 1))) if len(wanted) else 0.0


def lists_of(
    found: Found, queries: Sequence[str], documents: Sequence[str]
) -> Iterator[tuple[str, tuple[list[str], list[float]]]]:
    """Yield each query with its documents' names and scores."""
    for query, row, scores in zip(queries, found.documents.tolist(), found.scores.tolist(), strict=True):
        kept = [(documents[number], score) for number, score in zip(row, scores, strict=True) if number >= 0]
        yield query, ([name for name, _ in kept], [score for _, score in kept])
