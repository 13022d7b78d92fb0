"""The Triton kernel of :func:`gpueval_kernels.bootstrap`: one program per resample and block of columns.

No table of draws is ever written: a program makes its random numbers in registers and reads the units they name, which
stay in the GPU's L2 cache. Sums are kept in float64.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_QUADS = 256
_COLUMNS = 8


@triton.jit
def bootstrap_kernel(
    sums,
    weights,
    out,
    n,
    columns,
    seed,
    first_resample,
    WEIGHTED: tl.constexpr,
    QUADS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write one resample's estimates of a block of columns."""
    resample = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    total = tl.zeros((COLUMNS,), tl.float64)
    weight = tl.zeros((COLUMNS,), tl.float64)
    size = tl.cast(n, tl.uint32)  # of a 1, which Triton makes a constant, too
    for start in range(0, tl.cdiv(n, 4), QUADS):
        quad = start + tl.arange(0, QUADS)
        zero = (quad * 0).to(tl.uint32)
        row = (quad * 0 + resample + first_resample).to(tl.uint32)
        words = tl.philox(seed, quad.to(tl.uint32), row, zero, zero)
        for lane in tl.static_range(4):
            unit = tl.umulhi(words[lane], zero + size).to(tl.int64)
            mask = ((quad * 4 + lane) < n)[:, None] & inside[None, :]
            place = unit[:, None] * columns + column[None, :]
            total += tl.sum(tl.load(sums + place, mask, 0.0).to(tl.float64), axis=0)
            if WEIGHTED:
                weight += tl.sum(tl.load(weights + place, mask, 0.0).to(tl.float64), axis=0)
            else:
                weight += tl.sum(mask.to(tl.float64), axis=0)
    tl.store(out + resample.to(tl.int64) * columns + column, total / weight, inside)


def run(sums: Any, weights: Any, resamples: int, seed: int, first_resample: int) -> Any:
    """Launch the kernel; returns (resamples, columns) float64 on the device of ``sums``."""
    n, columns = sums.shape
    out = torch.empty((resamples, columns), dtype=torch.float64, device=sums.device)
    grid = (resamples, triton.cdiv(columns, _COLUMNS))
    bootstrap_kernel[grid](
        sums,
        sums if weights is None else weights,
        out,
        n,
        columns,
        seed,
        first_resample,
        WEIGHTED=weights is not None,
        QUADS=_QUADS,
        COLUMNS=_COLUMNS,
        num_warps=4,
    )
    return out
