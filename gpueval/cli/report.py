"""``gpueval report``."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from gpueval.cli.words import write_file
from gpueval.decisions.compare import check_alike
from gpueval.decisions.gate import Check, check
from gpueval.decisions.policy import PRESETS, read_policy
from gpueval.decisions.scored import read_scored
from gpueval.errors import UsageError
from gpueval.report.folder import run_reports
from gpueval.report.page.retrieved import retrieval_page
from gpueval.report.page.samples import MOST
from gpueval.report.plots import retrieval_plots, run_plots
from gpueval.report.ranking import retrieval_markdown
from gpueval.run_folder import is_retrieval, read_retrieval


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write the page here.  [default: in FOLDER]")
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path), help="Write it as Markdown here, too.")
@click.option("--plots", type=click.Path(path_type=Path), help="Write PNG plots into this folder, too.")
@click.option("--policy", metavar="FILE|PRESET", help=f"Show a gate's checks: TOML file, or {' or '.join(PRESETS)}.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Earlier run of the same samples, for max_loss.")
@click.option("--anyway", is_flag=True, help="Hold it against a baseline of another judge or other samples, too.")
@click.option("--most", type=click.IntRange(1), default=MOST, show_default=True, help="Samples on the page at most.")
def report(
    folder: Path,
    opened: bool,
    html_path: Path | None,
    markdown_path: Path | None,
    plots: Path | None,
    policy: str | None,
    baseline: Path | None,
    anyway: bool,
    most: int,
) -> None:
    """Write the report of the run or retrieval in FOLDER anew: one HTML file that needs no network."""
    if is_retrieval(folder):
        if policy or baseline:
            raise UsageError("A policy is for a run of gpueval run; this is a retrieval.", "Leave --policy out.")
        body = read_retrieval(folder)
        page, told = retrieval_page(body, folder.resolve().name), retrieval_markdown(body)
        drawn = retrieval_plots(body, plots) if plots else []
    else:
        page, told = run_reports(folder, _checks(folder, policy, baseline, anyway=anyway), policy or "", most)
        drawn = run_plots(read_scored(folder), plots) if plots else []
    path = html_path or folder / "report.html"
    write_file(path, page)
    if markdown_path:
        write_file(markdown_path, told)
    for made in (path, *([markdown_path] if markdown_path else ()), *drawn):
        click.echo(str(made))
    if opened and not webbrowser.open(path.resolve().as_uri()):
        raise UsageError("No browser could be opened.", f"Open {path} in one.")


def _checks(folder: Path, policy: str | None, baseline: Path | None, *, anyway: bool) -> list[Check] | None:
    if policy is None:
        if baseline:
            raise UsageError("A baseline is for a policy's max_loss.", "Add --policy, or see: gpueval compare --help")
        return None
    rules, run = read_policy(policy), read_scored(folder)
    before = read_scored(baseline) if baseline else None
    for note in check_alike(before, run, anyway=anyway) if before else []:
        click.echo(f"gpueval: {note}", err=True)
    return check(rules, run, before)
