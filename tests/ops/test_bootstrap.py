"""Bootstrap: the same draws everywhere, and intervals that agree with SciPy's."""

from __future__ import annotations

import numpy as np
import pytest

from gpueval_kernels import bootstrap
from gpueval_kernels.bootstrap.reference import draws, philox

KNOWN = {  # from the test vectors (kat_vectors) of Random123, the library of the paper's authors
    ((0, 0, 0, 0), 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ((0xFFFFFFFF,) * 4, 0xFFFFFFFFFFFFFFFF): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0A4093822): (
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ),
}


@pytest.mark.parametrize(("counter", "seed"), KNOWN)
def test_philox_gives_the_published_words(counter, seed) -> None:
    words = philox(tuple(np.array([word], np.uint64) for word in counter), seed)
    assert tuple(int(word[0]) for word in words) == KNOWN[counter, seed]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 37, 1030])
def test_draws_are_the_same_bits(run, n) -> None:
    # Units weigh powers of two apart in two columns, so that a resample's sum tells how often each was drawn.
    values = np.arange(n, dtype=np.float64)
    found = run(bootstrap, np.stack([values, values**2], 1), resamples=9, seed=2**40 + 3)
    drawn = draws(n, 9, 2**40 + 3)
    assert drawn.shape == (9, n)
    assert drawn.min() >= 0
    assert drawn.max() < n
    np.testing.assert_array_equal(np.rint(found.estimates * n), np.stack([drawn.sum(1), (drawn**2).sum(1)], 1))


def test_every_draw_can_be_told_from_one_hot_columns(run) -> None:
    found = run(bootstrap, np.eye(6), resamples=11, seed=5)
    counts = np.stack([np.bincount(row, minlength=6) for row in draws(6, 11, 5)])
    np.testing.assert_array_equal(np.rint(found.estimates * 6), counts)


def test_shards_draw_what_one_call_draws(run) -> None:
    values = np.random.default_rng(0).random(23)
    whole = run(bootstrap, values, resamples=10, seed=1).estimates
    shards = [run(bootstrap, values, resamples=5, seed=1, first_resample=first).estimates for first in (0, 5)]
    np.testing.assert_array_equal(whole, np.concatenate(shards))


def test_columns_share_their_draws(run) -> None:
    values = np.random.default_rng(0).random((40, 2))
    both = run(bootstrap, values, resamples=20).estimates
    difference = run(bootstrap, values[:, 1] - values[:, 0], resamples=20).estimates
    np.testing.assert_allclose(both[:, 1] - both[:, 0], difference[:, 0], atol=1e-12)


def test_clusters_and_missing_values_are_ratios_of_sums(run) -> None:
    sums, sizes = np.array([[3.0, 0.0], [1.0, 2.0], [0.0, 5.0]]), np.array([[4.0, 0.0], [1.0, 2.0], [2.0, 5.0]])
    found = run(bootstrap, sums, sizes, resamples=50, seed=2).estimates
    drawn = draws(3, 50, 2)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, sums[drawn].sum(1) / sizes[drawn].sum(1), atol=1e-12)


def test_agrees_with_scipy(run) -> None:
    stats = pytest.importorskip("scipy.stats", reason="the interval is compared with SciPy's")
    values = np.random.default_rng(3).beta(5, 2, 60)
    resamples = 400 if run.is_triton else 20_000
    ours = np.quantile(run(bootstrap, values, resamples=resamples).estimates[:, 0], [0.025, 0.975])
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=1).confidence_interval
    spread = values.std(ddof=1) / 60**0.5
    error = spread * (0.025 * 0.975 / resamples) ** 0.5 / 0.0584  # standard error of a normal's 2.5 % quantile
    np.testing.assert_allclose(ours, theirs, atol=4 * error + 4 * spread * (0.025 * 0.975 / 20_000) ** 0.5 / 0.0584)


@pytest.mark.parametrize(
    "bad",
    [
        {"sums": np.empty(0)},
        {"sums": np.ones((2, 2, 2))},
        {"sums": np.ones(3), "weights": np.ones(2)},
        {"sums": np.ones(3), "resamples": 0},
        {"sums": np.ones(3), "seed": -1},
        {"sums": np.ones(3), "implementation": "cuda"},
    ],
)
def test_bad_input_is_refused(bad) -> None:
    with pytest.raises(ValueError, match=r"shape|range|unknown"):
        bootstrap(bad.pop("sums"), **bad)
