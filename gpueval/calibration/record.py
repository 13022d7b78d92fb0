"""What a calibration file holds, how it is read, and when it may be applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpueval.errors import DataError, UsageError
from gpueval.stats import mapping
from gpueval.stats.agreement import Estimate

FORMAT = 1

Unit = Literal["claim", "answer"]
Ruling = Literal["may gate", "advisory", "not usable"]


class MetricCalibration(msgspec.Struct, frozen=True):
    """One metric's judge, held against labels.

    Attributes:
        unit: What was labelled: claims, or whole answers.
        n_labels, n_right, n_wrong, n_samples: Labels, by class, and samples they come from.
        method, slope, intercept, x, y: See :class:`gpueval.stats.mapping.Mapping`.
        threshold: On the judge's own probability (unit claim) or score (unit answer).
        untouched: Agreement at the run's own threshold, probabilities as the judge gave them.
        cross_fitted: Agreement with threshold and mapping that were fitted without the row's sample.
        rate: Share of right units in the run: ``judge`` as it says, ``by_errors`` and ``by_prediction`` corrected.
        ruling: What the metric may be used for with this judge.
        reason: Why.
        tiers: Where a checker came first: AUC and balanced accuracy at 0.5 of the ``checker`` on all labels, and of the
            ``final`` probabilities.
    """

    unit: Unit
    n_labels: int
    n_right: int
    n_wrong: int
    n_samples: int
    method: mapping.Method
    threshold: float
    untouched: dict[str, Estimate]
    cross_fitted: dict[str, Estimate]
    rate: dict[str, Estimate]
    ruling: Ruling
    reason: str
    slope: float = 0.0
    intercept: float = 0.0
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    tiers: dict[str, dict[str, Estimate]] = {}

    @property
    def mapping(self) -> mapping.Mapping:
        """The map of scores to probabilities."""
        return mapping.Mapping(self.method, self.slope, self.intercept, self.x, self.y)


class Calibration(msgspec.Struct, frozen=True):
    """A calibration file: one judge, one or more metrics."""

    format: int
    judge: str
    judge_model: str
    prompts_version: str
    claims: str
    checker: str
    metrics: dict[str, MetricCalibration]


def read(path: Path) -> Calibration:
    """Read a calibration file.

    Raises:
        DataError: It cannot be read or is none.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except msgspec.DecodeError as error:
        raise DataError(
            f"not a calibration: {error}", file=str(path), remedy="Make one with: gpueval calibrate RUN --labels FILE"
        ) from error
    if found.format != FORMAT:
        raise DataError(f"format {found.format} is unknown; this version reads {FORMAT}", file=str(path))
    return found


def of_run(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what decides a judge's probabilities, from ``run.json``."""
    judge, checker = facts["judge"], facts.get("checker")
    return {
        "judge": judge.get("fingerprint", ""),
        "judge_model": str(judge.get("model") or judge.get("engine") or "none"),
        "prompts_version": facts["prompts_version"],
        "claims": facts["settings"]["claims"],
        "checker": f"{checker['fingerprint']} {list(checker['band'] or ())}" if checker else "none",
    }


def check(calibration: Calibration, facts: Mapping[str, Any], metrics: Sequence[str]) -> None:
    """Refuse a calibration that was made for something else.

    Args:
        calibration: What was asked for.
        facts: The content of ``run.json``.
        metrics: Names of the run's metrics.

    Raises:
        UsageError: Judge, prompts, claims or metrics differ, or a metric's score does not rise with what is right.
    """
    run = of_run(facts)
    kinds = {"judge": "judge", "prompts_version": "version of the prompts", "claims": "kind of claims"}
    for key, what in (kinds | {"checker": "checker"}).items():
        made_for = getattr(calibration, key)
        if made_for != run[key]:
            told = (calibration.judge_model, run["judge_model"]) if key == "judge" else (made_for, run[key])
            names = f"{told[0]}, not {told[1]}" if told[0] != told[1] else f"{made_for}, not {run[key]}"
            raise UsageError(
                f"The calibration was made for another {what}: {names}.",
                "Label rows of this run and calibrate again: gpueval calibrate RUN --sample 200",
            )
    if not set(calibration.metrics) & set(metrics):
        raise UsageError(
            f"The calibration is for {', '.join(calibration.metrics)}; the run scores {', '.join(metrics)}.",
            "Calibrate one of the run's metrics with --metric.",
        )
    for name, one in calibration.metrics.items():
        if name in metrics and not one.mapping.rises:
            raise UsageError(
                f"{name} cannot be calibrated with this judge: {one.reason}.", "Use another judge, or no --calibration."
            )
