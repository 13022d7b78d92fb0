"""A run's scores as a table, as metrics for a monitor, or in the layout of another tool."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import UsageError
from gpueval.exchange.peers import Tool, name_for
from gpueval.lazy import require
from gpueval.metrics import METRICS
from gpueval.records import Sample, Summary
from gpueval.run_folder import read_scores, read_summary
from gpueval.stats.aggregate import coverage

SUFFIXES = (".csv", ".parquet", ".prom")
_ROWS_AT_ONCE = 10_000
_GOOD = 0.5
_Line = tuple[Sample, Mapping[str, Mapping[str, Any]]]


def export(folder: Path, out: Path, tool: Tool | None = None) -> int:
    """Write a finished run to a file.

    Args:
        folder: Run folder.
        out: ``.csv`` or ``.parquet``: one row per sample with its texts, and per metric a value and a state. ``.prom``:
            OpenMetrics text, one value per metric and group. For a tool: ``.csv`` (Ragas, TruLens), ``.json``
            (DeepEval).
        tool: Use this tool's layout and names; metrics that it lacks are left out.

    Returns:
        Samples written; for OpenMetrics, metrics.

    Raises:
        UsageError: The run has not finished, or the file's ending does not fit.
        PrerequisiteError: Parquet needs pyarrow.
    """
    summary = read_summary(folder)
    wanted = SUFFIXES if tool is None else (".json",) if tool == "deepeval" else (".csv",)
    if out.suffix not in wanted:
        what = f"{tool}'s layout" if tool else "an export"
        raise UsageError(f"'{out.name}' has no ending of {what}.", f"Name it with {' or '.join(wanted)}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_suffix(out.suffix + ".partial")
    if out.suffix == ".prom":
        partial.write_text(open_metrics(summary["metrics"], summary["groups"]))
        n = len(summary["metrics"])
    elif tool == "deepeval":
        n = _deepeval(folder, partial)
    else:
        rows = (_row(*line) if tool is None else _peer_row(tool, *line) for line in _lines(folder))
        n = (_parquet if out.suffix == ".parquet" else _csv)(rows, partial)
    partial.replace(out)
    return n


def open_metrics(metrics: Mapping[str, Summary], groups: Mapping[str, Mapping[str, Summary]]) -> str:
    """Return summaries as OpenMetrics text (openmetrics.io): mean, interval, coverage, samples by state."""
    tables: list[tuple[dict[str, str], str, Summary]] = [({}, name, one) for name, one in metrics.items()]
    tables += [({"group": group}, name, one) for group, of in groups.items() for name, one in of.items()]
    families = (
        ("gpueval_score", "Mean score over the samples with a value.", lambda one: {"": one.mean}),
        ("gpueval_score_low", "Lower end of the mean's 95 % interval.", lambda one: {"": one.ci_low}),
        ("gpueval_score_high", "Upper end of the mean's 95 % interval.", lambda one: {"": one.ci_high}),
        ("gpueval_coverage", "Share of the samples that the metric could deal with.", lambda one: {"": coverage(one)}),
        ("gpueval_samples", "Samples by state.", lambda one: one.states),
    )
    lines = []
    for family, text, values in families:
        lines += [f"# TYPE {family} gauge", f"# HELP {family} {text}"]
        for labels, name, one in tables:
            for state, value in values(one).items():
                if value is not None:
                    told = {"metric": name, **labels} | ({"state": state} if state else {})
                    inner = ",".join(f'{key}="{_escaped(label)}"' for key, label in told.items())
                    lines.append(f"{family}{{{inner}}} {value}")
    return "\n".join([*lines, "# EOF", ""])


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _lines(folder: Path) -> Iterator[_Line]:
    for sample, line in read_scores(folder, dict[str, Any]):
        yield sample, line["scores"]


def _row(sample: Sample, cells: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": sample.id, "group": sample.group, "question": sample.question}
    row |= {"answer": sample.answer, "contexts": _chunks(sample), "reference": sample.reference}
    for name, cell in cells.items():
        row |= {name: cell["value"], f"{name}_state": cell["state"]}
    return row


def _peer_row(tool: Tool, sample: Sample, cells: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if tool == "ragas":
        row = {"user_input": sample.question, "retrieved_contexts": _chunks(sample), "response": sample.answer}
        row |= {"reference": sample.reference}
    else:
        row = {"app_id": "gpueval", "record_id": sample.id, "input": sample.question, "output": sample.answer}
    return row | {name: cell["value"] for metric, cell in cells.items() if (name := name_for(tool, metric)) is not None}


def _chunks(sample: Sample) -> str | None:
    if sample.contexts is None:
        return None
    return msgspec.json.encode([passage.text for passage in sample.contexts]).decode()


def _csv(rows: Iterator[dict[str, Any]], path: Path) -> int:
    n = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            n += 1
    return n


def _parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    n, writer = 0, None
    try:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            schema = arrow.schema([(name, arrow.float64() if name in METRICS else arrow.string()) for name in some[0]])
            writer = writer or parquet.ParquetWriter(path, schema)
            writer.write_table(arrow.Table.from_pylist(some, schema=schema))
            n += len(some)
    finally:
        if writer is not None:
            writer.close()
    return n


def _deepeval(folder: Path, path: Path) -> int:
    cases = []
    for order, (sample, cells) in enumerate(_lines(folder)):
        metrics = [
            {"name": name, "threshold": _GOOD, "score": cell["value"], "success": _succeeds(metric, cell["value"])}
            | ({} if cell["value"] is not None else {"error": cell["state"]})
            for metric, cell in cells.items()
            if (name := name_for("deepeval", metric)) is not None
        ]
        case: dict[str, Any] = {"name": sample.id, "input": sample.question or "", "actualOutput": sample.answer}
        case |= {"expectedOutput": sample.reference, "success": all(one["success"] for one in metrics)}
        if sample.contexts is not None:
            case["retrievalContext"] = [passage.text for passage in sample.contexts]
        cases.append(case | {"metricsData": metrics, "order": order})
    n_passed = sum(case["success"] for case in cases)
    body = {"testCases": cases, "testPassed": n_passed, "testFailed": len(cases) - n_passed, "runDuration": 0.0}
    path.write_bytes(msgspec.json.encode(body))
    return len(cases)


def _succeeds(metric: str, value: float | None) -> bool:
    return value is not None and (value >= _GOOD if METRICS[metric].higher_is_better else value <= _GOOD)
