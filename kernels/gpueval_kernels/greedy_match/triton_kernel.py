"""The Triton kernel of :func:`gpueval_kernels.greedy_match`: one program per pair and block of its first text's tokens.

A program walks over the second text, keeps the best cosine and its place in registers and writes two numbers per token.
The other side is the same kernel with the texts exchanged: no atomics, no partial results, the same bits every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from gpueval_kernels.choice import launched_on, to_numpy
from gpueval_kernels.lengths import lengths_of_tensor, scale

_ROWS, _COLUMNS, _DEPTH_BYTES = 32, 64, 64
"""A tile; products of float32 need more registers, so its slices are half as deep."""


@triton.jit
def match_kernel(
    tokens, scale, first_begin, first_size, second_begin, second_size, out_begin, best_out, at_out, dimensions,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Write best cosine and place for a block of one pair's first text."""
    pair = tl.program_id(0)
    size = tl.load(first_size + pair)
    start = tl.program_id(1) * ROWS
    if start >= size:
        return
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    mine = start + row < size
    first = tl.load(first_begin + pair) + start
    second = tl.load(second_begin + pair)
    second_size = tl.load(second_size + pair)
    x_tile = tokens + first * dimensions
    x_scale = tl.load(scale + first + row, mine, 0.0)
    best = tl.full((ROWS,), -float("inf"), tl.float32)
    at = tl.full((ROWS,), -1, tl.int32)
    for begin in range(0, second_size, COLUMNS):
        theirs = begin + column < second_size
        y_tile = tokens + (second + begin) * dimensions
        cosine = tl.zeros((ROWS, COLUMNS), tl.float32)
        for depth in range(0, dimensions, DEPTH):
            d = depth + tl.arange(0, DEPTH)
            inside = d < dimensions
            x = tl.load(x_tile + (row[:, None] * dimensions + d[None, :]), mine[:, None] & inside[None, :], 0.0)
            y = tl.load(y_tile + (column[:, None] * dimensions + d[None, :]), theirs[:, None] & inside[None, :], 0.0)
            cosine = tl.dot(x, tl.trans(y), cosine, input_precision="ieee")
        y_scale = tl.load(scale + second + begin + column, theirs, 0.0)
        cosine = cosine * x_scale[:, None] * y_scale[None, :]
        cosine = tl.where((cosine == cosine) & theirs[None, :], cosine, -float("inf"))
        highest, place = tl.max(cosine, axis=1, return_indices=True, return_indices_tie_break_left=True)
        better = highest > best
        best = tl.where(better, highest, best)
        at = tl.where(better, (place + begin).to(tl.int32), at)
    out = tl.load(out_begin + pair) + start + row
    tl.store(best_out + out, tl.where(at >= 0, best, 0.0), mine)
    tl.store(at_out + out, at, mine)


class Matcher:
    """Holds the tokens on their device; see :meth:`of`."""

    def __init__(self, tokens: Any, offsets: NDArray[np.int64]) -> None:
        self._tokens, self._offsets = tokens, offsets
        self._scale = scale(lengths_of_tensor(tokens))

    def of(
        self, first: NDArray[np.int64], second: NDArray[np.int64], begins: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Launch the kernel; as :meth:`gpueval_kernels.greedy_match.reference.Matcher.of`."""
        device, lengths = self._tokens.device, np.diff(self._offsets)
        best = torch.empty(int(begins[-1]), dtype=torch.float32, device=device)
        at = torch.empty(int(begins[-1]), dtype=torch.int32, device=device)
        if not len(best):
            return to_numpy(best), to_numpy(at)
        tables = (self._offsets[:-1][first], lengths[first], self._offsets[:-1][second], lengths[second], begins[:-1])
        with launched_on(device):
            match_kernel[(len(first), triton.cdiv(int(lengths[first].max()), _ROWS))](
                self._tokens,
                self._scale,
                *(torch.from_numpy(np.ascontiguousarray(table)).to(device) for table in tables),
                best,
                at,
                self._tokens.shape[1],
                ROWS=_ROWS,
                COLUMNS=_COLUMNS,
                DEPTH=_DEPTH_BYTES // self._tokens.element_size(),
                num_warps=4,
                num_stages=3,
            )
        return to_numpy(best), to_numpy(at)
