"""How well scores agree with yes/no labels.

Every figure is a function of row weights ``W`` of shape (B, n): ones for the figure itself, counts of drawn clusters
for its bootstrap interval. So both come from the same lines. Symbols: ``s`` score, ``y`` label, ``d`` decision, TP, FP,
FN and TN the weighted sums of the four outcomes, N their total. A figure that is undefined for a row of ``W`` (one
class has no weight) is NaN here and None in :class:`Estimate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpueval.stats.intervals import RESAMPLES
from gpueval_kernels.bootstrap.reference import draws

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_BLOCK_CELLS = 1 << 21
FEWEST_CLUSTERS = 5
"""Samples below which drawing samples says nothing about their spread."""

_DEFINED_SHARE = 0.9
"""Share of resamples in which a figure must be defined for an interval to be given."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; None where undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Weighted sums of outcomes, each (B,)."""

    tp: Floats
    fp: Floats
    fn: Floats
    tn: Floats


def confusion(decisions: Floats | Bools, labels: Bools, weights: Floats) -> Confusion:
    """Sum outcomes. A decision may lie between 0 and 1: the share of repetitions that said yes.

    Args:
        decisions: (n,) in [0, 1].
        labels: (n,).
        weights: (B, n).
    """
    d, y = decisions.astype(np.float64), labels.astype(np.float64)
    return Confusion(weights @ (d * y), weights @ (d * (1 - y)), weights @ ((1 - d) * y), weights @ ((1 - d) * (1 - y)))


def sensitivity(c: Confusion) -> Floats:
    """TP / (TP + FN): of what is right, the share called right."""
    return _ratio(c.tp, c.tp + c.fn)


def specificity(c: Confusion) -> Floats:
    """TN / (TN + FP): of what is wrong, the share called wrong."""
    return _ratio(c.tn, c.tn + c.fp)


def accuracy(c: Confusion) -> Floats:
    """(TP + TN) / N."""
    return _ratio(c.tp + c.tn, c.tp + c.fp + c.fn + c.tn)


def balanced_accuracy(c: Confusion) -> Floats:
    """(sensitivity + specificity) / 2: a judge that always says the same gets 0.5."""
    return (sensitivity(c) + specificity(c)) / 2


def kappa(c: Confusion) -> Floats:
    """Cohen's kappa ``(p_o - p_e) / (1 - p_e)``: agreement beyond what the two rates of yes give by chance (Cohen
    1960). Undefined where judge and labels both know one class only.
    """
    n = c.tp + c.fp + c.fn + c.tn
    observed = _ratio(c.tp + c.tn, n)
    expected = _ratio((c.tp + c.fp) * (c.tp + c.fn) + (c.fn + c.tn) * (c.fp + c.tn), n * n)
    return _ratio(observed - expected, 1 - expected)


def alpha(c: Confusion) -> Floats:
    """Krippendorff's alpha for two raters and two categories: ``1 - D_o / D_e`` with ``D_o = (FP + FN) / N`` and
    ``D_e = 2 n1 n0 / (2N (2N - 1))``, n1 and n0 the yes and no of both raters together (Krippendorff 2004, chapter 11).
    """
    n = c.tp + c.fp + c.fn + c.tn
    ones, zeros = 2 * c.tp + c.fp + c.fn, 2 * c.tn + c.fp + c.fn
    return 1 - _ratio(_ratio(c.fp + c.fn, n) * 2 * n * (2 * n - 1), 2 * ones * zeros)


def auc(scores: Floats, labels: Bools, weights: Floats) -> Floats:
    """Area under the ROC curve: the chance that a right one scores above a wrong one, ties counted half.

    O(n log n + B n).

    Args:
        scores: (n,).
        labels: (n,).
        weights: (B, n).
    """
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    right = np.add.reduceat(weights[:, order] * labels[order], starts, axis=1)
    wrong = np.add.reduceat(weights[:, order] * ~labels[order], starts, axis=1)
    below = np.cumsum(wrong, axis=1) - wrong / 2
    return _ratio((right * below).sum(axis=1), right.sum(axis=1) * wrong.sum(axis=1))


def brier(probabilities: Floats, labels: Bools, weights: Floats) -> Floats:
    """Mean of ``(p - y)^2`` (Brier 1950): 0 is perfect, 0.25 is what a constant 0.5 gets."""
    return _ratio(weights @ (probabilities - labels) ** 2, weights.sum(axis=1))


def calibration_error(probabilities: Floats, labels: Bools, weights: Floats, bins: int = 10) -> Floats:
    """Mean distance of stated probability and observed share over ten bins of equally many rows (Naeini et al. 2015,
    with the equal-mass bins of Nguyen and O'Connor 2015).

    It is biased upward on few rows, and more so in a resample: no interval is made of it.
    """
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    gaps = [np.abs(weights[:, part] @ (probabilities[part] - labels[part])) for part in parts]
    return _ratio(np.sum(gaps, axis=0), weights.sum(axis=1))


def estimate(
    figure: Callable[[Floats], Floats], weights: Floats, clusters: NDArray[np.int64] | None = None, *, seed: int = 0
) -> Estimate:
    """Return a figure with the percentile interval of a cluster bootstrap (2,000 resamples).

    Rows of one sample rise and fall together, so whole samples are drawn; the rows' own weights multiply the counts.

    Args:
        figure: Maps weights (B, n) to values (B,).
        weights: (n,) the rows' own weights.
        clusters: (n,) number of each row's cluster, from 0; None makes every row its own.
        seed: Same seed, same interval.
    """
    (value,) = figure(weights[None, :]).tolist()
    members = np.arange(len(weights)) if clusters is None else clusters
    n_clusters = int(members.max()) + 1
    if n_clusters < FEWEST_CLUSTERS:
        return Estimate(None if np.isnan(value) else value)
    block = max(1, _BLOCK_CELLS // max(n_clusters, len(weights)))
    found: list[Floats] = []
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        drawn = draws(n_clusters, size, seed, start) + n_clusters * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n_clusters).reshape(size, n_clusters)
        found.append(figure(counts[:, members] * weights))
    return Estimate(None if np.isnan(value) else value, *percentiles(np.concatenate(found)))


def percentiles(values: Floats, level: float = 0.95) -> tuple[float | None, float | None]:
    """Return the central interval of resampled values; None twice where too few of them are defined."""
    defined = values[~np.isnan(values)]
    if len(defined) < _DEFINED_SHARE * len(values):
        return None, None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return low, high


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(below > 0, above / below, np.nan)
