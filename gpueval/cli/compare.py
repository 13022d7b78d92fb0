"""``gpueval compare``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.words import names_in, print_json, write_file
from gpueval.decisions.compare import check_alike
from gpueval.decisions.compare import compare as compare_runs
from gpueval.decisions.scored import read_scored
from gpueval.errors import UsageError
from gpueval.report.comparison import comparison_markdown, show_comparison
from gpueval.report.page.compared import compared_page
from gpueval.report.plots import comparison_plots


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("others", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metrics", default="", help="Names, separated by commas.  [default: all that the runs share]")
@click.option(
    "--detect",
    type=click.FloatRange(0, 1, min_open=True),
    help="Say how many samples a mean difference of this size needs (80 % power, 5 % significance).",
)
@click.option(
    "--good",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Score from which a sample is good: who crosses it has turned.",
)
@click.option("--anyway", is_flag=True, help="Compare runs of another judge or of other samples, too.")
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path), help="Write the tables as Markdown here.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write a page, samples side by side, here.")
@click.option("--plots", type=click.Path(path_type=Path), help="Write PNG plots into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def compare(
    base: Path,
    others: tuple[Path, ...],
    metrics: str,
    detect: float | None,
    good: float,
    anyway: bool,
    markdown_path: Path | None,
    html_path: Path | None,
    plots: Path | None,
    as_json: bool,
) -> None:
    """Hold the runs OTHERS against the run BASE, sample by sample.

    Differences are other minus base, over the samples with a value in both; p-values by random sign flips, corrected
    (Holm) over everything compared.
    """
    if (html_path or plots) and len(others) > 1:
        raise UsageError("A page and its plots show two runs.", "Give --html or --plots with one other run at a time.")
    first, runs = read_scored(base), [read_scored(other) for other in others]
    notes = [note for run in runs for note in check_alike(first, run, anyway=anyway)]
    shared = [name for name in first.metrics if all(name in run.metrics for run in runs)]
    names = names_in(metrics) or shared
    if unknown := [name for name in names if name not in shared]:
        raise UsageError(f"Not in all runs: {', '.join(unknown)}.", f"They share: {', '.join(shared) or 'nothing'}")
    if not names:
        raise UsageError("The runs share no metric.")
    found = compare_runs(first, runs, names, good=dict.fromkeys(names, good), wanted=detect)
    by_run = dict(zip(map(str, others), found, strict=True))
    if markdown_path:
        write_file(markdown_path, comparison_markdown(str(base), by_run, notes))
    if html_path:
        write_file(html_path, compared_page(first, runs[0], found[0], notes, good))
    if plots:
        for made in comparison_plots(first, runs[0], found[0], plots):
            click.echo(f"plot: {made}", err=True)
    if as_json:
        print_json({"base": str(base), "others": by_run, "warnings": notes})
    else:
        show_comparison(Console(), str(base), by_run, notes)
