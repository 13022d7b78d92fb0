"""A calibration as text for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from gpueval.calibration.record import Calibration, MetricCalibration
from gpueval.report.tables import new_table, print_line
from gpueval.stats.agreement import Estimate
from gpueval.units import score

_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "sensitivity": "sensitivity (right called right)",
    "specificity": "specificity (wrong called wrong)",
    "kappa": "Cohen's kappa",
    "alpha": "Krippendorff's alpha",
    "auc": "AUC",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
_RATES = {
    "judge": "as the judge says",
    "by_errors": "corrected by its errors",
    "by_prediction": "prediction-powered",
}
_TIERS = {"checker": "the checker alone", "final": "checker and judge together"}
_HEADS = ("agreement", "untouched", "95 % interval", "cross-fitted", "95 % interval")
_COLOURS = {"may gate": "green", "advisory": "yellow", "not usable": "red"}


def show(console: Console, calibration: Calibration) -> None:
    """Print every metric's figures, rates and ruling."""
    for name, metric in calibration.metrics.items():
        print_line(
            console,
            f"[bold]{escape(name)}[/]: {metric.n_labels:,} labelled {metric.unit}s of {metric.n_samples:,} samples "
            f"({metric.n_right:,} right, {metric.n_wrong:,} wrong), judge {escape(calibration.judge_model)}",
        )
        table = new_table(*_HEADS, unbroken=(0, 2, 4))
        for key, text in _NAMES.items():
            table.add_row(text, *_cells(metric.untouched.get(key)), *_cells(metric.cross_fitted.get(key)))
        console.print(table)
        rates = new_table(f"share of right {metric.unit}s in the run", "", "95 % interval", unbroken=(0, 2))
        for key, text in _RATES.items():
            rates.add_row(text, *_cells(metric.rate.get(key)))
        console.print(rates)
        for tier, figures in metric.tiers.items():
            told = ", ".join(f"{_NAMES[key]} {score(figure.value)}" for key, figure in figures.items())
            print_line(console, f"{_TIERS[tier]}: {told}")
        print_line(console, _fitted(metric))
        print_line(console, f"[{_COLOURS[metric.ruling]}]{metric.ruling}[/]: {escape(metric.reason)}")


def _fitted(metric: MetricCalibration) -> str:
    what = "probability" if metric.unit == "claim" else "score"
    if metric.method == "platt":
        form = f"Platt's mapping, slope {metric.slope:.3f}, intercept {metric.intercept:.3f}"
    else:
        form = f"isotonic mapping of {len(metric.x)} points"
    return f"right from {what} {metric.threshold:.3f} on; {form}"


def _cells(figure: Estimate | None) -> tuple[str, str]:
    if figure is None:
        return "", ""
    return score(figure.value), "" if figure.low is None else f"{score(figure.low)} – {score(figure.high)}"
