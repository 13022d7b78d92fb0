"""Exact nearest vectors: cosine or inner product, with ranges and masks, equal scores by lowest number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpueval_kernels.choice import Implementation, choose, device_of, launched_on, to_floats, to_numpy, to_tensor
from gpueval_kernels.cosine_topk import reference

Similarity = Literal["cosine", "dot"]
MOST_FUSED = 1024
"""Largest k of the Triton kernels; beyond it the reference runs."""


@dataclass(frozen=True, slots=True)
class TopK:
    """Nearest documents of every query.

    Attributes:
        scores: (queries, k) float32, best first; -inf where there are fewer.
        ids: (queries, k) int64 numbers of documents; -1 where there are fewer.
        implementation: What ran.
    """

    scores: NDArray[np.float32]
    ids: NDArray[np.int64]
    implementation: Implementation


def cosine_topk(
    queries: Any,
    documents: Any,
    k: int,
    *,
    similarity: Similarity = "cosine",
    ranges: Any = None,
    mask: Any = None,
    first_id: int = 0,
    carry: TopK | None = None,
    implementation: Implementation | None = None,
) -> TopK:
    """Return each query's k documents of highest ``q . d`` (``dot``) or ``q . d / (|q| |d|)`` (``cosine``).

    Exact: candidates come from products with float32 accumulation; every document within their rounding error of the
    k-th place is scored again in float64 from the vectors as given, and that score, rounded to float32, decides. Equal
    scores go to the lower number. So the result depends neither on the device nor on how the work is cut into blocks.

    A vector of length 0 (below 2^-45) has the cosine 0 with everything. A vector with a NaN or an infinity, or whose
    squared length exceeds float32, is never found, and as a query it finds nothing.

    Args:
        queries: (queries, d) float32, float16 or bfloat16; NumPy array or torch tensor. On a GPU other types, and
            queries of another type than the documents, become float32.
        documents: (documents, d), likewise.
        k: Documents wanted, at least 1.
        similarity: ``cosine`` or ``dot``.
        ranges: (queries, 2) integers: query i looks only at documents ``ranges[i, 0] <= j < ranges[i, 1]`` (positions
            in ``documents``).
        mask: (queries, documents) booleans, or numbers that are 0 or not: False hides a document from a query.
        first_id: Number of the first document, for documents that come in blocks.
        carry: Result over the earlier blocks; merged with this one's.
        implementation: Forces one; None is Triton for tensors on a GPU and k up to 1,024.

    Returns:
        The documents. O(queries x documents x d) time; memory for one block of scores, never all of them.

    Raises:
        ValueError: Shapes do not go together or k is below 1.
    """
    n, m = len(queries), len(documents)
    if queries.ndim != 2 or documents.ndim != 2 or queries.shape[1] != documents.shape[1]:
        raise ValueError(f"queries {tuple(queries.shape)} and documents {tuple(documents.shape)} do not go together")
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    if similarity not in ("cosine", "dot"):
        raise ValueError(f"similarity is '{similarity}'; it is 'cosine' or 'dot'")
    if ranges is not None and tuple(ranges.shape) != (n, 2):
        raise ValueError(f"ranges have shape {tuple(ranges.shape)}; ({n}, 2) is needed")
    if mask is not None and tuple(mask.shape) != (n, m):
        raise ValueError(f"mask has shape {tuple(mask.shape)}; ({n}, {m}) is needed")
    if carry is not None and carry.ids.shape != (n, k):
        raise ValueError(f"carry has shape {carry.ids.shape}; ({n}, {k}) is needed")
    chosen = choose(implementation, queries, documents)
    if implementation is None and k > MOST_FUSED:
        chosen = "reference"
    before = reference.nothing(n, k) if carry is None else (carry.scores, carry.ids)
    if not n or not m:
        return TopK(*before, chosen)
    cosine = similarity == "cosine"
    if chosen == "triton":
        from gpueval_kernels.cosine_topk import triton_kernel

        if k > MOST_FUSED:
            raise ValueError(f"k is {k}; the Triton kernels take at most {MOST_FUSED}")
        device = device_of(queries, documents)
        queries, documents = to_floats(queries, device), to_floats(documents, device)
        if queries.dtype != documents.dtype:
            queries, documents = queries.float(), documents.float()
        bounds = None if ranges is None else to_tensor(ranges, device)
        shown = None if mask is None else to_tensor(mask, device)
        with launched_on(device):
            scores, ids = triton_kernel.run(queries, documents, k, cosine, bounds, shown)
        return TopK(*reference.merge(before, (to_numpy(scores), to_numpy(ids)), first_id), chosen)
    bounds = None if ranges is None else to_numpy(ranges)
    shown = None if mask is None else to_numpy(mask).astype(bool)
    found = reference.run(to_numpy(queries), to_numpy(documents), k, cosine, bounds, shown, first_id, before)
    return TopK(*found, chosen)
