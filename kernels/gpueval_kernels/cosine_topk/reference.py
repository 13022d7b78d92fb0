"""The definition of :func:`gpueval_kernels.cosine_topk`, and what runs on a processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpueval_kernels.lengths import SHORTEST, lengths, prepared

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]
Found = tuple[Vectors, Numbers]

_QUERY_BLOCK, _DOCUMENT_BLOCK = 256, 16_384
"""Their scores (16 MiB) stay in the processor's cache."""
_PAIR_BLOCK = 1024
"""Their float64 copies stay there too."""
_NONE = np.iinfo(np.int64).max


def nothing(n: int, k: int) -> Found:
    """Return a result without a document."""
    return np.full((n, k), -np.inf, np.float32), np.full((n, k), -1, np.int64)


def run(
    queries: NDArray[np.floating],
    documents: NDArray[np.floating],
    k: int,
    cosine: bool,
    ranges: Numbers | None,
    mask: NDArray[np.bool_] | None,
    first_id: int,
    before: Found,
) -> Found:
    """Merge the documents into ``before``, one block of queries and documents at a time."""
    q_length = lengths(queries)
    q = prepared(queries, q_length, unit=cosine)
    best, number = before[0].copy(), before[1].copy()
    for at in range(0, len(documents), _DOCUMENT_BLOCK):
        raw = documents[at : at + _DOCUMENT_BLOCK]
        d_length = lengths(raw)
        d = prepared(raw, d_length, unit=cosine)
        unfit = ~np.isfinite(d_length)
        longest = float(d_length.max(initial=0.0, where=~unfit))
        for start in range(0, len(q), _QUERY_BLOCK):
            rows = slice(start, start + _QUERY_BLOCK)
            scores = q[rows] @ d.T
            if unfit.any():
                scores[:, unfit] = -np.inf
            scores[~np.isfinite(q_length[rows])] = -np.inf
            if ranges is not None:
                place = at + np.arange(len(d))
                outside = (place < ranges[rows, :1]) | (place >= ranges[rows, 1:])
                scores[outside] = -np.inf
            if mask is not None:
                scores[~mask[rows, at : at + _DOCUMENT_BLOCK]] = -np.inf
            error = np.full(len(scores), rounding(q.shape[1]))
            if not cosine:
                error = error * np.where(np.isfinite(q_length[rows]), q_length[rows], 0) * longest + underflow(
                    q.shape[1]
                )
            row, column = _candidates(scores, best[rows, -1], error, k)
            if len(row):
                exact = score_pairs(queries[rows], raw, row, column, cosine)
                best[rows], number[rows] = _merged(best[rows], number[rows], row, exact, column + at + first_id)
    return best, number


def rounding(dimensions: int) -> float:
    """Bound of the error of a float32 product of two vectors of length 1, in any order of summation (Higham, Accuracy
    and stability of numerical algorithms, 2002, section 3.1), and of rounding the vectors before.
    """
    return (dimensions + 4) * 2.0**-24


def underflow(dimensions: int) -> float:
    """Bound of what a float32 product loses where its terms are too small for a number."""
    return dimensions * 2.0**-126


def score_pairs(
    queries: NDArray[np.floating], documents: NDArray[np.floating], row: Numbers, column: Numbers, cosine: bool
) -> Vectors:
    """Score pairs in float64 and round to float32; a cosine is 0 where a length counts as 0."""
    scores = np.empty(len(row), np.float32)
    for start in range(0, len(row), _PAIR_BLOCK):
        at = slice(start, start + _PAIR_BLOCK)
        q, d = queries[row[at]].astype(np.float64), documents[column[at]].astype(np.float64)
        product = np.einsum("ij,ij->i", q, d)
        if cosine:
            squares = np.einsum("ij,ij->i", q, q), np.einsum("ij,ij->i", d, d)
            long = np.minimum(*squares) >= SHORTEST**2
            product = np.divide(product, np.sqrt(squares[0] * squares[1]), out=np.zeros_like(product), where=long)
        scores[at] = product
    return scores


def merge(before: Found, new: Found, first_id: int) -> Found:
    """Merge the result over later documents (numbered from 0) into the result over earlier ones."""
    row, place = np.nonzero(new[1] >= 0)
    return _merged(before[0], before[1], row, new[0][row, place], new[1][row, place] + first_id)


def _candidates(scores: Vectors, kth: Vectors, error: NDArray[np.float64], k: int) -> tuple[Numbers, Numbers]:
    """Return row and column of every score that may be among the k best once it is scored exactly."""
    floor = kth.astype(np.float64)
    if scores.shape[1] > k and not np.isfinite(floor).all():  # first block: its own k-th score is a floor too
        border = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k]
        floor = np.maximum(floor, border - error)
    with np.errstate(invalid="ignore"):
        floor = np.where(np.isfinite(floor), floor - error, np.finfo(np.float32).min)
    found = np.flatnonzero(scores >= floor[:, None].astype(np.float32))  # faster than nonzero of two dimensions
    return np.divmod(found, scores.shape[1])


def _merged(best: Vectors, number: Numbers, row: Numbers, scores: Vectors, numbers: Numbers) -> Found:
    """Merge ragged candidates (``row`` ascends) into padded results."""
    counts = np.bincount(row, minlength=len(best))
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    width, k = int(counts.max(initial=0)), best.shape[1]
    merged = np.full((len(best), k + width), -np.inf, np.float32)
    ids = np.full((len(best), k + width), _NONE)
    merged[:, :k], ids[:, :k] = best, np.where(number < 0, _NONE, number)
    merged[row, k + place], ids[row, k + place] = scores, numbers
    order = np.lexsort((ids, -merged), axis=1)[:, :k]
    kept = np.take_along_axis(ids, order, 1)
    return np.take_along_axis(merged, order, 1), np.where(kept == _NONE, -1, kept)
