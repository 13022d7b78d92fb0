"""``gpueval report``."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from gpueval.decisions.compare import check_alike
from gpueval.decisions.gate import check
from gpueval.decisions.policy import PRESETS, read_policy
from gpueval.decisions.scored import read_scored
from gpueval.errors import UsageError
from gpueval.report.page.retrieved import retrieval_page
from gpueval.report.page.run import run_page
from gpueval.report.page.samples import MOST
from gpueval.run_folder import is_retrieval, read_retrieval, write_atomically


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write it here.  [default: in FOLDER]")
@click.option("--open", "opened", is_flag=True, help="Open it in the browser.")
@click.option(
    "--policy", metavar="FILE|PRESET", help=f"Show a gate's checks, too: TOML file, or {' or '.join(PRESETS)}."
)
@click.option("--baseline", type=click.Path(path_type=Path), help="Earlier run of the same samples, for max_loss.")
@click.option("--anyway", is_flag=True, help="Hold it against a baseline of another judge or other samples, too.")
@click.option("--most", type=click.IntRange(1), default=MOST, show_default=True, help="Samples on the page.")
def report(
    folder: Path,
    html_path: Path | None,
    opened: bool,
    policy: str | None,
    baseline: Path | None,
    anyway: bool,
    most: int,
) -> None:
    """Write the HTML report of the run or retrieval in FOLDER anew: one file that needs no network."""
    if baseline and not policy:
        raise UsageError("A baseline is for a policy's max_loss.", "Add --policy FILE, or see: gpueval compare --help")
    if is_retrieval(folder):
        if policy:
            raise UsageError("A policy is for a run of gpueval run; this is a retrieval.", "Leave --policy out.")
        page = retrieval_page(read_retrieval(folder), folder.resolve().name)
    else:
        page = _run_page(folder, policy, baseline, most, anyway=anyway)
    path = html_path or folder / "report.html"
    try:
        write_atomically(path, page.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Choose another place with --html.") from error
    click.echo(str(path))
    if opened and not webbrowser.open(path.resolve().as_uri()):
        raise UsageError("No browser could be opened.", f"Open {path} in one.")


def _run_page(folder: Path, policy: str | None, baseline: Path | None, most: int, *, anyway: bool) -> str:
    checks = None
    if policy:
        before = read_scored(baseline) if baseline else None
        run = read_scored(folder)
        for note in check_alike(before, run, anyway=anyway) if before else []:
            click.echo(f"gpueval: {note}", err=True)
        checks = check(read_policy(policy), run, before)
    return run_page(folder, checks, policy or "", most)
