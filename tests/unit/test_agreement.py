"""Figures against scikit-learn's and against brute force; mapping, threshold, cross-fit and corrected rates."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from gpueval.stats import agreement, corrected, mapping


@pytest.fixture
def rows():
    generator = np.random.default_rng(5)
    labels = generator.random(300) < 0.6
    scores = np.round(1 / (1 + np.exp(-(np.where(labels, 1.0, -0.5) + generator.normal(0, 1.2, 300)))), 2)
    return scores, labels, generator.integers(1, 5, 300).astype(float)


def test_figures_are_scikit_learns(rows) -> None:
    scores, labels, weights = rows
    decisions = scores >= 0.55
    outcome = agreement.confusion(decisions, labels, weights[None])
    theirs = {
        agreement.accuracy: sk.accuracy_score(labels, decisions, sample_weight=weights),
        agreement.balanced_accuracy: sk.balanced_accuracy_score(labels, decisions, sample_weight=weights),
        agreement.sensitivity: sk.recall_score(labels, decisions, sample_weight=weights),
        agreement.specificity: sk.recall_score(~labels, ~decisions, sample_weight=weights),
        agreement.kappa: sk.cohen_kappa_score(labels, decisions, sample_weight=weights),
    }
    for ours, value in theirs.items():
        assert ours(outcome)[0] == pytest.approx(value, abs=1e-12), ours.__name__
    area = agreement.auc(scores, labels, weights[None])[0]
    assert area == pytest.approx(sk.roc_auc_score(labels, scores, sample_weight=weights), abs=1e-12)
    loss = agreement.brier(scores, labels, weights[None])[0]
    assert loss == pytest.approx(sk.brier_score_loss(labels, scores, sample_weight=weights), abs=1e-12)


def test_alpha_is_one_minus_observed_over_expected_disagreement_of_all_pairs() -> None:
    judge, human = np.array([1, 1, 0, 1, 0, 0, 1, 0], bool), np.array([1, 0, 0, 1, 0, 1, 1, 1], bool)
    pooled = np.r_[judge, human]
    expected = np.mean([a != b for a, b in permutations(pooled.tolist(), 2)])
    found = agreement.alpha(agreement.confusion(judge, human, np.ones((1, 8))))[0]
    assert found == pytest.approx(1 - np.mean(judge != human) / expected, abs=1e-12)


def test_calibration_error_of_a_judge_that_means_what_it_says_is_small_and_else_not() -> None:
    generator = np.random.default_rng(0)
    p = generator.random(20_000)
    labels = generator.random(20_000) < p
    assert agreement.calibration_error(p, labels, np.ones((1, 20_000)))[0] < 0.02
    assert agreement.calibration_error(p**3, labels, np.ones((1, 20_000)))[0] > 0.2


def test_an_interval_widens_when_rows_of_a_sample_are_copies() -> None:
    generator = np.random.default_rng(1)
    decided = generator.random(100) < 0.7

    def width(n_copies: int, clusters) -> float:
        d = np.repeat(decided, n_copies)
        found = agreement.estimate(
            lambda w: agreement.accuracy(agreement.confusion(d, np.ones(len(d), bool), w)), np.ones(len(d)), clusters
        )
        return found.high - found.low

    alone = width(1, None)
    assert width(9, np.repeat(np.arange(100), 9)) == pytest.approx(alone, abs=1e-12)
    assert width(9, None) < alone / 2


def test_what_is_undefined_is_none() -> None:
    labels = np.ones(5, bool)
    found = agreement.estimate(lambda w: agreement.auc(np.arange(5) / 5, labels, w), np.ones(5))
    assert found == agreement.Estimate(None, None, None)


def test_platts_mapping_is_the_logistic_regression_on_platts_targets(rows) -> None:
    scores, labels, weights = rows
    weights = weights * len(weights) / weights.sum()
    n_right, n_wrong = weights[labels].sum(), weights[~labels].sum()
    target = np.where(labels, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    clipped = np.clip(scores, 1e-4, 1 - 1e-4)
    x = np.log(clipped / (1 - clipped))[:, None]
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        np.r_[x, x], np.r_[np.ones(300), np.zeros(300)], np.r_[weights * target, weights * (1 - target)]
    )
    ours = mapping.platt(scores, labels, weights)
    assert ours.slope == pytest.approx(theirs.coef_[0, 0], rel=1e-4)
    assert ours.intercept == pytest.approx(theirs.intercept_[0], rel=1e-3, abs=1e-4)


def test_platts_mapping_stays_finite_where_the_classes_separate_and_never_falls() -> None:
    scores, labels = np.r_[np.full(30, 0.001), np.full(30, 0.999)], np.repeat([False, True], 30)
    found = mapping.platt(scores, labels, np.ones(60))(np.array([0.001, 0.999]))
    assert 0.01 < found[0] < 0.05
    assert 0.95 < found[1] < 0.99
    assert not mapping.platt(1 - scores, labels, np.ones(60)).rises


def test_isotonic_is_scikit_learns_and_keeps_the_order_of_scores(rows) -> None:
    scores, labels, weights = rows
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    ours = mapping.isotonic(scores, labels, weights)
    grid = np.linspace(0, 1, 1001)
    assert ours(grid) == pytest.approx(theirs.predict(grid), abs=2e-6)
    assert np.all(np.diff(ours(grid)) > 0)
    assert [mapping.method_for(n) for n in (999, 1000)] == ["platt", "isotonic"]


def test_the_threshold_lies_where_a_score_is_as_likely_from_either_kind() -> None:
    generator = np.random.default_rng(8)
    labels = generator.random(20_000) < 0.8
    logits = np.where(labels, 1.0, -1.0) + generator.normal(0, 1, 20_000)  # equally likely at 0, whatever the share
    scores = 1 / (1 + np.exp(-(logits + 0.7)))  # and the judge is lenient
    for fit in (mapping.platt, mapping.isotonic):
        found = mapping.threshold(fit(scores, labels, np.ones(20_000)), scores, np.ones(20_000))
        assert np.log(found / (1 - found)) == pytest.approx(0.7, abs=0.15)


def test_a_threshold_of_scores_that_say_nothing_stays_among_them() -> None:
    labels, weights = np.repeat([True, False], 20), np.ones(40)
    for scores in (np.tile([0.3, 0.6], 20), np.repeat([0.3, 0.6], 20)):
        assert 0.3 <= mapping.threshold(mapping.platt(scores, labels, weights), scores, weights) < 0.61


def test_a_threshold_of_few_labels_of_one_kind_stays_among_the_scores() -> None:
    for seed in range(60):
        generator = np.random.default_rng(seed)
        scores, labels = generator.uniform(0.2, 0.9, 100), np.arange(100) >= 3
        for right in (labels, ~labels):
            fitted = mapping.platt(scores, right, np.ones(100))
            if fitted.rises:
                found = mapping.threshold(fitted, scores, np.ones(100))
                assert scores.min() < found < scores.max()
                assert (scores >= found).tolist() == (fitted(scores) >= fitted(np.array([found]))).tolist()


def test_an_interval_of_a_few_samples_is_not_given() -> None:
    d, y = np.ones(40, bool), np.arange(40) % 3 > 0
    found = agreement.estimate(
        lambda w: agreement.accuracy(agreement.confusion(d, y, w)), np.ones(40), np.arange(40) % 4
    )
    assert found.value is not None
    assert found.low is None


def test_a_cross_fit_of_scores_that_say_nothing_finds_nothing() -> None:
    generator = np.random.default_rng(2)
    n = 1200  # isotonic, in every fold too
    scores, labels = generator.random(n), generator.random(n) < 0.5
    itself = (mapping.isotonic(scores, labels, np.ones(n))(scores) - labels) ** 2
    crossed = mapping.cross_fit(scores, labels, np.ones(n), np.arange(n) // 3)
    held_out = agreement.balanced_accuracy(agreement.confusion(crossed.decisions, labels, np.ones((1, n))))[0]
    assert itself.mean() < 0.25 < crossed.squared_errors.mean()  # on its own data it finds a pattern in noise
    assert 0.45 < held_out < 0.54


def test_rows_of_one_sample_share_a_fold() -> None:
    generator = np.random.default_rng(3)
    labels, clusters = generator.random(90) < 0.5, np.repeat(np.arange(30), 3)
    for held in mapping._folds(labels, clusters, 0):
        for k in range(30):
            assert held[clusters == k].all() or not held[clusters == k].any()


def test_corrected_rates_hold_the_truth_where_the_naive_one_does_not() -> None:
    generator = np.random.default_rng(4)
    truth = generator.random(4000) < 0.5
    p = np.clip(np.where(truth, 0.75, 0.45) + generator.normal(0, 0.15, 4000), 0, 1)
    rows = generator.choice(4000, 300, replace=False)
    n_yes = float((p >= 0.5).sum())
    naive = corrected.naive(n_yes, 4000)
    assert naive.low > truth.mean() + 0.05
    for found in (
        corrected.by_errors(n_yes, 4000, p[rows] >= 0.5, truth[rows], np.ones(300)),
        corrected.by_prediction(p, rows, truth[rows], np.ones(300), np.arange(300)),
    ):
        assert found.low < truth.mean() < found.high
        assert found.low <= found.value <= found.high
    labels_alone = corrected.naive(float(truth[rows].sum()), 300)
    powered = corrected.by_prediction(p, rows, truth[rows], np.ones(300), np.arange(300))
    assert powered.high - powered.low < labels_alone.high - labels_alone.low


def test_a_judge_that_guesses_corrects_nothing() -> None:
    labels, decisions = np.arange(40) < 20, np.arange(40) % 2 == 0
    assert corrected.by_errors(50, 100, decisions, labels, np.ones(40)).value is None


def test_unequal_chances_of_being_labelled_are_undone_by_weights() -> None:
    generator = np.random.default_rng(6)
    truth = generator.random(20_000) < 0.9
    p = np.clip(np.where(truth, 0.9, 0.3) + generator.normal(0, 0.2, 20_000), 0, 0.999)
    chance = np.where(p < 0.5, 0.2, 0.01)
    rows = np.flatnonzero(generator.random(20_000) < chance)
    weights = 1 / chance[rows]
    found = corrected.by_prediction(p, rows, truth[rows], weights, np.arange(len(rows)))
    blind = corrected.by_prediction(p, rows, truth[rows], np.ones(len(rows)), np.arange(len(rows)))
    assert found.low < truth.mean() < found.high
    assert not blind.low < truth.mean() < blind.high
