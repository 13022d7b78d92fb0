"""Hardware, sizings and plans as tables in the terminal; each shows the same dictionary that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpueval.units import duration, gib, per_second

_COLOURS = {"yes": "green", "tight": "yellow", "no": "red", "unknown": "yellow"}


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    return table


def _widen(console: Console) -> None:
    """Give a file or a pipe room for a table's row in one line; a terminal keeps its width."""
    if not console.is_terminal:
        console.width = max(console.width, 120)


def show_hardware(console: Console, body: Mapping[str, Any]) -> None:
    """Print the devices of a machine, each number with its origin."""
    table = _table("device", "memory GiB", "free GiB", "bandwidth GB/s", "16-bit TFLOPS", "from")
    _widen(console)
    for device in body["devices"]:
        bandwidth, flops = device["bandwidth_bytes_per_s"], device["flops_16bit"]
        origins = dict.fromkeys(device["sources"].values())
        capability = f" (compute capability {device['compute_capability']})" if device["compute_capability"] else ""
        table.add_row(
            escape(device["name"] + capability),
            gib(device["memory_total_bytes"]),
            gib(device["memory_free_bytes"]),
            f"{bandwidth / 1e9:,.0f}" if bandwidth else "–",
            f"{flops / 1e12:,.3g}" if flops else "–",
            ", ".join(origins),
        )
    console.print(table)
    _notes(console, body["notes"])


def show_catalogue(console: Console, devices: Sequence[Mapping[str, Any]]) -> None:
    """Print the catalogue."""
    table = _table("device", "memory GiB", "bandwidth GB/s", "16-bit TFLOPS", "trust")
    _widen(console)
    for device in devices:
        flops = device["flops_16bit"]
        table.add_row(
            escape(device["name"]),
            gib(device["memory_total_bytes"]),
            f"{device['bandwidth_bytes_per_s'] / 1e9:,.0f}",
            f"{flops / 1e12:,.3g}" if flops else "–",
            device["details"]["trust"],
        )
    console.print(table)


def show_presets(console: Console, presets: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the names of the presets."""
    table = _table("preset", "model")
    table.columns[1].justify = "left"
    _widen(console)
    for name, entry in presets.items():
        table.add_row(escape(name), escape(entry["id"]))
    console.print(table)


def show_size(console: Console, body: Mapping[str, Any]) -> None:
    """Print one sizing."""
    model, load = body["model"], body["load"]
    ranks = load["ranks"]
    console.print(
        f"[bold]{escape(model['name'])}[/] ({model['format']}, {model['parameters'] / 1e9:,.3g}B parameters, "
        f"{escape(model['source'])})",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"on {escape(body['hardware']['name'])} with {body['engine']}: {load['context_tokens']:,} tokens x "
        f"{load['concurrency']} at once" + (f", per device of {ranks}" if ranks > 1 else ""),
        highlight=False,
        soft_wrap=True,
    )
    table = _table("GiB", "low", "expected", "high")
    table.add_row("weights", "", gib(body["weights_bytes"]), "exact" if model["exact_weights"] else "counted")
    table.add_row("KV cache", "", gib(body["kv_cache_bytes"]), "")
    for name, term in body["overhead_terms_bytes"].items():
        table.add_row(name.replace("_", " "), gib(term["low"]), gib(term["mid"]), gib(term["high"]))
    total = body["total_bytes"]
    table.add_row("[bold]in all[/]", gib(total["low"]), f"[bold]{gib(total['mid'])}[/]", gib(total["high"]))
    table.add_row("available", "", gib(body["available_bytes"]), "")
    console.print(table)
    fits = body["fits"]
    console.print(f"fits: [{_COLOURS[fits]}]{fits}[/]", highlight=False, soft_wrap=True)
    fixed = body["kv_bytes_per_sequence_fixed"]
    console.print(
        f"KV cache: {body['kv_bytes_per_token']:,.0f} bytes per token"
        + (f" and {fixed / (1 << 20):,.1f} MiB per sequence" if fixed else ""),
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"room for {body['max_concurrency']:,.1f} sequences of {load['context_tokens']:,} tokens, or for "
        f"{load['concurrency']} of {body['max_context_tokens']:,}",
        highlight=False,
        soft_wrap=True,
    )
    for name, key in (("decode", "decode_tokens_per_s"), ("prefill", "prefill_tokens_per_s")):
        speed = body[key]
        if speed and fits != "no":
            console.print(
                f"{name}: {per_second(speed['mid'])} tokens/s "
                f"({per_second(speed['low'])} to {per_second(speed['high'])}; {speed['basis']})",
                highlight=False,
                soft_wrap=True,
            )
    for option in body.get("alternatives", ()):
        console.print(
            f"would fit: {escape(option['change'])} ({escape(option['option'])}), {gib(option['total_bytes'])} GiB",
            highlight=False,
            soft_wrap=True,
        )
    _notes(console, body["notes"])


def show_plans(console: Console, rows: Sequence[Mapping[str, Any]], within_s: float | None) -> None:
    """Print one line per model and machine, the chosen one marked."""
    priced = any(row.get("cost") is not None for row in rows)
    names = ["", "model", "hardware", "fits", "GiB", "of", "decode/s", "prefill/s", "time", "at most"]
    table = _table(*names, *(["cost"] if priced else []))
    for column in (1, 2, 3):
        table.columns[column].justify = "left"
        table.columns[column].no_wrap = True
    _widen(console)
    for row in rows:
        if row.get("error"):
            table.add_row(
                "", escape(row["model_name"]), escape(row["hardware_name"]), f"[red]{escape(row['error'])}[/]"
            )
            continue
        seconds, decode, prefill = row["seconds"], row["decode_tokens_per_s"], row["prefill_tokens_per_s"]
        fits = row["fits"]
        cells = [
            "[green]*[/]" if row.get("chosen") else "",
            escape(row["model_name"]),
            escape(row["hardware_name"]),
            f"[{_COLOURS[fits]}]{fits}[/]",
            gib(row["total_bytes"]["mid"]),
            gib(row["available_bytes"]),
            per_second(decode["mid"]) if decode else "–",
            per_second(prefill["mid"]) if prefill else "–",
            duration(seconds["mid"]) if seconds and fits != "no" else "–",
            duration(seconds["high"]) if seconds and fits != "no" else "–",
        ]
        if priced:
            cells.append(f"{row['cost']:,.2f}" if row.get("cost") is not None else "–")
        table.add_row(*cells)
    console.print(table)
    if within_s is not None and not any(row.get("chosen") for row in rows):
        console.print(f"none finishes within {duration(within_s)}")


def show_plan(console: Console, body: Mapping[str, Any], work: Mapping[str, Any], within_s: float | None) -> None:
    """Print one plan: the sizing, vLLM's arguments, the time."""
    show_size(console, body)
    if body["arguments"]:
        console.print(
            "launch: " + escape(" ".join(f"{key}={value}" for key, value in body["arguments"].items())),
            highlight=False,
            soft_wrap=True,
        )
    if body["seconds"]:
        seconds = body["seconds"]
        console.print(
            f"{work['samples']:,} samples: {work['requests']:,} requests, {work['prompt_tokens']:,} prompt tokens "
            f"({work['cached_tokens']:,} shared), {work['output_tokens']:,} to write",
            highlight=False,
            soft_wrap=True,
        )
        console.print(
            f"time: {duration(seconds['mid'])} ({duration(seconds['low'])} to {duration(seconds['high'])})",
            highlight=False,
            soft_wrap=True,
        )
    if within_s is not None:
        seconds = body["seconds"]
        late = seconds is None or body["fits"] == "no" or seconds["mid"] > within_s
        console.print(f"[red]not within {duration(within_s)}[/]" if late else f"[green]within {duration(within_s)}[/]")


def _notes(console: Console, notes: Sequence[str]) -> None:
    for text in notes:
        console.print(f"note: {escape(text)}", highlight=False, soft_wrap=True)
