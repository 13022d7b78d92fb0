"""A finished run read back for a decision: its values per sample, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpueval.calibration.record import of_run
from gpueval.fingerprint import text_digest
from gpueval.metrics import METRICS
from gpueval.records import BY_EMBEDDER_ALONE, Sample, Summary
from gpueval.run_folder import read_run, read_scores, read_summary


class _Cell(msgspec.Struct):
    value: float | None


class _Line(msgspec.Struct):
    scores: dict[str, _Cell]


@dataclass(frozen=True, slots=True)
class Scored:
    """A run's results, sample by sample.

    Attributes:
        folder: The run folder.
        facts: ``run.json``.
        metrics: Summary per metric.
        groups: Summaries per group and metric.
        ids: Sample ids, (n,) in the run's order.
        group_of: Group of every sample, (n,); None without one.
        asked: Digest of every sample's question and reference, (n,): what was asked, whoever answered.
        values: Per metric (n,) float64, NaN where a sample has no value.
    """

    folder: Path
    facts: Mapping[str, Any]
    metrics: Mapping[str, Summary]
    groups: Mapping[str, Mapping[str, Summary]]
    ids: Sequence[str]
    group_of: Sequence[str | None]
    asked: Sequence[bytes]
    values: Mapping[str, NDArray[np.float64]]

    def ruling(self, metric: str) -> str:
        """Say whether a metric's score may block: ``deterministic``, what its calibration rules, or ``uncalibrated``.

        A metric that no judge has a part in gives the same value on every machine.
        """
        if not set(METRICS[metric].needs) - BY_EMBEDDER_ALONE:
            return "deterministic"
        calibration = self.facts.get("calibration") or {}
        one = calibration.get("metrics", {}).get(metric)
        return str(one["ruling"]) if one else "uncalibrated"

    def made_with(self) -> dict[str, str]:
        """Return what decides a score besides the system under test: judge, prompts, claims, checker, threshold."""
        settings = self.facts["settings"]
        calibration = self.facts.get("calibration")
        known = text_digest(msgspec.json.encode(calibration).decode()).hex() if calibration else "none"
        kept = str(settings.get("keep_instructions", False))
        return of_run(self.facts) | {
            "threshold": str(settings["threshold"]),
            "calibration": known,
            "instructions": kept,
        }


def read_scored(folder: Path) -> Scored:
    """Read a finished run. O(samples) time, about 100 bytes of memory per sample and 8 per cell.

    Raises:
        UsageError: The folder is no run folder, or the run has not finished.
    """
    facts, summary = read_run(folder), read_summary(folder)
    ids, groups, asked = list[str](), list[str | None](), list[bytes]()
    columns: dict[str, list[float]] = {name: [] for name in summary["metrics"]}
    for sample, line in read_scores(folder, _Line):
        ids.append(sample.id)
        groups.append(sample.group)
        asked.append(_asked(sample))
        for name, column in columns.items():
            value = line.scores[name].value
            column.append(float("nan") if value is None else value)
    values = {name: np.array(column) for name, column in columns.items()}
    return Scored(folder, facts, summary["metrics"], summary["groups"], ids, groups, asked, values)


def _asked(sample: Sample) -> bytes:
    return text_digest(msgspec.json.encode((sample.question, sample.reference)).decode())
