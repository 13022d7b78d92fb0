"""When enough samples have been scored: a mean's interval is as narrow as asked."""

from __future__ import annotations

from math import ceil
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_Z = NormalDist().inv_cdf(0.975)

LEAST_SCORED = 100
"""Values before a variance is believed."""


def needed(values: NDArray[np.float64], half_width: float) -> int:
    """Return how many values a mean needs for a 95 % interval of at most ``mean ± half_width``.

    n = z² (s² + 1/n₀) / half_width², where s² is the variance of the n₀ values seen: the rule of Chow and Robbins
    (1965), whose coverage tends to 95 % as the width goes to 0 although it looks after every sample, because the
    variance alone decides when to stop. The 1/n₀ keeps a run of equal values at the start from stopping it.

    Args:
        values: (n₀,) values seen so far, in random order.
        half_width: Half of the interval's width, above 0.

    Returns:
        At least :data:`LEAST_SCORED`.
    """
    n = len(values)
    if n < LEAST_SCORED:
        return LEAST_SCORED
    variance = float(values.var(ddof=1)) + 1.0 / n
    return max(LEAST_SCORED, ceil(_Z**2 * variance / half_width**2))
