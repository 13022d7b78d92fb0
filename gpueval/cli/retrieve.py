"""``gpueval retrieve``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.progress import ProgressBar
from gpueval.cli.words import names_in, print_json, write_file
from gpueval.engines import model_folder
from gpueval.report.page.retrieved import retrieval_page
from gpueval.report.ranking import show_retrieval
from gpueval.report.tradeoff import tradeoff_svg
from gpueval.retrieval.indexes import KINDS
from gpueval.retrieval.rank import DEFAULT_MEASURES
from gpueval.retrieval.retrieve import retrieve as measure


@click.command()
@click.argument("corpus", type=click.Path(path_type=Path))
@click.option("--embedder", required=True, help="Sentence-transformers folder.")
@click.option(
    "--queries", type=click.Path(path_type=Path), help=".jsonl with id and text.  [default: the BEIR folder's]"
)
@click.option("--qrels", type=click.Path(path_type=Path), help="TREC, .jsonl or .tsv.  [default: the BEIR folder's]")
@click.option(
    "--index",
    "indexes",
    default="exact",
    show_default=True,
    help=f"{', '.join(KINDS)}; several separated by commas. The exact search always runs, as the truth.",
)
@click.option("--metric", "metrics", default=",".join(DEFAULT_MEASURES), show_default=True, help="As in rank.")
@click.option("--k", type=click.IntRange(1), default=100, show_default=True, help="Documents per query.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/retrieve"), show_default=True, help="Folder."
)
@click.option("--dimensions", type=click.IntRange(1), help="Keep the first dimensions only (Matryoshka models).")
@click.option("--device", help="cpu, cuda or mps.  [default: automatic]")
@click.option("--ray", help="Embed on a running Ray cluster: its HOST:PORT, or auto for this machine's.")
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="Replicas of the embedding model (needs Ray).  [default: one per GPU of the cluster; without --ray none]",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
def retrieve(
    corpus: Path,
    embedder: str,
    queries: Path | None,
    qrels: Path | None,
    indexes: str,
    metrics: str,
    k: int,
    out: Path,
    dimensions: int | None,
    device: str | None,
    ray: str | None,
    replicas: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Embed CORPUS (a .jsonl file or a BEIR folder), search it for every query, and score what comes back.

    Vectors are kept by content and indexes in the output folder: the second run embeds and builds nothing.
    """
    with ProgressBar(quiet=quiet) as progress:
        found = measure(
            corpus,
            embedder=model_folder(embedder),
            queries=queries,
            qrels=qrels,
            indexes=names_in(indexes),
            metrics=names_in(metrics),
            k=k,
            out=out,
            dimensions=dimensions,
            device=device,
            ray=ray,
            replicas=replicas,
            progress=progress,
        )
    body = found.to_dict()
    title = f"{body['documents']:,} documents, {body['queries']:,} queries, {body['embedder']}, k = {body['k']}"
    (out / "tradeoff.svg").write_text(tradeoff_svg(body["indexes"], title), encoding="utf-8")
    write_file(out / "report.html", retrieval_page(body, out.resolve().name))
    if as_json:
        print_json(body)
    else:
        show_retrieval(Console(), body)
        click.echo(f"folder: {out}", err=True)
