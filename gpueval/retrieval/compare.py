"""Two runs over the same queries: paired differences, their interval and significance, and the queries that moved
most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpueval.retrieval.words import Floats
from gpueval.stats.intervals import bootstrap_means
from gpueval.stats.paired import holm, sign_flip_p


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
    p_values = holm({name: one.p_value for name, one in found.items() if one.p_value is not None})
    return {name: replace(one, p_value=p_values.get(name)) for name, one in found.items()}
