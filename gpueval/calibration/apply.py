"""Judgments and cells seen through a calibration. Pure."""

from __future__ import annotations

import msgspec
import numpy as np

from gpueval.calibration.record import MetricCalibration
from gpueval.records import SUPPORT_NEEDS, Cell, Judgments, State, Verdict
from gpueval.stats.mapping import Mapping


def judgments(found: Judgments, calibration: MetricCalibration) -> Judgments:
    """Map the probabilities of claims and the threshold; decisions are those at the calibrated threshold.

    Only verdicts on claims change: similarities and usefulness were not labelled.
    """
    g = calibration.mapping
    verdicts = {need: _mapped(row, g) if need in SUPPORT_NEEDS else row for need, row in found.verdicts.items()}
    return msgspec.structs.replace(found, verdicts=verdicts, threshold=_one(g, calibration.threshold))


def cell(found: Cell, calibration: MetricCalibration) -> Cell:
    """Add what the labels of whole answers say: ``p_right`` and whether it ``passes`` the threshold; nothing where
    verdicts are missing.
    """
    score = answer_score(found.value, found.detail)
    if score is None or found.state == State.PARTIAL:
        return found
    added = {"p_right": _one(calibration.mapping, score), "passes": score >= calibration.threshold}
    return msgspec.structs.replace(found, detail=found.detail | added)


def answer_score(value: float | None, detail: dict[str, object]) -> float | None:
    """Return the score of a whole answer: its probability of being fully grounded where the metric has one, else its
    value.
    """
    grounded = detail.get("p_grounded")
    return grounded if isinstance(grounded, float) else value


def _mapped(row: tuple[Verdict, ...], g: Mapping) -> tuple[Verdict, ...]:
    known = g(np.array([0.0 if verdict.p is None else verdict.p for verdict in row])).tolist()
    return tuple(
        verdict if verdict.p is None else msgspec.structs.replace(verdict, p=p)
        for verdict, p in zip(row, known, strict=True)
    )


def _one(g: Mapping, score: float) -> float:
    return float(g(np.array([score]))[0])
