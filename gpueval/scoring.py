"""The samples of a run folder, window by window: judged, scored, summed up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from gpueval.calibration import apply
from gpueval.calibration.record import Calibration, MetricCalibration
from gpueval.drawing import Drawing
from gpueval.judge.ahead import judged_windows
from gpueval.judge.run import Bench
from gpueval.metrics import Metric, score
from gpueval.metrics.base import NOISE
from gpueval.metrics.baselines import load_libraries
from gpueval.records import Cell, Judgments, Sample, State, Summary
from gpueval.run_folder import pretty_json, read_samples, write_atomically
from gpueval.stats.aggregate import Table

_DOUBTFUL_LABEL_MASS = 0.8
NOT_SAMPLED = Cell(None, State.NOT_SAMPLED)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to.

    Attributes:
        metrics: Summary per metric.
        groups: Summaries per group and metric.
        warnings: Remarks on data and results.
        folder: The run folder.
    """

    metrics: dict[str, Summary]
    groups: dict[str, dict[str, Summary]]
    warnings: list[str]
    folder: Path

    def to_json(self) -> bytes:
        """Return what ``summary.json`` holds."""
        body = {"metrics": self.metrics, "groups": self.groups, "warnings": self.warnings}
        return pretty_json(body)

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of ``scores.jsonl``."""
        with (self.folder / "scores.jsonl").open("rb") as file:
            for line in file:
                yield msgspec.json.decode(line)

    def to_pandas(self) -> Any:
        """Return one row per sample with a value and a state column per metric; needs pandas."""
        import pandas

        rows = []
        for line in self.cells():
            row: dict[str, Any] = {"id": line["id"]}
            for name, cell in line["scores"].items():
                row |= {name: cell["value"], f"{name}_state": cell["state"]}
            rows.append(row)
        return pandas.DataFrame(rows)


def score_folder(
    folder: Path,
    metrics: Sequence[Metric],
    bench: Bench,
    window_samples: int,
    warnings: Mapping[str, int],
    calibration: Calibration | None,
    drawing: Drawing,
) -> Result:
    """Judge and score the samples of a run folder, window by window; leaves scores.jsonl and summary.json.

    Args:
        folder: Run folder with samples.jsonl.
        metrics: What to score.
        bench: What the judge's rounds work with.
        window_samples: Samples in memory at a time.
        warnings: Remarks on the data with their counts.
        calibration: Seen through it, where there is one.
        drawing: Decides which metrics each window is asked for.
    """
    load_libraries(metrics)
    of_metric = calibration.metrics if calibration else {}
    bench.sure_from = max([bench.threshold, *(one.threshold for one in of_metric.values() if one.unit == "claim")])
    table, encoder = Table(), msgspec.json.Encoder()
    partial = folder / "scores.jsonl.partial"
    n_done = n_unstable = n_suspicious = 0
    with (folder / "samples.jsonl").open("rb") as file:
        n_total = sum(1 for _ in file)
    with partial.open("wb") as lines:
        samples = read_samples(folder / "samples.jsonl")

        def take(n_before: int) -> tuple[list[Sample], list[Metric]]:
            return list(islice(samples, drawing.step(table, n_before, window_samples))), drawing.active(n_before)

        for judged in judged_windows(take, bench, n_ahead=0 if drawing.by_results else 1):
            left_out = {metric.name: NOT_SAMPLED for metric in metrics if metric not in judged.metrics}
            for sample, suspicious, judgments in zip(judged.samples, judged.suspicious, judged.judgments, strict=True):
                cells = score_sample(sample, judgments, judged.metrics, of_metric) | left_out
                table.add(cells, sample.group)
                line: dict[str, Any] = {"id": sample.id, "scores": plain(cells)}
                if unstable := [name for name, cell in cells.items() if any("unstable" in c for c in cell.claims)]:
                    line["unstable"], n_unstable = unstable, n_unstable + 1
                if suspicious:
                    line["suspicious"], n_suspicious = suspicious, n_suspicious + 1
                lines.write(encoder.encode(line) + b"\n")
            n_done += len(judged.samples)
            drawing.look(table, n_done)
            bench.progress("samples", n_done, n_total)
    partial.replace(folder / "scores.jsonl")
    remarks = [f"{count:,} x {text}" for text, count in warnings.items()]
    remarks += drawing.remarks(n_total)
    remarks += [f"{name}: {one.ruling} ({one.reason})" for name, one in of_metric.items() if name in cells]
    mass = bench.tally.mean_label_mass
    if mass is not None and mass < _DOUBTFUL_LABEL_MASS:
        remarks.append(
            f"the judge gives its labels only {mass:.2f} of its probability on average: it hardly follows, "
            "so take its verdicts with doubt and compare them with a few labels of your own"
        )
    if n_unstable:
        remarks.append(f"{n_unstable:,} samples are unstable: a verdict lies within {NOISE} of the threshold")
    ignored = "; instructions were not read" if bench.guard else ""
    if n_suspicious:
        remarks.append(
            f"{n_suspicious:,} samples hold text that speaks to the judge, see 'suspicious' in scores.jsonl" + ignored
        )
    cut = bench.embedder.facts().get("n_truncated", 0) if bench.embedder else 0
    if cut:
        remarks.append(f"{cut:,} texts were longer than the embedding model reads: what comes after counts nowhere")
    summed = table.result(remarks)
    result = Result(summed["metrics"], summed["groups"], summed["warnings"], folder)
    write_atomically(folder / "summary.json", result.to_json())
    return result


def score_sample(
    sample: Sample,
    judgments: Judgments,
    metrics: Sequence[Metric],
    calibration: Mapping[str, MetricCalibration] | None = None,
) -> dict[str, Cell]:
    """Score one sample whose judgments are known, each metric through its calibration where it has one."""
    cells: dict[str, Cell] = {}
    for metric in metrics:
        calibrated = (calibration or {}).get(metric.name)
        if calibrated is None:
            cells[metric.name] = score(metric, sample, judgments)
        elif calibrated.unit == "claim":
            cells[metric.name] = score(metric, sample, apply.judgments(judgments, calibrated))
        else:
            cells[metric.name] = apply.cell(score(metric, sample, judgments), calibrated)
    return cells


def plain(cells: Mapping[str, Cell]) -> dict[str, dict[str, Any]]:
    """Return cells as a line of ``scores.jsonl`` holds them."""
    found = {}
    for name, cell in cells.items():
        body: dict[str, Any] = {"value": cell.value, "state": cell.state}
        if cell.low is not None:
            body |= {"low": cell.low, "high": cell.high}
        if cell.claims:
            body["claims"] = cell.claims
        found[name] = body | cell.detail
    return found
