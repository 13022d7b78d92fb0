"""Confidence intervals of a mean."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
_EXACT_UP_TO = 20_000
_MANY_DISTINCT = 2_000


def bootstrap_mean(values: NDArray[np.float64], *, seed: int = 0, level: float = 0.95) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of the mean (Efron 1979), 2,000 resamples.

    Resampling n values with replacement is a multinomial draw over the distinct values, so the cost is
    O(resamples x distinct values) instead of O(resamples x n). Above 20,000 values, or 2,000 distinct ones, the
    bootstrap distribution is normal to three digits and ``mean +- z s / sqrt(n)`` is used.

    Args:
        values: (n,) float64.
        seed: Same seed, same interval.
        level: Confidence level.

    Returns:
        (low, high), or None below two values.
    """
    n = len(values)
    if n < 2:
        return None
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return float(distinct[0]), float(distinct[0])
    if n > _EXACT_UP_TO or len(distinct) > _MANY_DISTINCT:
        z = NormalDist().inv_cdf((1 + level) / 2)
        mean, half = float(values.mean()), z * float(values.std(ddof=1)) / n**0.5
        return max(mean - half, float(distinct[0])), min(mean + half, float(distinct[-1]))
    generator = np.random.Generator(np.random.Philox(seed))
    means = np.empty(RESAMPLES)
    chance = counts / n
    block = max(1, 4_000_000 // len(distinct))
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        means[start : start + size] = generator.multinomial(n, chance, size=size) @ distinct / n
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
