"""``gpueval serve``."""

from __future__ import annotations

from pathlib import Path

import click

from gpueval.engines import model_folder
from gpueval.engines.vllm_server import Server
from gpueval.errors import DoesNotFit, EngineError, PrerequisiteError
from gpueval.sizing import questions
from gpueval.sizing.memory import DEFAULT_UTILISATION


@click.command()
@click.argument("model")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; the default is this machine only."
)
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option(
    "--max-model-len",
    type=click.IntRange(256),
    help="Longest prompt with reply, tokens.  [default: the model's, at most 8192]",
)
@click.option(
    "--memory-fraction",
    type=click.FloatRange(0.05, 1.0),
    default=DEFAULT_UTILISATION,
    show_default=True,
    help="Share of GPU memory for vLLM.",
)
@click.option(
    "--kv-dtype",
    type=click.Choice(["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]),
    default="auto",
    show_default=True,
    help="Format of the KV cache.",
)
@click.option("--tensor-parallel", type=click.IntRange(1), help="Devices to use.  [default: the fewest that fit]")
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    default=Path("gpueval-serve.log"),
    show_default=True,
    help="The server's output.",
)
@click.option("--timeout", type=click.FloatRange(1), default=1800.0, show_default=True, help="Longest start, seconds.")
@click.option("--force", is_flag=True, help="Start even when it does not fit.")
def serve(
    model: str,
    host: str,
    port: int,
    max_model_len: int | None,
    memory_fraction: float,
    kv_dtype: str,
    tensor_parallel: int | None,
    log: Path,
    timeout: float,
    force: bool,
) -> int:
    """Size MODEL, start vLLM's OpenAI-compatible server with what fits, and keep it until Ctrl-C.

    Use it from another terminal: gpueval run samples.jsonl --judge http://127.0.0.1:8000/v1
    """
    folder = model_folder(model)
    found = questions.plan(
        model,
        context_tokens=max_model_len,
        utilisation=memory_fraction,
        kv_dtype=kv_dtype,
        tensor_parallel=tensor_parallel,
    )
    if not found.fits and not force:
        raise DoesNotFit(questions.does_not_fit(found), "--force starts it all the same.")
    if not found.arguments:
        raise PrerequisiteError(
            "vLLM does not run this model here.", "Serve it with llama.cpp and give run --judge its URL."
        )
    click.echo("starting: " + " ".join(f"{key}={value}" for key, value in found.arguments.items()), err=True)
    server = None
    try:
        server = Server(folder, found.arguments, host, port, log)
        took = server.wait_ready(timeout)
        click.echo(f"ready after {took:.0f} s; stop with Ctrl-C", err=True)
        click.echo(f"{server.url}/v1")
        code = server.wait()
    except KeyboardInterrupt:
        click.echo("stopping", err=True)
        return 0
    finally:
        if server is not None:
            server.stop()
    raise EngineError(f"vLLM's server ended with code {code}.", f"Its log: {log}")
