"""The Triton kernels of :func:`gpueval_kernels.cosine_topk`: scores never leave the registers, and nothing is sorted
there.

1. ``group_max_kernel`` multiplies tiles of queries and documents and writes the highest score of every 32 documents.
2. The groups with the highest maxima are chosen: the k-th of these maxima is a floor under the k-th best score.
3. ``group_score_kernel`` scores the documents of the chosen groups.
4. Every document within rounding error of the k-th place is scored in float64, ordered, and checked against the best
   group left out. Where that could still matter (many equal documents), the query is done with all documents.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from gpueval_kernels.cosine_topk.reference import rounding, underflow
from gpueval_kernels.lengths import SHORTEST, lengths_of_tensor, scale

_GROUP = 32
_SPARE_GROUPS = 8
_QUERIES, _DOCUMENTS, _DEPTH_BYTES = 64, 128, 64
"""A tile; products of float32 need more registers, so its slices are half as deep."""
_SCORE_DEPTH = 64
_NUMBERS_AT_ONCE = 1 << 27
"""Bounds what a block of queries keeps: maxima, scores of chosen groups, gathered vectors."""


@triton.jit
def _shown(score, query, document, real, there, ranges, mask, m, RANGED: tl.constexpr, MASKED: tl.constexpr):
    """Replace scores that are no numbers or belong to hidden documents by -inf; ``real`` and ``there`` keep loads in
    bounds.
    """
    fit = (score == score) & (score < float("inf")) & there
    if RANGED:
        fit = fit & (document >= tl.load(ranges + query * 2, real, 0))
        fit = fit & (document < tl.load(ranges + query * 2 + 1, real, 0))
    if MASKED:
        fit = fit & (tl.load(mask + query.to(tl.int64) * m + document, real & there, 0) != 0)
    return tl.where(fit, score, -float("inf"))


@triton.jit
def group_max_kernel(
    queries, documents, q_scale, d_scale, ranges, mask, out, n, m, dimensions, groups,
    RANGED: tl.constexpr, MASKED: tl.constexpr,
    QUERIES: tl.constexpr, DOCUMENTS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Write (n, groups) highest scores of each query in each group of documents.

    Neighbouring programs take the same documents, which so come from memory once. The grid has one axis: the others
    hold at most 65,535 programs, too few for the tiles of more than eight million documents.
    """
    tiles = tl.cdiv(n, QUERIES)
    document_tile = tl.program_id(0) // tiles
    first_query, first_document = (tl.program_id(0) % tiles) * QUERIES, document_tile * DOCUMENTS
    q_row, d_row = tl.arange(0, QUERIES), tl.arange(0, DOCUMENTS)
    query, document = first_query + q_row, first_document + d_row
    real, there = query < n, document < m
    q_tile = queries + first_query.to(tl.int64) * dimensions
    d_tile = documents + first_document.to(tl.int64) * dimensions
    score = tl.zeros((QUERIES, DOCUMENTS), tl.float32)
    for depth in range(0, dimensions, DEPTH):
        column = depth + tl.arange(0, DEPTH)
        inside = column < dimensions
        q = tl.load(q_tile + (q_row[:, None] * dimensions + column[None, :]), real[:, None] & inside[None, :], 0.0)
        d = tl.load(d_tile + (d_row[:, None] * dimensions + column[None, :]), there[:, None] & inside[None, :], 0.0)
        score = tl.dot(q, tl.trans(d), score, input_precision="ieee")
    score = score * tl.load(q_scale + query, real, 0.0)[:, None] * tl.load(d_scale + document, there, 0.0)[None, :]
    score = _shown(
        score, query[:, None], document[None, :], real[:, None], there[None, :], ranges, mask, m, RANGED, MASKED
    )
    highest = tl.max(tl.reshape(score, (QUERIES, DOCUMENTS // GROUP, GROUP)), axis=2)
    group = document_tile * (DOCUMENTS // GROUP) + tl.arange(0, DOCUMENTS // GROUP)
    tile = out + first_query.to(tl.int64) * groups
    tl.store(tile + (q_row[:, None] * groups + group[None, :]), highest, real[:, None] & (group < groups)[None, :])


@triton.jit
def group_score_kernel(
    queries, documents, q_scale, d_scale, ranges, mask, chosen, out, m, dimensions, picked,
    RANGED: tl.constexpr, MASKED: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Write (n, picked, GROUP) scores of the documents of each query's chosen groups."""
    place = tl.program_id(0).to(tl.int64) * picked + tl.program_id(1)
    first = tl.load(chosen + place) * GROUP
    row = tl.arange(0, GROUP)
    query, document = tl.program_id(0) + row * 0, first + row
    there = document < m
    q_tile = queries + tl.program_id(0).to(tl.int64) * dimensions
    d_tile = documents + first * dimensions
    score = tl.zeros((GROUP,), tl.float32)
    for depth in range(0, dimensions, DEPTH):
        column = depth + tl.arange(0, DEPTH)
        inside = column < dimensions
        q = tl.load(q_tile + column, inside, 0.0).to(tl.float32)
        d = tl.load(d_tile + (row[:, None] * dimensions + column[None, :]), there[:, None] & inside[None, :], 0.0)
        score += tl.sum(q[None, :] * d.to(tl.float32), axis=1)
    score = score * tl.load(q_scale + tl.program_id(0)) * tl.load(d_scale + document, there, 0.0)
    score = _shown(score, query, document, there, there, ranges, mask, m, RANGED, MASKED)
    tl.store(out + place * GROUP + tl.arange(0, GROUP), score)


def run(queries: Any, documents: Any, k: int, cosine: bool, ranges: Any, mask: Any) -> tuple[Any, Any]:
    """Launch the kernels block of queries by block; returns (queries, k) scores and ids on the tensors' device."""
    m, dimensions = documents.shape
    groups = triton.cdiv(m, _GROUP)
    picked = min(groups, k + _SPARE_GROUPS)
    d_length = lengths_of_tensor(documents)
    d_scale = scale(d_length, cosine)
    each = max(groups, picked * _GROUP, 2 * (k + _GROUP) * dimensions)
    step = max(1, _NUMBERS_AT_ONCE // each)
    parts = []
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        q = queries[rows]
        bounds = None if ranges is None else ranges[rows].to(torch.int64).contiguous()
        shown = None if mask is None else (mask[rows] != 0).to(torch.uint8)
        q_length = lengths_of_tensor(q)
        scales = scale(q_length, cosine), d_scale
        error = torch.full((len(q), 1), rounding(dimensions), device=q.device)
        if not cosine:
            lengths = q_length.nan_to_num(0, 0, 0)[:, None] * d_length.nan_to_num(0, 0, 0).max()
            error = error * lengths + underflow(dimensions)
        within = _Within(documents, d_length, cosine, bounds, shown)
        flags = {"RANGED": bounds is not None, "MASKED": shown is not None}
        some = (bounds if bounds is not None else d_scale), (shown if shown is not None else d_scale)
        highest = torch.empty((len(q), groups), dtype=torch.float32, device=q.device)
        group_max_kernel[(triton.cdiv(len(q), _QUERIES) * triton.cdiv(m, _DOCUMENTS),)](
            q, documents, *scales, *some, highest, len(q), m, dimensions, groups, **flags,
            QUERIES=_QUERIES, DOCUMENTS=_DOCUMENTS, DEPTH=_DEPTH_BYTES // q.element_size(), GROUP=_GROUP,
            num_warps=8, num_stages=3,
        )  # fmt: skip
        best, chosen = highest.topk(min(groups, picked + 1), dim=1)
        left_out = best[:, picked] if groups > picked else None
        chosen = chosen[:, :picked].contiguous()
        scores = torch.empty((len(q), picked, _GROUP), dtype=torch.float32, device=q.device)
        group_score_kernel[(len(q), picked)](
            q, documents, *scales, *some, chosen, scores, m, dimensions, picked, **flags,
            DEPTH=_SCORE_DEPTH, GROUP=_GROUP, num_warps=4,
        )  # fmt: skip
        ids = (chosen[:, :, None] * _GROUP + torch.arange(_GROUP, device=q.device)).reshape(len(q), -1)
        parts.append(_settled(scores.reshape(len(q), -1), ids, left_out, q, k, error, within))
    return torch.cat([scores for scores, _ in parts]), torch.cat([ids for _, ids in parts])


class _Within(NamedTuple):
    """What a query may find: all documents, their lengths, and what the caller hides of them."""

    documents: Any
    lengths: Any
    cosine: bool
    ranges: Any
    mask: Any


def _settled(
    scores: Any, ids: Any, left_out: Any, queries: Any, k: int, error: Any, within: _Within
) -> tuple[Any, Any]:
    """Score again whatever may be among the k best, order it, and redo a query where a group left out may matter."""
    wanted = min(k, scores.shape[1])
    kth = scores.topk(wanted, dim=1).values[:, -1:]
    may = (scores >= kth - 2 * error) & (scores > -float("inf"))
    width = max(wanted, int(may.sum(dim=1).max()))
    near, place = torch.where(may, scores, -float("inf")).topk(min(width, scores.shape[1]), dim=1)
    ids = torch.where(near > -float("inf"), ids.gather(1, place), -1)
    exact, ids = _ordered(_exact(queries, within, ids), ids, wanted)
    if left_out is not None:
        unsure = (left_out > -float("inf")) & ~(exact[:, -1] > left_out + error[:, 0])
        for row in unsure.nonzero()[:, 0].tolist():
            exact[row], ids[row] = _with_all(queries[row], row, wanted, within)
    missing = k - wanted
    pad = torch.nn.functional.pad
    return pad(exact, (0, missing), value=-float("inf")), pad(ids, (0, missing), value=-1)


def _ordered(scores: Any, ids: Any, wanted: int) -> tuple[Any, Any]:
    """Sort by descending score, equal scores by ascending number, and keep the first."""
    by_id = torch.where(ids < 0, torch.iinfo(torch.int64).max, ids).argsort(dim=-1, stable=True)
    order = by_id.gather(-1, scores.gather(-1, by_id).argsort(dim=-1, descending=True, stable=True))[..., :wanted]
    return scores.gather(-1, order), ids.gather(-1, order)


def _exact(queries: Any, within: _Within, ids: Any) -> Any:
    """Score (queries, candidates) in float64 and round to float32; -inf where the number is -1."""
    scores = torch.empty(ids.shape, dtype=torch.float32, device=ids.device)
    step = max(1, _NUMBERS_AT_ONCE // (ids.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        q, d = queries[rows].double(), within.documents[ids[rows].clamp(min=0)].double()
        product = torch.einsum("qd,qkd->qk", q, d)
        if within.cosine:
            q_square, d_square = q.square().sum(1)[:, None].expand_as(product), d.square().sum(2)
            long = torch.minimum(q_square, d_square) >= SHORTEST**2
            product = torch.where(long, product / (q_square * d_square).sqrt(), 0.0)
        scores[rows] = torch.where(ids[rows] < 0, -float("inf"), product).float()
    return scores


def _with_all(query: Any, row: int, wanted: int, within: _Within) -> tuple[Any, Any]:
    """Score one query with every document in float64."""
    m, dimensions = within.documents.shape
    ids = torch.arange(m, device=query.device)[None, :]
    hidden = ~torch.isfinite(within.lengths)[None, :]
    if within.ranges is not None:
        hidden = hidden | (ids < within.ranges[row, 0]) | (ids >= within.ranges[row, 1])
    if within.mask is not None:
        hidden = hidden | (within.mask[row] == 0)[None, :]
    step = max(1, _NUMBERS_AT_ONCE // dimensions)
    blocks = [_exact(query[None, :], within, ids[:, i : i + step]) for i in range(0, m, step)]
    ids = torch.where(hidden, -1, ids)
    scores, ids = _ordered(torch.where(hidden, -float("inf"), torch.cat(blocks, dim=1)), ids, wanted)
    return scores[0], ids[0]
