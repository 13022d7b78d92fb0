"""Columns summed up, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from gpueval.records import Cell, State
from gpueval.stats.aggregate import Column, coverage
from gpueval.stats.intervals import bootstrap_means


def test_column_bounds_by_hand() -> None:
    column = Column()
    for cell in (
        Cell(1.0),
        Cell(0.5, State.PARTIAL, 0.5, 0.75),
        Cell(None, State.TIMEOUT),
        Cell(None, State.NO_CLAIMS),
    ):
        column.add(cell)
    found = column.summary(None)
    # Scored: 1 and 0.5. Bounds over the two scored and the one failed: (1 + 0.5 + 0)/3 and (1 + 0.75 + 1)/3.
    assert (found.mean, found.n_scored, found.n_total) == (0.75, 2, 4)
    assert found.lower_bound == pytest.approx(1.5 / 3)
    assert found.upper_bound == pytest.approx(2.75 / 3)
    # One of four failed, and the partial cell is open by a quarter: (4 - 1 - 0.25) / 4.
    assert coverage(found) == pytest.approx(0.6875)


def test_bootstrap_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the interval is compared with SciPy's")
    values = np.random.default_rng(1).beta(4, 2, size=200)
    ((low, high),) = bootstrap_means([values])
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2))
    # Monte-Carlo error of a 2.5 % quantile from 2,000 resamples: about 0.06 standard errors; 4 of those.
    error = 4 * 0.06 * values.std(ddof=1) / len(values) ** 0.5
    assert low == pytest.approx(theirs.confidence_interval.low, abs=error)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=error)


def test_interval_of_a_large_column_joins_the_bootstrap_of_a_small_one() -> None:
    values = np.random.default_rng(3).random(5_000)
    small, large = bootstrap_means([values, np.append(values, values.mean())])
    assert small != large
    assert small == pytest.approx(large, abs=0.15 * values.std() / 5_000**0.5)


def test_interval_edges() -> None:
    found = bootstrap_means([np.array([0.5]), np.array([0.5, 0.5]), np.empty(0), np.arange(5.0)])
    assert found[:3] == [None, (0.5, 0.5), None]
    assert found[3] == bootstrap_means([np.arange(5.0)])[0]


def test_columns_of_any_length_keep_their_places() -> None:
    rng = np.random.default_rng(4)
    columns = [rng.random(n) for n in (7, 30, 7, 2, 30, 6_000)]
    alone = [bootstrap_means([column])[0] for column in columns]
    np.testing.assert_allclose(bootstrap_means(columns), alone, rtol=1e-12)
