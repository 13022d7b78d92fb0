"""``gpueval ablate``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.ablation.ablate import METRICS, ORACLE
from gpueval.ablation.ablate import ablate as run_ablation
from gpueval.ablation.generate import WITH_DOCUMENTS
from gpueval.cli.progress import ProgressBar
from gpueval.cli.words import model_on_server, names_in, print_json
from gpueval.data.columns import Columns, parse_columns
from gpueval.diagnosis.ablation import ENOUGH, MATTERS
from gpueval.errors import UsageError
from gpueval.report.ablation import show_ablation


@click.command()
@click.argument("samples", type=click.Path(path_type=Path))
@click.option(
    "--judge", required=True, help="Model folder, URL of an OpenAI-compatible server, or scripted:RULES.jsonl."
)
@click.option(
    "--embedder", help="Sentence-transformers folder, for metrics that compare meanings, and to retrieve with."
)
@click.option("--rag", help="The generator: server URL (…/v1), model folder, or module:function (question, documents).")
@click.option(
    "--oracle",
    default=ORACLE,
    show_default=True,
    help="Documents that are known to be relevant: the samples' relevant_ids, or a file of contexts and answers.",
)
@click.option(
    "--closed", type=click.Path(path_type=Path), help="File of answers without documents.  [default: ask --rag]"
)
@click.option("--corpus", type=click.Path(path_type=Path), help="Documents (.jsonl with id and text).")
@click.option(
    "-k",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Documents to retrieve for samples without contexts.",
)
@click.option(
    "--prompt", type=click.Path(path_type=Path), help="File with the generator's system text.  [default: a plain one]"
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="Longest answer of the generator, tokens.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder.  [default: runs/NAME-OF-SAMPLES-ablation]")
@click.option("--metrics", default=",".join(METRICS), show_default=True, help="Names, separated by commas.")
@click.option("--metric", default=METRICS[0], show_default=True, help="The one that says whether an answer is right.")
@click.option(
    "--good",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Its score from which an answer is right.",
)
@click.option(
    "--matters",
    type=click.FloatRange(0, 1, min_open=True),
    default=MATTERS,
    show_default=True,
    help="Least difference of the share of right answers that matters.",
)
@click.option(
    "--enough",
    type=click.FloatRange(0, 1),
    default=ENOUGH,
    show_default=True,
    help="Share of right answers with the true documents that is enough.",
)
@click.option("--columns", "column_map", default="", help="FIELD=COLUMN,… for files with other column names.")
@click.option("--engine", type=click.Choice(["vllm", "transformers"]), help="For the judge's folder.  [default: vllm]")
@click.option("--judge-model", help="Model name on the judge's server.  [default: the first it lists]")
@click.option("--rag-model", help="Model name on the generator's server.  [default: the first it lists]")
@click.option("--device", help="Device of the embedding model: cpu, cuda or mps.  [default: automatic]")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
def ablate(
    samples: Path,
    judge: str,
    embedder: str | None,
    rag: str | None,
    oracle: str,
    closed: Path | None,
    corpus: Path | None,
    k: int,
    prompt: Path | None,
    max_tokens: int,
    out: Path | None,
    metrics: str,
    metric: str,
    good: float,
    matters: float,
    enough: float,
    column_map: str,
    engine: str | None,
    judge_model: str | None,
    rag_model: str | None,
    device: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say where answers are lost: score SAMPLES with what was retrieved, with the true documents, and with none.

    The answers of the three conditions come from files, or from the generator --rag. They are judged together; kill it
    at any moment: the same command goes on. Leaves a run folder with each condition as a group, and ablation.json.
    """
    folder = out or Path("runs") / f"{samples.name.split('.')[0]}-ablation"
    with ProgressBar(quiet=quiet) as progress:
        found = run_ablation(
            samples,
            judge=judge,
            embedder=embedder,
            out=folder,
            rag=rag,
            oracle=oracle,
            closed=closed,
            corpus=corpus,
            k=k,
            prompt=_text(prompt) if prompt else WITH_DOCUMENTS,
            max_tokens=max_tokens,
            rag_options={"model": rag_model} if rag_model else None,
            metrics=names_in(metrics),
            metric=metric,
            good=good,
            matters=matters,
            enough=enough,
            columns=Columns(parse_columns(column_map)),
            progress=progress,
            engine=engine,
            engine_options=model_on_server(judge, judge_model),
            embed_device=device,
        )
    if as_json:
        print_json(found.to_dict())
        return
    show_ablation(Console(), found)
    click.echo(f"run folder: {folder}", err=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prompt {path} cannot be read: {error}.", "Give a UTF-8 text file.") from error
