"""The reports of a run folder: ``report.html`` to read and ``report.md`` for a pull request, with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpueval.decisions.gate import Check
from gpueval.diagnosis.folder import findings_of
from gpueval.report.markdown import markdown
from gpueval.report.page.run import run_page
from gpueval.report.page.samples import MOST, embed
from gpueval.run_folder import read_run, read_summary, write_atomically


def run_reports(
    folder: Path, checks: Sequence[Check] | None = None, policy: str = "", most: int = MOST
) -> tuple[str, str]:
    """Return the reports of a finished run as HTML and as Markdown.

    Args:
        folder: Run folder.
        checks: A gate's checks; None where no gate was asked.
        policy: Name of the policy behind the checks.
        most: Samples on the page at most.

    Raises:
        UsageError: The folder is no run folder, or the run has not finished.
    """
    facts, summary = read_run(folder), read_summary(folder)
    embedded, findings = embed([folder], list(summary["metrics"]), most), findings_of(folder)
    page = run_page(folder.resolve().name, facts, summary, embedded, findings, checks, policy)
    return page, markdown(summary, facts, findings, checks, policy)


def write_run_reports(folder: Path) -> None:
    """Leave ``report.html`` and ``report.md`` in a run folder."""
    page, told = run_reports(folder)
    write_atomically(folder / "report.html", page.encode())
    write_atomically(folder / "report.md", told.encode())
