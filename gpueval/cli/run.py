"""``gpueval run``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.progress import ProgressBar
from gpueval.cli.words import names_in
from gpueval.config import is_server
from gpueval.data.columns import Columns, parse_columns
from gpueval.errors import UsageError
from gpueval.metrics import DEFAULT
from gpueval.pipeline import evaluate
from gpueval.report.terminal import show


@click.command()
@click.argument("samples", type=click.Path(path_type=Path))
@click.option(
    "--judge",
    help="Model folder, URL of an OpenAI-compatible server (…/v1; several: URL,URL), or scripted:RULES.jsonl.",
)
@click.option("--embedder", help="Sentence-transformers folder, for metrics that compare meanings.")
@click.option("--checker", help="Folder of an encoder that checks claims before the judge, or without one alone.")
@click.option(
    "--checker-band",
    default="0.1,0.9",
    show_default=True,
    help="The judge sees claims whose probability by the checker lies within.",
)
@click.option(
    "--checker-format",
    type=click.Choice(["pair", "minicheck", "minicheck-t5", "factcg"]),
    help="How the checker is asked.  [default: told from its folder]",
)
@click.option(
    "--keep-instructions", is_flag=True, help="Let the judge read text that speaks to it (documents about prompts)."
)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder.  [default: runs/NAME-OF-SAMPLES]")
@click.option("--metrics", default=",".join(DEFAULT), show_default=True, help="Names, separated by commas; or all.")
@click.option("--columns", "column_map", default="", help="FIELD=COLUMN,… for files with other column names.")
@click.option(
    "--contexts-separator", default="", help="Splits contexts given as one text, e.g. '|' for DeepEval's CSV."
)
@click.option("--group", help="Column to sum up by.")
@click.option(
    "--claims",
    type=click.Choice(["sentences", "llm"]),
    default="sentences",
    show_default=True,
    help="Claims are sentences, or atomic claims extracted by the judge.",
)
@click.option(
    "--threshold", type=float, default=0.5, show_default=True, help="A verdict counts as yes at this probability."
)
@click.option("--calibration", type=click.Path(path_type=Path), help="File of calibrate, made for this judge.")
@click.option("--engine", type=click.Choice(["vllm", "transformers"]), help="For a model folder.  [default: vllm]")
@click.option("--judge-model", help="Model name on a server.  [default: the first it lists]")
@click.option(
    "--max-model-len", type=click.IntRange(256), help="Longest prompt, tokens.  [default: the model's, at most 8192]"
)
@click.option(
    "--memory-fraction", type=click.FloatRange(0.05, 1.0), help="Share of GPU memory for vLLM.  [default: vLLM's]"
)
@click.option(
    "--kv-dtype",
    type=click.Choice(["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]),
    help="Format of vLLM's KV cache: fp8 halves it.  [default: the model's own]",
)
@click.option("--tensor-parallel", type=click.IntRange(1), help="GPUs for the judge.  [default: the fewest that fit]")
@click.option(
    "--until-ci",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Draw samples at random, in proportion from every group, and stop a judged metric when its 95 % interval is "
    "mean ± this.  [default: judge all]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the drawing.")
@click.option("--ray", help="Judge on a running Ray cluster: its HOST:PORT, or auto for this machine's.")
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="Engines of the judge, each on devices of its own (needs Ray).  [default: as many as there are GPUs for]",
)
@click.option("--devices", help="GPUs to use, as CUDA numbers or UUIDs: 0,1,3.  [default: all that are visible]")
@click.option("--force", is_flag=True, help="Start a judge even when the sizing says it does not fit.")
@click.option("--concurrency", type=click.IntRange(1), help="Most requests in flight to a server.  [default: 256]")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    help="Deadline of one call to a server, seconds.  [default: 300]",
)
@click.option("--window", type=click.IntRange(1), default=4096, show_default=True, help="Samples in memory at a time.")
@click.option("--device", help="Device of the embedding model: cpu, cuda or mps.  [default: automatic]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
def run(
    samples: Path,
    judge: str | None,
    embedder: str | None,
    checker: str | None,
    checker_band: str,
    checker_format: str | None,
    keep_instructions: bool,
    out: Path | None,
    metrics: str,
    column_map: str,
    contexts_separator: str,
    group: str | None,
    claims: str,
    threshold: float,
    calibration: Path | None,
    engine: str | None,
    judge_model: str | None,
    max_model_len: int | None,
    memory_fraction: float | None,
    kv_dtype: str | None,
    tensor_parallel: int | None,
    until_ci: float | None,
    seed: int,
    ray: str | None,
    replicas: int | None,
    devices: str | None,
    force: bool,
    concurrency: int | None,
    timeout_s: float | None,
    window: int,
    device: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Score SAMPLES (.jsonl, .json, .csv, .tsv, .parquet; .gz) with a judge.

    Kill it at any moment: the same command goes on where it stopped. Prints a table; leaves scores.jsonl,
    summary.json, report.md and every judgment in the run folder.
    """
    if devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices  # before anything looks at the GPUs
    explicit = parse_columns(column_map) | ({"group": group} if group else {})
    server = is_server(judge)
    on_vllm = not server and engine != "transformers"
    options = {
        "max_model_len": max_model_len,
        "memory_fraction": memory_fraction if on_vllm else None,
        "kv_dtype": kv_dtype if on_vllm else None,
        "tensor_parallel": tensor_parallel if on_vllm else None,
        "model": judge_model if server else None,
        "concurrency": concurrency if server else None,
        "timeout_s": timeout_s if server else None,
    }
    with ProgressBar(quiet=quiet) as progress:
        result = evaluate(
            samples,
            judge=judge,
            embedder=embedder,
            checker=checker,
            checker_band=_band(checker_band),
            checker_format=checker_format,
            keep_instructions=keep_instructions,
            metrics=names_in(metrics),
            out=out or Path("runs") / samples.name.split(".")[0],
            columns=Columns(explicit, contexts_separator),
            progress=progress,
            calibration=calibration,
            claims=claims,
            threshold=threshold,
            engine=engine,
            window_samples=window,
            embed_device=device,
            force=force,
            until_ci=until_ci,
            seed=seed,
            ray=ray,
            replicas=replicas,
            engine_options={name: value for name, value in options.items() if value is not None},
        )
    if as_json:
        sys.stdout.buffer.write(result.to_json())
    else:
        show(Console(), result.metrics, result.groups, result.warnings)
        click.echo(f"run folder: {result.folder}", err=True)
    if not any(summary.n_scored for summary in result.metrics.values()):
        click.echo("gpueval: no sample has a score; the states say why.", err=True)
        return 4
    return 0


def _band(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--checker-band is '{text}'.", "Write two numbers: 0.1,0.9") from error
    return low, high
