"""The summary as a table in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpueval.records import State, Summary
from gpueval.report.tables import print_notes, widen
from gpueval.units import score


def show(
    console: Console,
    metrics: Mapping[str, Summary],
    groups: Mapping[str, Mapping[str, Summary]],
    warnings: Sequence[str],
) -> None:
    """Print the table of metrics, one table per group, and the remarks."""
    widen(console)
    console.print(_table(metrics))
    if groups:
        console.print(_group_table(groups, metrics))
    print_notes(console, warnings)


def _group_table(groups: Mapping[str, Mapping[str, Summary]], metrics: Mapping[str, Summary]) -> Table:
    """Lay out the mean of every metric in every group, with n scored where it is not the whole group."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("mean by group", no_wrap=True)
    for group in groups:
        table.add_column(escape(group), justify="right")
    for name in metrics:
        table.add_row(escape(name), *(_mean(columns.get(name)) for columns in groups.values()))
    return table


def _mean(summary: Summary | None) -> str:
    if summary is None:
        return "–"
    short = f" ({summary.n_scored}/{summary.n_total})" if summary.n_scored < summary.n_total else ""
    return score(summary.mean) + short


def _table(metrics: Mapping[str, Summary]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for name in ("mean", "95 % interval", "scored"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("other states", overflow="fold")
    for name, summary in metrics.items():
        interval = "–" if summary.ci_low is None else f"{score(summary.ci_low)} – {score(summary.ci_high)}"
        states = ", ".join(f"{state} {n:,}" for state, n in summary.states.items() if state != State.OK)
        counts = f"{summary.n_scored:,} / {summary.n_total:,}"
        table.add_row(escape(name), score(summary.mean), interval, counts, states)
    return table
