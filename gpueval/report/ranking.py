"""Ranking measures as tables in the terminal; they show the dictionary that ``gpueval rank --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpueval.report.cells import cell
from gpueval.report.tables import new_table, print_line, print_notes, widen
from gpueval.units import duration, per_second, score


def _interval(found: Mapping[str, Any]) -> str:
    return "–" if found["ci_low"] is None else f"{score(found['ci_low'])} – {score(found['ci_high'])}"


def show_ranking(console: Console, body: Mapping[str, Any]) -> None:
    """Print averages, groups, the comparison and remarks."""
    table = new_table("measure", "mean", "95 % interval", "queries")
    for name, found in body["metrics"].items():
        table.add_row(
            escape(name), score(found["mean"]), _interval(found), f"{found['n_scored']:,} / {found['n_total']:,}"
        )
    console.print(table)
    if groups := body.get("groups"):
        heads = [f"{group} ({next(iter(metrics.values()))['n_scored']})" for group, metrics in groups.items()]
        table = new_table("mean by group", *heads, unbroken=(0,))
        for name in body["metrics"]:
            table.add_row(escape(name), *(score(metrics[name]["mean"]) for metrics in groups.values()))
        console.print(table)
    if comparison := body.get("comparison"):
        _show_comparison(console, comparison)
    print_notes(console, body["warnings"])


def _show_comparison(console: Console, comparison: Mapping[str, Mapping[str, Any]]) -> None:
    table = new_table("other minus this", "difference", "95 % interval", "p (Holm)", "better", "worse")
    for name, found in comparison.items():
        p = found["p_value"]
        table.add_row(
            escape(name),
            "–" if found["difference"] is None else f"{found['difference']:+.3f}",
            _interval(found),
            "–" if p is None else f"{p:.4f}" if p >= 0.0001 else "< 0.0001",
            f"{found['better']:,}",
            f"{found['worse']:,}",
        )
    console.print(table)
    first = next(iter(comparison))
    for moved in comparison[first]["moved"]:
        print_line(console, f"  {escape(moved['query'])}: {first} {moved['difference']:+.3f}")


def label_of(row: Mapping[str, Any]) -> str:
    """Name an index with its search setting, where it has one."""
    return str(row["index"]) if row["setting"] is None else f"{row['index']} {row['setting']}"


def best_settings(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return each index once, with the setting that finds most of the exact result."""
    best: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        held = best.get(row["index"])
        if held is None or row["recall_of_exact"] > held["recall_of_exact"]:
            best[row["index"]] = row
    return list(best.values())


def retrieval_markdown(body: Mapping[str, Any]) -> str:
    """Return the dictionary of ``gpueval retrieve --json`` as Markdown."""
    rows = body["indexes"]
    metrics = list(rows[0].get("metrics", ()))
    names = ["index", *metrics, "of exact", "queries/s", "build", "MiB"]
    lines = [
        "# gpueval retrieval",
        "",
        _about(body),
        "",
        f"| {' | '.join(names)} |",
        "|---" + "|---:" * (len(names) - 1) + "|",
    ]
    lines += [f"| {' | '.join(map(cell, _index_cells(row, metrics)))} |" for row in rows]
    if worst := body.get("worst_queries"):
        lines += ["", f"## Answered worst, by {body['measure']}", ""]
        lines += [f"- {cell(one['query'])}: {score(one['value'])} {cell(body['texts'][one['query']])}" for one in worst]
    return "\n".join([*lines, "", *(f"- {cell(text)}" for text in body["warnings"]), ""])


def _about(body: Mapping[str, Any]) -> str:
    return (
        f"{body['documents']:,} documents, {body['queries']:,} queries, {body['embedder']} with {body['dimensions']} "
        f"dimensions; {body['encoded_now']:,} texts encoded now, "
        f"{body['truncated']:,} of these longer than the model reads"
    )


def _index_cells(row: Mapping[str, Any], metrics: Sequence[str]) -> list[str]:
    return [
        label_of(row),
        *(score(row["metrics"][name]["mean"]) for name in metrics),
        score(row["recall_of_exact"]),
        per_second(row["queries_per_s"]),
        duration(row["build_s"]) if row["build_s"] else "–",
        f"{row['size_bytes'] / (1 << 20):,.1f}",
    ]


def show_retrieval(console: Console, body: Mapping[str, Any]) -> None:
    """Print one line per index and setting: quality of the ranking, of the index, and what it costs."""
    rows = body["indexes"]
    metrics = list(rows[0].get("metrics", ()))
    names = ["index", *metrics, "of exact", "queries/s", "build", "MiB"]
    table = new_table(*names, unbroken=range(len(names)))
    for row in rows:
        table.add_row(*_index_cells(row, metrics))
    widen(console)
    console.print(table)
    print_line(console, _about(body))
    print_notes(console, body["warnings"])
