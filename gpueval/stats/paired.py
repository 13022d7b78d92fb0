"""Two systems on the same samples: is the mean difference more than chance, and how many samples would show it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import ceil, erfc, sqrt
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Name = TypeVar("Name", bound=Hashable)

_FLIPS = 10_000
_FLIPPED_UP_TO = 5_000
"""Pairs up to which signs are flipped at random; with more the mean is normal and its z-score says the same."""


def sign_flip_p(difference: Floats, seed: int = 0) -> float:
    """Two-sided p-value of a mean difference of zero under random signs.

    Fisher's randomisation test for paired values (Smucker, Allan and Carterette, CIKM 2007): the share of 10,000 random
    sign patterns whose mean is at least as far from zero, the pattern seen counted among them.

    Args:
        difference: (n,) paired differences.
        seed: Same seed, same p-value.
    """
    moved = difference[difference != 0]
    if not len(moved):
        return 1.0
    seen = abs(float(moved.sum()))
    if len(moved) > _FLIPPED_UP_TO:
        return erfc(seen / sqrt(float((moved**2).sum())) / sqrt(2))
    generator = np.random.Generator(np.random.Philox(seed))
    reached, tolerance = 1, 1e-12 * float(np.abs(moved).sum())
    block = max(1, 4_000_000 // len(moved))
    for start in range(0, _FLIPS, block):
        size = min(block, _FLIPS - start)
        signs = generator.integers(0, 2, (size, len(moved)), np.int8) * 2 - 1
        reached += int((np.abs(signs @ moved) >= seen - tolerance).sum())
    return reached / (_FLIPS + 1)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Correct p-values for their number (Holm 1979): controls the chance of any false finding among them."""
    found, least = dict(p_values), 0.0
    for position, name in enumerate(sorted(found, key=lambda name: found[name])):
        least = max(least, min(1.0, found[name] * (len(found) - position)))
        found[name] = least
    return found


def needed_pairs(difference: Floats, wanted: float, *, significance: float = 0.05, power: float = 0.8) -> int | None:
    """Return how many pairs a mean difference of ``wanted`` needs to be found.

    n = ((z(1 - significance / 2) + z(power)) s / wanted)², with s the standard deviation of the differences seen; None
    below two pairs or when they do not vary, for then s says nothing.

    Args:
        difference: (n,) paired differences.
        wanted: Mean difference to find, above 0.
        significance: Two-sided.
        power: Chance to find it.
    """
    deviation = _deviation(difference)
    return ceil((_reach(significance, power) * deviation / wanted) ** 2) if deviation else None


def detectable(difference: Floats, *, significance: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest mean difference that as many pairs find with that power; None as :func:`needed_pairs`."""
    deviation = _deviation(difference)
    return _reach(significance, power) * deviation / sqrt(len(difference)) if deviation else None


def effect_size(difference: Floats) -> float | None:
    """Return Cohen's d of paired values: mean difference over its standard deviation; None where that is 0."""
    deviation = _deviation(difference)
    return float(difference.mean()) / deviation if deviation else None


def _reach(significance: float, power: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - significance / 2) + normal.inv_cdf(power)


def _deviation(difference: Floats) -> float:
    """Standard deviation; 0 where the differences vary by no more than the rounding of a sum."""
    deviation = float(difference.std(ddof=1)) if len(difference) > 1 else 0.0
    return deviation if deviation > 1e-12 else 0.0
