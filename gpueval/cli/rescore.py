"""``gpueval rescore``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click
from rich.console import Console

from gpueval import pipeline
from gpueval.cli.words import names_in
from gpueval.errors import UsageError
from gpueval.report.terminal import show


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--metrics", default="", help="Names, separated by commas.  [default: the run's own]")
@click.option("--threshold", type=float, help="A verdict counts as yes at this probability.  [default: the run's own]")
@click.option("--calibration", type=click.Path(path_type=Path), help="File of calibrate.  [default: the run's own]")
@click.option("--no-calibration", is_flag=True, help="Take the judge's probabilities as they are.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def rescore(
    folder: Path,
    metrics: str,
    threshold: float | None,
    calibration: Path | None,
    no_calibration: bool,
    as_json: bool,
) -> None:
    """Score the run in FOLDER again from its stored replies: no model, no GPU."""
    names = names_in(metrics)
    if calibration and no_calibration:
        raise UsageError("Give --calibration or --no-calibration, not both.")
    chosen: Path | Literal[False] | None = False if no_calibration else calibration
    result = pipeline.rescore(folder, metrics=names, threshold=threshold, calibration=chosen)
    if as_json:
        sys.stdout.buffer.write(result.to_json())
    else:
        show(Console(), result.metrics, result.groups, result.warnings)
