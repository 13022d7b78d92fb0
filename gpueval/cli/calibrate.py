"""``gpueval calibrate``."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from gpueval.calibration.run import calibrate_run, sample_rows
from gpueval.errors import UsageError
from gpueval.report.calibration import show
from gpueval.report.tables import widen
from gpueval.run_folder import pretty_json


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--labels", type=click.Path(path_type=Path), help="CSV with labels: id, claim, label (1 or 0).")
@click.option("--sample", type=click.IntRange(2), help="Write this many rows to label instead.")
@click.option("--metric", default="faithfulness", show_default=True, help="Metric that is labelled.")
@click.option(
    "--unit",
    type=click.Choice(["claim", "answer"]),
    default="claim",
    show_default=True,
    help="With --sample: label claims, or whole answers.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write.  [default: RUN/labels.csv or RUN/calibration.json]"
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sample, or of the folds.")
@click.option("--json", "as_json", is_flag=True, help="Print the calibration as JSON.")
def calibrate(
    folder: Path,
    labels: Path | None,
    sample: int | None,
    metric: str,
    unit: str,
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    r"""Measure the judge of RUN on human labels, and fit what makes its probabilities mean something.

    \b
    gpueval calibrate RUN --sample 200          writes RUN/labels.csv to fill in (column label: 1 or 0)
    gpueval calibrate RUN --labels RUN/labels.csv
    gpueval rescore RUN --calibration RUN/calibration.json

    Prints agreement with the labels (untouched, and with mapping and threshold fitted on other samples), the corrected
    rate, and whether the metric may gate, is advisory, or is not usable.
    """
    if (labels is None) == (sample is None):
        raise UsageError("Give either --labels FILE or --sample N.")
    if sample is not None:
        path = out or folder / "labels.csv"
        n, n_all = sample_rows(folder, sample, metric, "answer" if unit == "answer" else "claim", path, seed=seed)
        click.echo(f"{path}: {n:,} of {n_all:,} {unit}s; fill in the column label (1 right, 0 wrong), then:", err=True)
        click.echo(f"gpueval calibrate {folder} --labels {path} --metric {metric}", err=True)
        return
    assert labels is not None
    path = out or folder / "calibration.json"
    found = calibrate_run(folder, labels, metric, path, seed=seed)
    if as_json:
        sys.stdout.buffer.write(pretty_json(found))
    else:
        console = Console()
        widen(console)
        show(console, found)
        click.echo(f"calibration: {path}", err=True)
