"""``gpueval metrics``."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from gpueval.cli.words import print_json
from gpueval.metrics import DEFAULT, METRICS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def metrics(as_json: bool) -> None:
    """List the metrics, the fields they need and which way is better."""
    rows = [
        {
            "name": metric.name,
            "fields": metric.fields,
            "needs": metric.needs,
            "higher_is_better": metric.higher_is_better,
            "default": metric.name in DEFAULT,
        }
        for metric in METRICS.values()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("metric", "fields", "better", "default"):
        table.add_column(name)
    for row in rows:
        better = "higher" if row["higher_is_better"] else "lower"
        table.add_row(str(row["name"]), ", ".join(row["fields"]), better, "yes" if row["default"] else "")  # type: ignore[arg-type]
    Console().print(table)
