"""``gpueval diagnose``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.words import print_json
from gpueval.diagnosis.changes import changes
from gpueval.diagnosis.clusters import find_clusters
from gpueval.diagnosis.diagnose import NAMED_FROM
from gpueval.diagnosis.diagnose import diagnose as diagnose_run
from gpueval.diagnosis.folder import Findings, keep
from gpueval.engines import model_folder
from gpueval.report.diagnosis import show_changes, show_diagnosis
from gpueval.report.folder import write_run_reports


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), help="Run from before: tell what changed since.")
@click.option("--embedder", help="Sentence-transformers folder: cluster the failing claims by meaning.")
@click.option("--device", help="Device of the embedding model: cpu, cuda or mps.  [default: automatic]")
@click.option(
    "--named-from",
    type=click.FloatRange(0, 1),
    default=NAMED_FROM,
    show_default=True,
    help="Name a cause where the 95 % interval of its share of samples lies above this.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def diagnose(
    folder: Path, against: Path | None, embedder: str | None, device: str | None, named_from: float, as_json: bool
) -> None:
    """Say why the run in FOLDER scores as it does: causes, the samples that show them, what to try next.

    With --against: did documents, retrieval, answers, judge or prompts change, and which of them moved the scores.
    Leaves diagnosis.json in FOLDER and writes its report anew.
    """
    diagnosis = diagnose_run(folder, named_from=named_from)
    clusters = None
    if embedder:
        from gpueval.engines.text_encoder import TextEncoder

        encoder = TextEncoder(model_folder(embedder), device=device, log=folder / "embed.log")
        clusters = find_clusters(diagnosis.claims, encoder)
    found = Findings(diagnosis, clusters, changes(against, folder) if against else None, str(against or ""))
    keep(found, folder)
    write_run_reports(folder)
    if as_json:
        print_json(found.to_dict())
        return
    console = Console()
    if found.changes:
        show_changes(console, found.changes, found.base, str(folder))
        console.print()
    show_diagnosis(console, diagnosis, clusters)
