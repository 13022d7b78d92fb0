"""Two runs over the same queries: paired differences, their interval and significance, and the queries that moved
most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erfc, sqrt

import numpy as np

from gpueval.retrieval.words import Floats
from gpueval.stats.intervals import bootstrap_means

_FLIPS = 10_000
_FLIPPED_UP_TO = 5_000
"""Queries up to which signs are flipped at random; with more the mean is normal and its z-score says the same."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of two runs.

    Attributes:
        n: Queries that both runs were scored on.
        difference: Mean of the other run minus the mean of this one; None without a query.
        low: Lower end of the 95 % bootstrap interval of the mean difference.
        high: Upper end.
        p_value: Two-sided, by random sign flips; corrected by Holm over the measures of the comparison.
        better: Queries on which the other run is better.
        worse: Queries on which it is worse.
        moved: The queries that moved most, with their difference.
    """

    n: int
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    better: int
    worse: int
    moved: tuple[tuple[str, float], ...]


def compare(
    queries: Sequence[str], first: dict[str, Floats], second: dict[str, Floats], most_moved: int = 10
) -> dict[str, Comparison]:
    """Compare two runs measure by measure.

    Args:
        queries: The queries that both were scored on.
        first: Values by measure.
        second: Values by measure.
        most_moved: Queries to list.
    """
    found: dict[str, Comparison] = {}
    differences = {name: second[name] - values for name, values in first.items()}
    intervals = bootstrap_means(list(differences.values()))
    for (name, difference), interval in zip(differences.items(), intervals, strict=True):
        order = np.argsort(-np.abs(difference), kind="stable")[:most_moved]
        found[name] = Comparison(
            len(difference),
            float(difference.mean()) if len(difference) else None,
            interval[0] if interval else None,
            interval[1] if interval else None,
            sign_flip_p(difference) if len(difference) else None,
            int((difference > 0).sum()),
            int((difference < 0).sum()),
            tuple((queries[i], float(difference[i])) for i in order if difference[i] != 0),
        )
    return _holm(found)


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


def _holm(found: dict[str, Comparison]) -> dict[str, Comparison]:
    """Correct p-values for several measures (Holm 1979)."""
    raw = {name: one.p_value for name, one in found.items() if one.p_value is not None}
    least = 0.0
    for position, name in enumerate(sorted(raw, key=lambda name: raw[name])):
        least = max(least, min(1.0, raw[name] * (len(raw) - position)))
        raw[name] = least
    return {name: replace(one, p_value=raw.get(name)) for name, one in found.items()}
