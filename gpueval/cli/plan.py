"""``gpueval plan``."""

from __future__ import annotations

import re
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from gpueval import launch
from gpueval.cli.words import names_in, print_json
from gpueval.errors import GpuevalError, UsageError
from gpueval.metrics import DEFAULT
from gpueval.report.sizing import show_plan, show_plans
from gpueval.sizing import questions
from gpueval.sizing.hardware import Hardware, detect
from gpueval.sizing.plan import Workload
from gpueval.units import seconds


class _Time(click.ParamType):  # type: ignore[type-arg]
    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    help="Folder, .gguf, config.json or preset, 'NAME:QUANT' for a format; repeatable.",
)
@click.option(
    "--hardware",
    "machines",
    multiple=True,
    help="As in 'gpueval size'; 'NAME @ PRICE' with a price per hour; repeatable.  [default: this machine]",
)
@click.option(
    "--samples", type=click.IntRange(1), help="Number of samples to plan for.  [default: as many as --like has]"
)
@click.option(
    "--like",
    type=click.Path(path_type=Path),
    help="File whose samples show the lengths.  [default: the built-in example]",
)
@click.option("--metrics", default=",".join(DEFAULT), help="Metrics, separated by commas.  [default: as in run]")
@click.option(
    "--max-model-len",
    "--context",
    "context",
    type=click.IntRange(256),
    help="Longest sequence, tokens.  [default: the model's, at most 8192]",
)
@click.option("--kv-dtype", default="auto", show_default=True, help="Format of the KV cache.")
@click.option("--tensor-parallel", type=click.IntRange(1), help="Devices to use.  [default: the fewest that fit]")
@click.option("--within", type=_Time(), help="Mark the cheapest that finishes in time: 90m, 8h, 2d.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def plan(
    models: tuple[str, ...],
    machines: tuple[str, ...],
    samples: int | None,
    like: Path | None,
    metrics: str,
    context: int | None,
    kv_dtype: str,
    tensor_parallel: int | None,
    within: float | None,
    as_json: bool,
) -> int:
    """Plan a run: which judge fits on which machine, with which vLLM arguments, and how long it takes.

    With one model and one machine it shows the whole plan, with several a table. The cheapest is by the prices given,
    else the one with the least device memory. Exit code 3 when nothing fits.
    """
    work = _workload(like, metrics, samples)
    options = {"work": work, "context_tokens": context, "kv_dtype": kv_dtype, "tensor_parallel": tensor_parallel}
    here = detect() if not machines else None
    pairs = [(model, machine) for model in models for machine in machines or (None,)]
    rows = [_row(model, machine, here, options, alone=len(pairs) == 1) for model, machine in pairs]
    _choose(rows, within)
    if as_json:
        body = {"workload": asdict(work), "within_s": within, "plans": rows}
        print_json(body)
    elif len(rows) == 1 and not rows[0].get("error"):
        show_plan(Console(), rows[0], asdict(work), within)
    else:
        show_plans(Console(), rows, within)
    if all(row.get("error") for row in rows):
        return max(int(row["exit_code"]) for row in rows)
    return 3 if all(row.get("error") or row["fits"] == "no" for row in rows) else 0


def _workload(like: Path | None, metrics: str, samples: int | None) -> Workload:
    names = names_in(metrics)
    if like is not None:
        found = launch.workload_of_file(like, names)
    else:
        with resources.as_file(resources.files("gpueval.example") / "handbook.jsonl") as path:
            found = launch.workload_of_file(path, names)
    return found.scaled(samples) if samples else found


def _row(
    model: str, machine: str | None, here: Hardware | None, options: dict[str, Any], *, alone: bool
) -> dict[str, Any]:
    name, _, quant = model.partition(":") if not Path(model).exists() else (model, "", "")
    where, _, price = (machine or "").partition("@")
    labels = {
        "model_name": Path(name).name + (f":{quant}" if quant else ""),
        "hardware_name": where.strip() or (here.name if here else ""),
    }
    try:
        cost = _price(price)
        found = questions.plan(name, hardware=where.strip() or here, quant=quant or None, **options)
    except GpuevalError as error:
        if alone:
            raise
        return labels | {"error": error.message, "exit_code": error.exit_code}
    body = labels | found.to_dict()
    time = body["seconds"]
    return body | {
        "price_per_hour": cost,
        "cost": cost * time["mid"] / 3600 if cost is not None and time and found.fits else None,
    }


def _price(text: str) -> float | None:
    if not text.strip():
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*h)?\s*", text)
    if not match:
        raise UsageError(f"'{text.strip()}' is no price per hour.", "Write for example 'RTX 4090 @ 0.40'.")
    return float(match[1])


def _choose(rows: list[dict[str, Any]], within_s: float | None) -> None:
    """Mark the cheapest row that fits and, where a time is given, finishes in it."""
    good = [
        row
        for row in rows
        if row.get("fits") in ("yes", "tight")
        and row["seconds"]
        and (within_s is None or row["seconds"]["mid"] <= within_s)
    ]
    if not good or (within_s is None and len(rows) == 1):
        return
    if any(row["cost"] is not None for row in good):  # a machine without a price cannot be called cheaper
        good = [row for row in good if row["cost"] is not None]
    priced = good[0]["cost"] is not None
    best = min(good, key=lambda row: (row["cost"] if priced else _memory(row), row["seconds"]["mid"]))
    best["chosen"] = True


def _memory(row: dict[str, Any]) -> float:
    found: float = (row["available_bytes"] or 0) * row["load"]["ranks"]
    return found
