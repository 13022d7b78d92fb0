"""Token matching: both implementations against a plain definition, on ragged and hostile input."""

from __future__ import annotations

import numpy as np
import pytest

from gpueval_kernels import greedy_match


def cosine(x, y) -> float:
    lengths = np.linalg.norm(x), np.linalg.norm(y)
    return float(x @ y / (lengths[0] * lengths[1])) if min(lengths) >= 2.0**-45 else 0.0


def side(x, y, weights):
    """Best cosines and places of x in y, and their weighted mean, token after token."""
    best, at = [], []
    for token in x:
        found = [
            (cosine(token, other), -j)
            for j, other in enumerate(y)
            if np.isfinite(other).all() and np.isfinite(token).all()
        ]
        value, place = max(found, default=(0.0, 1))
        best.append(value)
        at.append(-place)
    mean = float(np.dot(weights, best) / weights.sum()) if weights.sum() else 0.0
    return mean, best, at


def check(found, tokens, offsets, pairs, weights=None) -> None:
    tokens = tokens.astype(np.float64)
    weights = np.ones(len(tokens)) if weights is None else weights
    for p, (a, b) in enumerate(pairs):
        own, other = slice(*offsets[a : a + 2]), slice(*offsets[b : b + 2])
        x, y = tokens[own], tokens[other]
        precision, best, at = side(x, y, weights[own])
        recall, back, back_at = side(y, x, weights[other])
        first = slice(*found.first_offsets[p : p + 2])
        second = slice(*found.second_offsets[p : p + 2])
        np.testing.assert_allclose(found.first_best[first], best, atol=2e-6)
        np.testing.assert_allclose(found.second_best[second], back, atol=2e-6)
        np.testing.assert_array_equal(found.first_at[first], at)
        np.testing.assert_array_equal(found.second_at[second], back_at)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
        np.testing.assert_allclose([found.precision[p], found.recall[p]], [precision, recall], atol=2e-6)
        if abs(precision + recall) > 0.05:
            np.testing.assert_allclose(found.f1[p], f1, atol=2e-5)


def ragged(lengths, d, dtype=np.float32, seed=0):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return np.random.default_rng(seed).standard_normal((offsets[-1], d)).astype(dtype), offsets


@pytest.mark.parametrize("d", [1, 5, 33, 130])
def test_all_pairs_of_ragged_texts(run, d) -> None:
    tokens, offsets = ragged([5, 0, 35, 1, 70], d)
    pairs = np.array([(i, j) for i in range(5) for j in range(5)])
    if d == 1:  # signs only: many equal cosines, the first place counts
        tokens = np.sign(tokens)
    check(run(greedy_match, tokens, offsets=offsets, pairs=pairs), tokens, offsets, pairs)


def test_half_precision(run) -> None:
    tokens, offsets = ragged([9, 40], 40, np.float16)
    check(run(greedy_match, tokens, offsets=offsets, pairs=np.array([[0, 1]])), tokens, offsets, [(0, 1)])


def test_weights_count_in_means_and_not_in_matching(run) -> None:
    tokens, offsets = ragged([6, 8, 3], 16)
    weights = np.random.default_rng(1).random(17)
    weights[[2, 7]] = 0
    weights[14:] = 0
    pairs = np.array([[0, 1], [1, 2]])
    found = run(greedy_match, tokens, offsets=offsets, pairs=pairs, weights=weights)
    check(found, tokens, offsets, pairs, weights)
    assert found.recall[1] == 0


def test_hostile_tokens(run) -> None:
    tokens, offsets = ragged([12, 10, 2], 20)
    tokens[3] = np.nan
    tokens[4, 2] = np.inf
    tokens[14, 0] = -np.inf
    tokens[[5, 15]] = 0
    tokens[[6, 18]] *= 1e-22
    tokens[7] *= 1e-12
    tokens[8] = tokens[9] = tokens[16] = tokens[17]
    tokens[22:] = np.nan
    pairs = np.array([[0, 1], [0, 2], [2, 0], [2, 2]])
    check(run(greedy_match, tokens, offsets=offsets, pairs=pairs), tokens, offsets, pairs)


def test_a_text_matches_itself(run) -> None:
    tokens, offsets = ragged([11], 24)
    found = run(greedy_match, tokens, offsets=offsets, pairs=np.array([[0, 0]]))
    np.testing.assert_allclose(found.f1, 1, atol=1e-6)
    np.testing.assert_array_equal(found.first_at, np.arange(11))


@pytest.mark.parametrize("lengths", [[0, 0], [0, 4]])
def test_nothing_to_match(run, lengths) -> None:
    tokens, offsets = ragged(lengths, 8)
    found = run(greedy_match, tokens, offsets=offsets, pairs=np.array([[0, 1]]))
    assert found.precision[0] == found.recall[0] == found.f1[0] == 0
    assert (found.second_at == -1).all()


def test_no_pairs(run) -> None:
    tokens, offsets = ragged([3], 8)
    found = run(greedy_match, tokens, offsets=offsets, pairs=np.empty((0, 2), np.int64))
    assert found.f1.shape == found.first_best.shape == (0,)


@pytest.mark.parametrize(
    "bad",
    [
        {"offsets": np.array([0, 2])},
        {"offsets": np.array([0, 4, 3])},
        {"pairs": np.array([[0, 1]])},
        {"weights": np.array([1.0, 1.0, -1.0])},
        {"weights": np.array([1.0, 1.0, np.nan])},
    ],
)
def test_bad_input_is_refused(bad) -> None:
    given = {"tokens": np.ones((3, 2), np.float32), "offsets": np.array([0, 3]), "pairs": np.array([[0, 0]])}
    with pytest.raises(ValueError, match=r"offsets|pairs|weights"):
        greedy_match(**given | bad)
