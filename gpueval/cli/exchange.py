"""``gpueval export`` and ``gpueval import``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.words import print_json
from gpueval.exchange.exports import SUFFIXES, export
from gpueval.exchange.imports import import_results
from gpueval.exchange.peers import TOOLS, Tool
from gpueval.report.terminal import show


@click.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help=f"File: {', '.join(SUFFIXES)}.")
@click.option(
    "--as",
    "tool",
    type=click.Choice(TOOLS),
    help="Layout and names of this tool: .csv for Ragas and TruLens, .json for DeepEval.",
)
def export_run(folder: Path, out: Path, tool: Tool | None) -> None:
    """Write the scores of the run in FOLDER to a file: a table, OpenMetrics text, or another tool's layout."""
    n = export(folder, out, tool)
    click.echo(f"gpueval: {out}: {n:,} rows" if out.suffix != ".prom" else f"gpueval: {out}", err=True)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Run folder to make.")
@click.option("--from", "tool", type=click.Choice(TOOLS), help="Whose results.  [default: told by the columns]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def import_run(file: Path, out: Path, tool: Tool | None, as_json: bool) -> None:
    """Make a run folder of a result FILE of Ragas, DeepEval or TruLens, for gate, compare and export."""
    found = import_results(file, out, tool)
    if as_json:
        print_json({"metrics": found.metrics, "groups": found.groups, "warnings": found.warnings})
    else:
        show(Console(), found.metrics, found.groups, found.warnings)
