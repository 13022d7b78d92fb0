"""Labels held against a judge: agreement, mapping, threshold, corrected rate, and what the judge may be used for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpueval.calibration.labels import Item, Label
from gpueval.calibration.record import MetricCalibration, Ruling, Unit
from gpueval.stats import agreement, corrected, mapping
from gpueval.stats.agreement import Bools, Estimate, Floats

GATE_LABELS = 100
GATE_OF_A_CLASS = 20
GATE_SAMPLES = 20
GATE_BALANCED_ACCURACY = 0.70
"""What the interval's lower end must reach: at 0.70 the judge is wrong on less than a third of either kind, and about
half of the gap between two systems still shows."""

_FIGURES: dict[str, Callable[[agreement.Confusion], Floats]] = {
    "accuracy": agreement.accuracy,
    "balanced_accuracy": agreement.balanced_accuracy,
    "sensitivity": agreement.sensitivity,
    "specificity": agreement.specificity,
    "kappa": agreement.kappa,
    "alpha": agreement.alpha,
}


def calibrate(
    every: Sequence[Item], labels: Sequence[Label], unit: Unit, run_threshold: float, *, seed: int = 0
) -> MetricCalibration:
    """Measure a judge on labels and fit what a run can apply.

    Args:
        every: All items of the run.
        labels: Labels of some of them.
        unit: What was labelled.
        run_threshold: Threshold that the run used; the untouched figures and the judge's own rate are taken there.
        seed: Same seed, same figures.

    Raises:
        ValueError: All labels are the same.
    """
    rows = np.array([label.item for label in labels])
    right = np.array([label.right for label in labels])
    weights = np.array([label.weight for label in labels])
    weights = weights * len(weights) / weights.sum()
    if right.all() or not right.any():
        raise ValueError(f"all {len(right)} labels say '{'right' if right[0] else 'wrong'}'; both kinds are needed")
    all_scores = np.array([item.score for item in every])
    scores = all_scores[rows]
    _, clusters = np.unique([every[row].id for row in rows], return_inverse=True)
    clusters = clusters.astype(np.int64)

    def measured(decisions: Floats | Bools, probabilities: Floats, errors: Floats) -> dict[str, Estimate]:
        def of(figure: Callable[[agreement.Confusion], Floats]) -> Estimate:
            return agreement.estimate(lambda w: figure(agreement.confusion(decisions, right, w)), weights, clusters)

        found = {name: of(figure) for name, figure in _FIGURES.items()}
        found["brier"] = agreement.estimate(lambda w: (w @ errors) / w.sum(axis=1), weights, clusters)
        gap = agreement.calibration_error(probabilities, right, weights[None])
        return found | {"calibration_error": Estimate(float(gap[0]))}

    untouched = measured(scores >= run_threshold, scores, (scores - right) ** 2)
    untouched["auc"] = agreement.estimate(lambda w: agreement.auc(scores, right, w), weights, clusters)
    crossed = mapping.cross_fit(scores, right, weights, clusters, seed=seed)
    cross_fitted = measured(crossed.decisions, crossed.probabilities, crossed.squared_errors)
    fitted = mapping.fit(scores, right, weights, mapping.method_for(len(right)))
    n_yes, n_units = float((all_scores >= run_threshold).sum()), float(len(all_scores))
    rate = {
        "judge": corrected.naive(n_yes, n_units),
        "by_errors": corrected.by_errors(n_yes, n_units, scores >= run_threshold, right, weights),
        "by_prediction": corrected.by_prediction(all_scores, rows, right, weights, clusters),
    }
    tiers = {}
    checked = np.array([np.nan if every[row].p_checker is None else every[row].p_checker for row in rows])
    if not np.isnan(checked).any():
        tiers = {name: _tier(p, right, weights, clusters) for name, p in (("checker", checked), ("final", scores))}
    n_right = int(right.sum())
    n_samples = int(clusters.max()) + 1
    ruling, reason = _rule(len(right), n_right, n_samples, untouched["auc"], cross_fitted)
    return MetricCalibration(
        unit=unit,
        n_labels=len(right),
        n_right=n_right,
        n_wrong=len(right) - n_right,
        n_samples=n_samples,
        method=fitted.method,
        threshold=mapping.threshold(fitted, scores, weights),
        untouched=untouched,
        cross_fitted=cross_fitted,
        rate=rate,
        ruling=ruling,
        reason=reason,
        slope=fitted.slope,
        intercept=fitted.intercept,
        x=fitted.x,
        y=fitted.y,
        tiers=tiers,
    )


def _tier(p: Floats, right: Bools, weights: Floats, clusters: NDArray[np.int64]) -> dict[str, Estimate]:
    at_half = agreement.estimate(
        lambda w: agreement.balanced_accuracy(agreement.confusion(p >= 0.5, right, w)), weights, clusters
    )
    area = agreement.estimate(lambda w: agreement.auc(p, right, w), weights, clusters)
    return {"auc": area, "balanced_accuracy": at_half}


def _rule(n: int, n_right: int, n_samples: int, auc: Estimate, cross_fitted: dict[str, Estimate]) -> tuple[Ruling, str]:
    """Rule what a metric may be used for.

    * not usable: the interval of the AUC reaches down to 0.5, so the judge may be guessing;
    * may gate: at least 100 labels of 20 samples, 20 of either kind, and balanced accuracy surely (lower end) 0.70 or
      more;
    * advisory: everything between.
    """
    balanced = cross_fitted["balanced_accuracy"]
    told = f"balanced accuracy {_told(balanced)}, cross-fitted on {n} labels"
    if auc.value is None or auc.value <= 0.5 or (auc.low is not None and auc.low <= 0.5):
        return "not usable", f"AUC {_told(auc)}: the judge may be guessing"
    if n_samples < GATE_SAMPLES:
        return "advisory", f"{told} of {n_samples} samples; {GATE_SAMPLES} are needed to gate"
    fewest = min(n_right, n - n_right)
    if n < GATE_LABELS or fewest < GATE_OF_A_CLASS:
        wanted = f"{GATE_LABELS} labels with {GATE_OF_A_CLASS} of either kind are needed to gate"
        return "advisory", f"{told}, {fewest} of the rarer kind; {wanted}"
    if balanced.low is None or balanced.low < GATE_BALANCED_ACCURACY:
        return "advisory", f"{told}; its lower end must reach {GATE_BALANCED_ACCURACY:.2f} to gate"
    return "may gate", told


def _told(figure: Estimate) -> str:
    if figure.value is None:
        return "undefined"
    return f"{figure.value:.3f}" + ("" if figure.low is None else f" ({figure.low:.3f} – {figure.high:.3f})")
