"""The true rate behind a judge's verdicts: what share is right, corrected by labels, with an interval."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from gpueval.stats.agreement import FEWEST_CLUSTERS, Bools, Estimate, Floats
from gpueval.stats.intervals import wilson

_LEAST_INFORMATION = 0.05
"""Smallest sensitivity + specificity - 1 that can be divided by: below, the judge tells right and wrong not apart."""


def by_errors(
    n_yes: float,
    n_units: float,
    decisions: Floats | Bools,
    labels: Bools,
    weights: Floats,
    *,
    level: float = 0.95,
) -> Estimate:
    """Correct the share of yes by the judge's two error rates (Rogan and Gladen 1978).

    ``rate = (q + specificity - 1) / (sensitivity + specificity - 1)``, q the judge's share of yes. It holds where the
    labelled rows have another share of right ones than the run, as long as the judge errs alike on both. Interval of
    Lang and Reiczigel (2014), which adds a little to every count, with effective numbers ``(sum w)^2 / sum w^2`` of the
    labels; rows of one sample count as independent.

    Args:
        n_yes: Units of the run that the judge calls right.
        n_units: Units of the run.
        decisions: (n,) the judge's decisions on labelled rows.
        labels: (n,).
        weights: (n,).
        level: Confidence level.

    Returns:
        The rate, cut to [0, 1]; no value where a class has no label or the judge tells the classes not apart.
    """
    y, d, w = labels.astype(np.float64), decisions.astype(np.float64), weights
    if not labels.any() or labels.all() or n_units <= 0:
        return Estimate(None)
    n_right, n_wrong = _effective(w[labels]), _effective(w[~labels])
    sensitivity, specificity = float(w @ (d * y) / (w @ y)), float(w @ ((1 - d) * (1 - y)) / (w @ (1 - y)))
    if sensitivity + specificity - 1 < _LEAST_INFORMATION:
        return Estimate(None)
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = n_units + z * z
    q = (n_yes + z * z / 2) / n
    m_right, m_wrong = n_right + 2, n_wrong + 2
    se, sp = (n_right * sensitivity + 1) / m_right, (n_wrong * specificity + 1) / m_wrong
    between = se + sp - 1
    if between < _LEAST_INFORMATION:
        return Estimate(None)
    rate = (q + sp - 1) / between
    shift = 2 * z * z * (rate * se * (1 - se) / m_right - (1 - rate) * sp * (1 - sp) / m_wrong)
    variance = q * (1 - q) / n + rate**2 * se * (1 - se) / m_right + (1 - rate) ** 2 * sp * (1 - sp) / m_wrong
    half = z * sqrt(variance) / between
    plain = (n_yes / n_units + specificity - 1) / (sensitivity + specificity - 1)
    low, high = _unit(rate + shift - half), _unit(rate + shift + half)
    return Estimate(min(max(_unit(plain), low), high), low, high)


def by_prediction(
    predicted: Floats,
    rows: NDArray[np.int64],
    labels: Bools,
    weights: Floats,
    clusters: NDArray[np.int64],
    *,
    level: float = 0.95,
) -> Estimate:
    """Correct the mean prediction by its mean error on the labelled rows (prediction-powered inference: Angelopoulos et
    al. 2023; tuned as in Angelopoulos, Duchi and Zrnic 2023).

    ``rate = k mean(f) + weighted mean(y - k f)``, f the prediction of every unit of the run; k between 0 and 1 makes
    the variance least: 0 ignores the judge, 1 trusts its ups and downs in full. It needs labels that were drawn from
    the run (equally, or with known weights), and no assumption about the judge. Normal interval, clusters of rows as
    one.

    Args:
        predicted: (N,) in [0, 1], the judge's probability of every unit of the run, not fitted on these labels.
        rows: (n,) which units are labelled.
        labels: (n,).
        weights: (n,) one over the chance of being drawn, in any scale.
        clusters: (n,) sample of each labelled row.
        level: Confidence level.
    """
    if len(np.unique(clusters)) < FEWEST_CLUSTERS or not len(predicted):
        return Estimate(None)
    f, y, w = predicted[rows], labels.astype(np.float64), weights / weights.sum()
    n, n_units = _effective(weights), len(predicted)
    f_mean, y_mean = float(w @ f), float(w @ y)
    spread = float(w @ (f - f_mean) ** 2)
    covariance = float(w @ ((f - f_mean) * (y - y_mean)))
    k = min(1.0, max(0.0, covariance / ((1 + n / n_units) * spread))) if spread > 0 else 0.0
    rate = k * float(predicted.mean()) + float(w @ (y - k * f))
    influence = w * (y - k * f - float(w @ (y - k * f)))
    by_cluster = np.bincount(clusters, influence)
    n_clusters = len(np.unique(clusters))
    variance = float(by_cluster @ by_cluster) * n_clusters / max(1, n_clusters - 1)
    variance += k * k * float(predicted.var()) / n_units
    half = NormalDist().inv_cdf((1 + level) / 2) * sqrt(variance)
    return Estimate(_unit(rate), _unit(rate - half), _unit(rate + half))


def naive(n_yes: float, n_units: float, *, level: float = 0.95) -> Estimate:
    """Return the judge's own share of yes with Wilson's interval: what is reported where nobody labels."""
    if n_units <= 0:
        return Estimate(None)
    low, high = wilson(n_yes, n_units, level=level)
    return Estimate(n_yes / n_units, _unit(low), _unit(high))


def _effective(weights: Floats) -> float:
    return float(weights.sum() ** 2 / (weights @ weights)) if len(weights) else 0.0


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
