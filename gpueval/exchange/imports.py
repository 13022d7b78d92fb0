"""A result file of another tool made into a run folder, so that a team's history can be compared and gated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from gpueval import __version__
from gpueval.data.columns import Columns, to_sample
from gpueval.data.load import rows
from gpueval.errors import DataError, UsageError
from gpueval.exchange.peers import TOOLS, Tool, metric_of, rows_of, tool_of
from gpueval.records import Cell, State
from gpueval.report.folder import write_run_reports
from gpueval.run_folder import locked, write_atomically, write_json, write_samples
from gpueval.scoring import Result, plain
from gpueval.stats.aggregate import Table

_Row = Mapping[str, Any]


def import_results(path: Path, out: Path, tool: Tool | None = None) -> Result:
    """Read a result file of Ragas, DeepEval or TruLens into a run folder.

    A score that the tool did not give (empty, NaN) is a failure with the state ``engine_error``; one outside 0 to 1 is
    an error. Columns whose metric we do not have are left out, with a remark.

    Args:
        path: CSV, JSON lines, JSON or Parquet.
        out: Run folder; must not hold a run of another kind.
        tool: Whose file; None tells it from the columns.

    Raises:
        DataError: The file cannot be read, or holds no score that we know; says file, line and field.
        UsageError: It is not clear whose file it is, or ``out`` holds a run that is not an import.
    """
    read, tool = _opened(path, tool)
    with locked(out):
        if (out / "judgments.sqlite").exists():
            raise UsageError(f"{out} holds a run with judgments of its own.", "Import into another folder with --out.")
        columns, table, unknown = Columns(), Table(), Counter[str]()
        encoder, seen = msgspec.json.Encoder(), Counter[str]()
        samples = []
        names: list[str] = []
        lines: list[tuple[str, str | None, dict[str, Cell]]] = []
        for line, row in rows_of(tool, read):
            sample = to_sample({k: v for k, v in row.items() if k is not None}, columns, file=str(path), line=line)
            seen[sample.id] += 1
            if seen[sample.id] > 1:
                raise DataError(f"id '{sample.id}' is used twice", file=str(path), line=line, field="id")
            cells: dict[str, Cell] = {}
            for column, value in row.items():
                metric = metric_of(tool, str(column))
                if metric is not None:
                    cells[metric] = _cell(value, path, line, str(column))
                elif isinstance(value, float) and value == value:
                    unknown[str(column)] += 1
            names += [name for name in cells if name not in names]
            samples.append(sample)
            lines.append((sample.id, sample.group, cells))
        if not names:
            raise DataError("holds no score that has a metric here", file=str(path), remedy=f"Read as {tool}'s.")
        lacking = Cell(None, State.ENGINE_ERROR)
        body = bytearray()
        for id_, group, cells in lines:
            whole = {name: cells.get(name, lacking) for name in names}
            table.add(whole, group)
            body += encoder.encode({"id": id_, "scores": plain(whole)}) + b"\n"
        write_samples(out / "samples.jsonl", samples)
        write_atomically(out / "scores.jsonl", bytes(body))
        remarks = [f"{n:,} x {text}" for text, n in columns.warnings.items()]
        remarks += [f"'{name}' has no metric here and was left out" for name in unknown]
        facts = _facts(tool, names, len(samples))
        summed = table.result(remarks)
        result = Result(summed["metrics"], summed["groups"], summed["warnings"], out)
        write_json(out / "run.json", facts)
        write_atomically(out / "summary.json", result.to_json())
        write_run_reports(out)
        return result


def _opened(path: Path, tool: Tool | None) -> tuple[Iterator[tuple[int, _Row]], Tool]:
    """Return the rows of a file and whose they are."""
    found: Iterator[tuple[int, _Row]]
    cases = _test_cases(path)
    found = enumerate(cases, start=1) if cases is not None else rows(path)
    first = next(found, None)
    if first is None:
        raise DataError("holds no rows", file=str(path))
    known = tool or tool_of(first[1])
    if known is None:
        raise UsageError(f"It is not clear whose results {path} holds.", f"Say it with --from: {', '.join(TOOLS)}.")
    return chain([first], found), known


def _test_cases(path: Path) -> list[_Row] | None:
    """Return the test cases of a DeepEval test run; None for any other file."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise DataError(f"not JSON: {error}", file=str(path)) from error
    if isinstance(content, dict) and isinstance(inner := content.get("testRunData"), dict):
        content = inner
    if not isinstance(content, dict) or not isinstance(content.get("testCases"), list):
        return None
    return list(content["testCases"])


def _cell(value: Any, path: Path, line: int, column: str) -> Cell:
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "nan", "none", "null")):
        return Cell(None, State.ENGINE_ERROR)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(f"'{value}' is no score", file=str(path), line=line, field=column) from None
    if math.isnan(number):
        return Cell(None, State.ENGINE_ERROR)
    if not 0 <= number <= 1:
        raise DataError(f"{number} is outside 0 to 1", file=str(path), line=line, field=column)
    return Cell(number)


def _facts(tool: Tool, names: list[str], n_samples: int) -> dict[str, Any]:
    return {
        "gpueval_version": __version__,
        "imported_from": tool,
        "prompts_version": tool,
        "settings": {"judge": None, "embedder": None, "metrics": names, "claims": "none", "threshold": 0.5},
        "judge": {"engine": tool, "fingerprint": f"imported:{tool}"},
        "embedder": {},
        "n_samples": n_samples,
        "metrics_asked": names,
        "calibration": None,
        "finished": True,
    }
