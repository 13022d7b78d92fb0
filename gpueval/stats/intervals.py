"""Confidence intervals of a mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from gpueval_kernels import bootstrap

RESAMPLES = 2000
_RESAMPLED_UP_TO = 2_000
"""Values up to which the mean is resampled. With more its distribution is normal, and resampling costs much: columns of
different length (groups) share no draws.
"""

_COLUMNS_AT_ONCE = 64

Interval = tuple[float, float]


def bootstrap_means(
    columns: Sequence[NDArray[np.float64]], *, seed: int = 0, level: float = 0.95
) -> list[Interval | None]:
    """Return the percentile bootstrap interval of each column's mean (Efron 1979), 2,000 resamples.

    Columns of the same length share their draws, which are made once: O(resamples x n) per length, not per column.
    The draws depend on seed and n alone (:func:`gpueval_kernels.bootstrap`), so an interval is the same on every
    machine up to the rounding of a sum. Above 2,000 values ``mean +- z s / sqrt(n)`` is used, cut at the smallest and
    largest value.

    Args:
        columns: Each (n,) float64, of any length.
        seed: Same seed, same intervals.
        level: Confidence level.

    Returns:
        (low, high) per column, or None below two values.
    """
    found: list[Interval | None] = [None] * len(columns)
    same_length: dict[int, list[int]] = {}
    for i, values in enumerate(columns):
        if len(values) < 2:
            continue
        lowest, highest = float(values.min()), float(values.max())
        if lowest == highest:
            found[i] = lowest, highest
        elif len(values) > _RESAMPLED_UP_TO:
            half = NormalDist().inv_cdf((1 + level) / 2) * float(values.std(ddof=1)) / len(values) ** 0.5
            mean = float(values.mean())
            found[i] = max(mean - half, lowest), min(mean + half, highest)
        else:
            same_length.setdefault(len(values), []).append(i)
    for members in same_length.values():
        for start in range(0, len(members), _COLUMNS_AT_ONCE):
            some = members[start : start + _COLUMNS_AT_ONCE]
            stacked = np.stack([columns[i] for i in some], axis=1)
            means = bootstrap(stacked, resamples=RESAMPLES, seed=seed).estimates
            low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
            for i, *ends in zip(some, low.tolist(), high.tolist(), strict=True):
                found[i] = ends[0], ends[1]
    return found


def wilson(n_yes: float, n: float, *, level: float = 0.95) -> Interval:
    """Return Wilson's interval (1927) of a share ``n_yes / n``, n above 0."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle, spread = n_yes / n + z * z / (2 * n), z * sqrt(n_yes / n * (1 - n_yes / n) / n + z * z / (4 * n * n))
    return (middle - spread) / (1 + z * z / n), (middle + spread) / (1 + z * z / n)


def paired_shares(gained: int, lost: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the interval of the difference of two shares over the same n items, by Agresti and Min (Statistics in
    Medicine, 2005): Wald's with half a pair added to each of the four cells, which also holds where nothing differs.

    Args:
        gained: Items that count in the first share alone.
        lost: Items that count in the second share alone.
        n: Items.
        level: Confidence level.
    """
    z, total = NormalDist().inv_cdf((1 + level) / 2), n + 2
    difference, moved = (gained - lost) / total, (gained + lost + 1) / total
    half = z * sqrt(max(0.0, moved - difference**2) / total)
    return max(-1.0, difference - half), min(1.0, difference + half)
