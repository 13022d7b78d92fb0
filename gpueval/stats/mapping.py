"""From a judge's score to a calibrated probability and a threshold, fitted on labels and measured by cross-fitting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpueval.stats.agreement import Bools, Floats

ISOTONIC_FROM = 1000
"""Labels from which the free, isotonic mapping is taken; with fewer it follows the noise (Niculescu-Mizil and Caruana
2005)."""

FOLDS = 5
REPETITIONS = 10
"""Splits into folds that are averaged: a single split of 200 labels moves balanced accuracy by some hundredths."""

_CLIP = 1e-4
_KEPT_SLOPE = 1e-6
"""Share of the raw score in an isotonic mapping: its flat pieces stay in order, so a threshold keeps its place."""

Method = Literal["platt", "isotonic"]


@dataclass(frozen=True, slots=True)
class Mapping:
    """A monotone map ``g`` of scores to probabilities.

    ``platt``
        ``g(s) = 1 / (1 + exp(-(slope logit(s) + intercept)))``, s clipped to [1e-4, 1 - 1e-4] (Platt 1999, here on
        log-odds).
    ``isotonic``
        Linear between the points ``x``, ``y`` of the best non-decreasing fit (Zadrozny and Elkan 2002).
    """

    method: Method
    slope: float = 0.0
    intercept: float = 0.0
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()

    def __call__(self, scores: Floats) -> Floats:
        """Map scores (n,) to probabilities (n,)."""
        if self.method == "platt":
            return _sigmoid(self.slope * _logit(scores) + self.intercept)
        fitted = np.interp(scores, self.x, self.y)
        return (1 - _KEPT_SLOPE) * fitted + _KEPT_SLOPE * scores

    @property
    def rises(self) -> bool:
        """Whether a higher score means a higher probability at all."""
        return self.slope > 0 if self.method == "platt" else self.y[-1] > self.y[0]


@dataclass(frozen=True, slots=True)
class CrossFit:
    """What a row gets from mappings and thresholds that were fitted without its sample.

    Attributes:
        decisions: (n,) share of the repetitions in which the row's score reached the threshold.
        probabilities: (n,) mean calibrated probability.
        squared_errors: (n,) mean of ``(p - y)^2`` over the repetitions.
    """

    decisions: Floats
    probabilities: Floats
    squared_errors: Floats


def method_for(n_labels: int) -> Method:
    """Choose the mapping by the number of labels."""
    return "isotonic" if n_labels >= ISOTONIC_FROM else "platt"


def fit(scores: Floats, labels: Bools, weights: Floats, method: Method) -> Mapping:
    """Fit a mapping.

    Args:
        scores: (n,) in [0, 1].
        labels: (n,), both classes present.
        weights: (n,) positive.
        method: See :func:`method_for`.
    """
    return isotonic(scores, labels, weights) if method == "isotonic" else platt(scores, labels, weights)


def platt(scores: Floats, labels: Bools, weights: Floats) -> Mapping:
    """Fit slope and intercept by Newton's method on the cross-entropy with Platt's targets ``(n1 + 1) / (n1 + 2)`` and
    ``1 / (n0 + 2)``, which keep both finite when the classes separate. A slope that would fall is set to 0.
    """
    x, w = _logit(scores), weights * len(weights) / weights.sum()
    n_right, n_wrong = float(w[labels].sum()), float(w[~labels].sum())
    targets = np.where(labels, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    design = np.stack([x, np.ones_like(x)], axis=1)
    beta = np.array([0.0, np.log((n_right + 1) / (n_wrong + 1))])
    loss = _cross_entropy(design @ beta, targets, w)
    for _ in range(100):
        p = _sigmoid(design @ beta)
        gradient = design.T @ (w * (p - targets))
        hessian = (design * (w * p * (1 - p))[:, None]).T @ design + 1e-12 * np.eye(2)
        step, scale = np.linalg.solve(hessian, gradient), 1.0
        while (tried := _cross_entropy(design @ (beta - scale * step), targets, w)) > loss and scale > 1e-10:
            scale /= 2
        if tried >= loss - 1e-12 * abs(loss):
            break
        beta, loss = beta - scale * step, tried
    slope, intercept = beta.tolist()
    if slope <= 0:
        slope, intercept = 0.0, float(np.log((n_right + 1) / (n_wrong + 1)))
    return Mapping("platt", slope=slope, intercept=intercept)


def isotonic(scores: Floats, labels: Bools, weights: Floats) -> Mapping:
    """Fit the non-decreasing step function of least squared error by pooling adjacent violators. O(n log n)."""
    x, group = np.unique(scores, return_inverse=True)
    mass = np.bincount(group, weights)
    mean = np.bincount(group, weights * labels) / mass
    pooled: list[tuple[float, float, int]] = []
    for value, weight in zip(mean.tolist(), mass.tolist(), strict=True):
        n = 1
        while pooled and pooled[-1][0] >= value:
            before, other, size = pooled.pop()
            value, weight, n = (value * weight + before * other) / (weight + other), weight + other, n + size
        pooled.append((value, weight, n))
    ends = np.cumsum([n for _, _, n in pooled])
    corners = np.unique(np.r_[ends - [n for _, _, n in pooled], ends - 1])  # first and last point of each step
    y = np.repeat([value for value, _, _ in pooled], [n for _, _, n in pooled])
    return Mapping("isotonic", x=tuple(x[corners].tolist()), y=tuple(y[corners].tolist()))


def threshold(mapping: Mapping, scores: Floats, weights: Floats) -> float:
    """Return the score that parts right from wrong best: where the mapped probability reaches the share of right ones,
    which is the mean of all mapped probabilities.

    There ``P(right | s) / P(wrong | s) = P(right) / P(wrong)``: a score is as likely from the one kind as from the
    other, so sensitivity + specificity is highest, as far as the mapping holds. The highest Youden index of the labels
    themselves is the same thing without a mapping; on some hundred labels it follows single rows and loses about one
    hundredth of balanced accuracy on other ones.

    Args:
        mapping: Fitted on the same labels.
        scores: (n,).
        weights: (n,).

    Returns:
        The threshold, within the range of the scores.
    """
    share = float(weights @ mapping(scores) / weights.sum())
    low, high = float(scores.min()), float(np.nextafter(scores.max(), 2.0))
    for _ in range(60):  # the mapping rises: halve the range
        middle = (low + high) / 2
        if float(mapping(np.array([middle]))[0]) < share:
            low = middle
        else:
            high = middle
    if mapping.method == "platt":  # its probabilities do not tell scores beyond the clip apart
        return min(max(high, 1.01 * _CLIP), 1 - 1.01 * _CLIP)
    return high


def cross_fit(
    scores: Floats, labels: Bools, weights: Floats, clusters: NDArray[np.int64], *, seed: int = 0
) -> CrossFit:
    """Fit on all folds but one and read that one, for ten splits into five folds of whole samples.

    A split that leaves a class without a label outside a fold cannot be fitted there; the fold then takes the share of
    right labels and decides by it.

    Args:
        scores: (n,) in [0, 1].
        labels: (n,).
        weights: (n,).
        clusters: (n,) sample of each row.
        seed: Same seed, same folds.
    """
    n, method = len(scores), method_for(len(scores))
    decisions, probabilities, errors = np.zeros(n), np.zeros(n), np.zeros(n)
    for held in _folds(labels, clusters, seed):
        rest = ~held
        known = labels[rest]
        if known.any() and not known.all():
            mapping = fit(scores[rest], known, weights[rest], method)
            p = mapping(scores[held])
            d = (scores[held] >= threshold(mapping, scores[rest], weights[rest])).astype(np.float64)
        else:
            p = np.full(int(held.sum()), float(known.mean()) if len(known) else 0.5)
            d = (p >= 0.5).astype(np.float64)
        decisions[held] += d
        probabilities[held] += p
        errors[held] += (p - labels[held]) ** 2
    return CrossFit(decisions / REPETITIONS, probabilities / REPETITIONS, errors / REPETITIONS)


def _folds(labels: Bools, clusters: NDArray[np.int64], seed: int) -> Iterator[Bools]:
    """Yield the held-out rows of every fold of every split; samples are dealt out by their share of right labels, so
    that folds resemble each other.
    """
    generator = np.random.default_rng(seed)
    n_clusters = int(clusters.max()) + 1
    share = np.bincount(clusters, labels, n_clusters) / np.maximum(1, np.bincount(clusters, minlength=n_clusters))
    for _ in range(REPETITIONS):
        order = np.lexsort((generator.random(n_clusters), share))
        fold = np.empty(n_clusters, np.int64)
        fold[order] = np.arange(n_clusters) % FOLDS
        for k in range(FOLDS):
            held = fold[clusters] == k
            if held.any():
                yield held


def _sigmoid(x: Floats) -> Floats:
    found: Floats = np.exp(-np.logaddexp(0.0, -x))
    return found


def _logit(scores: Floats) -> Floats:
    clipped = np.clip(scores, _CLIP, 1 - _CLIP)
    found: Floats = np.log(clipped / (1 - clipped))
    return found


def _cross_entropy(x: Floats, targets: Floats, weights: Floats) -> float:
    return float(weights @ (np.logaddexp(0.0, x) - targets * x))
