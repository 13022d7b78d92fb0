"""The definition of :func:`gpueval_kernels.bootstrap`, and what runs on a processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_BLOCK_DRAWS = 1 << 17
"""Draws at a time: their words stay in the processor's cache."""


def philox(counter: tuple[Words, Words, Words, Words], seed: int) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10: four 32-bit words per counter, each in the low half of a uint64."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def draws(n: int, resamples: int, seed: int, first_resample: int = 0) -> NDArray[np.int64]:
    """Return (resamples, n) numbers of units, each in [0, n)."""
    quads = np.arange(-(-n // 4), dtype=np.uint64)[None, :]
    rows = np.arange(first_resample, first_resample + resamples, dtype=np.uint64)[:, None]
    zero = np.zeros((1, 1), np.uint64)
    words = np.stack(np.broadcast_arrays(*philox((quads, rows, zero, zero), seed)), axis=-1)
    units: NDArray[np.int64] = ((words * np.uint64(n)) >> _HALF).astype(np.int64)
    return units.reshape(resamples, -1)[:, :n]


def run(
    sums: NDArray[np.float64], weights: NDArray[np.float64] | None, resamples: int, seed: int, first_resample: int
) -> NDArray[np.float64]:
    """Resample block by block: how often each unit was drawn, times the units' sums and weights."""
    n, columns = sums.shape
    estimates = np.empty((resamples, columns))
    block = max(1, _BLOCK_DRAWS // n)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = draws(n, size, seed, first_resample + start) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)
        total = n if weights is None else counts @ weights
        with np.errstate(invalid="ignore", divide="ignore"):
            estimates[start : start + size] = (counts @ sums) / total
    return estimates
