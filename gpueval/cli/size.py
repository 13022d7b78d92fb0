"""``gpueval size``."""

from __future__ import annotations

from typing import get_args

import click
from rich.console import Console

from gpueval.cli.words import print_json
from gpueval.report.sizing import show_presets, show_size
from gpueval.sizing import questions
from gpueval.sizing.memory import DEFAULT_UTILISATION, EngineName, Load
from gpueval.sizing.model import presets
from gpueval.sizing.model.formats import KV_BYTES


@click.command()
@click.argument("model", required=False)
@click.option("--quant", help="Weight format of a preset or bare config.json: bf16, fp8, awq-int4, nvfp4, q4_k_m, …")
@click.option(
    "--hardware", help="'RTX 4090', '2 x A100 80GB SXM', 'M3 Max 40 64GB', '128GB 400GB/s'.  [default: this machine]"
)
@click.option(
    "--context",
    "--max-model-len",
    "context",
    type=click.IntRange(1, 1 << 24),
    default=8192,
    show_default=True,
    help="Longest sequence, tokens.",
)
@click.option("--concurrency", type=click.IntRange(1, 1 << 16), default=1, show_default=True, help="Sequences at once.")
@click.option(
    "--kv-dtype", type=click.Choice(list(KV_BYTES)), default="auto", show_default=True, help="Format of the KV cache."
)
@click.option("--tensor-parallel", type=click.IntRange(1), help="Devices to use.  [default: the fewest that fit]")
@click.option(
    "--memory-fraction",
    type=click.FloatRange(0.05, 1.0),
    default=DEFAULT_UTILISATION,
    show_default=True,
    help="Share of a GPU's memory for vLLM.",
)
@click.option(
    "--batch-tokens", type=click.IntRange(1), default=8192, show_default=True, help="Most tokens of one step."
)
@click.option(
    "--engine", type=click.Choice(get_args(EngineName)), help="Whose rules apply.  [default: by hardware and format]"
)
@click.option("--list", "listed", is_flag=True, help="List the presets.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON; bytes and tokens per second.")
def size(
    model: str | None,
    quant: str | None,
    hardware: str | None,
    context: int,
    concurrency: int,
    kv_dtype: str,
    tensor_parallel: int | None,
    memory_fraction: float,
    batch_tokens: int,
    engine: EngineName | None,
    listed: bool,
    as_json: bool,
) -> int:
    """Say whether MODEL fits and how fast it runs, before it is launched.

    MODEL is a Hugging Face folder, a .gguf file, a config.json, or a preset's name (nothing is downloaded). Exit code 3
    when it does not fit.
    """
    if listed:
        show_presets(Console(), presets())
        return 0
    if not model:
        raise click.UsageError("Give a model, or --list.")
    load = Load(context, concurrency, kv_dtype, 1, memory_fraction, batch_tokens)
    found = questions.size(
        model, hardware=hardware, quant=quant, load=load, tensor_parallel=tensor_parallel, engine=engine
    )
    body = questions.with_alternatives(found)
    if as_json:
        print_json(body)
    else:
        show_size(Console(), body)
    return 3 if found.fits == "no" else 0
