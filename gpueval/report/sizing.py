"""Hardware, sizings and plans as tables in the terminal; each shows the same dictionary that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpueval.report.tables import new_table, print_line, print_notes, widen
from gpueval.units import duration, gib, per_second

_COLOURS = {"yes": "green", "tight": "yellow", "no": "red", "unknown": "yellow"}


def show_hardware(console: Console, body: Mapping[str, Any]) -> None:
    """Print the devices of a machine, each number with its origin."""
    table = new_table("device", "memory GiB", "free GiB", "bandwidth GB/s", "16-bit TFLOPS", "from")
    widen(console)
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
    print_notes(console, body["notes"])


def show_catalogue(console: Console, devices: Sequence[Mapping[str, Any]]) -> None:
    """Print the catalogue."""
    table = new_table("device", "memory GiB", "bandwidth GB/s", "16-bit TFLOPS", "trust")
    widen(console)
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
    table = new_table("preset", "model", left=(0, 1))
    widen(console)
    for name, entry in presets.items():
        table.add_row(escape(name), escape(entry["id"]))
    console.print(table)


def show_size(console: Console, body: Mapping[str, Any]) -> None:
    """Print one sizing."""
    model, load = body["model"], body["load"]
    ranks = load["ranks"]
    print_line(
        console,
        f"[bold]{escape(model['name'])}[/] ({model['format']}, {model['parameters'] / 1e9:,.3g}B parameters, "
        f"{escape(model['source'])})",
    )
    print_line(
        console,
        f"on {escape(body['hardware']['name'])} with {body['engine']}: {load['context_tokens']:,} tokens x "
        f"{load['concurrency']} at once" + (f", per device of {ranks}" if ranks > 1 else ""),
    )
    table = new_table("GiB", "low", "expected", "high")
    table.add_row("weights", "", gib(body["weights_bytes"]), "exact" if model["exact_weights"] else "counted")
    table.add_row("KV cache", "", gib(body["kv_cache_bytes"]), "")
    for name, term in body["overhead_terms_bytes"].items():
        table.add_row(name.replace("_", " "), gib(term["low"]), gib(term["mid"]), gib(term["high"]))
    total = body["total_bytes"]
    table.add_row("[bold]in all[/]", gib(total["low"]), f"[bold]{gib(total['mid'])}[/]", gib(total["high"]))
    table.add_row("available", "", gib(body["available_bytes"]), "")
    console.print(table)
    fits = body["fits"]
    print_line(console, f"fits: [{_COLOURS[fits]}]{fits}[/]")
    fixed = body["kv_bytes_per_sequence_fixed"]
    print_line(
        console,
        f"KV cache: {body['kv_bytes_per_token']:,.0f} bytes per token"
        + (f" and {fixed / (1 << 20):,.1f} MiB per sequence" if fixed else ""),
    )
    print_line(
        console,
        f"room for {body['max_concurrency']:,.1f} sequences of {load['context_tokens']:,} tokens, or for "
        f"{load['concurrency']} of {body['max_context_tokens']:,}",
    )
    for name, key in (("decode", "decode_tokens_per_s"), ("prefill", "prefill_tokens_per_s")):
        speed = body[key]
        if speed and fits != "no":
            print_line(
                console,
                f"{name}: {per_second(speed['mid'])} tokens/s "
                f"({per_second(speed['low'])} to {per_second(speed['high'])}; {speed['basis']})",
            )
    for option in body.get("alternatives", ()):
        print_line(
            console,
            f"would fit: {escape(option['change'])} ({escape(option['option'])}), {gib(option['total_bytes'])} GiB",
        )
    print_notes(console, body["notes"])


def show_plans(console: Console, rows: Sequence[Mapping[str, Any]], within_s: float | None) -> None:
    """Print one line per model and machine, the chosen one marked."""
    priced = any(row.get("cost") is not None for row in rows)
    names = ["", "model", "hardware", "fits", "GiB", "of", "decode/s", "prefill/s", "time", "at most"]
    table = new_table(*names, *(["cost"] if priced else []), left=(0, 1, 2, 3), unbroken=(1, 2, 3))
    widen(console)
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
        print_line(
            console,
            "launch: " + escape(" ".join(f"{key}={value}" for key, value in body["arguments"].items())),
        )
    if body["seconds"]:
        seconds = body["seconds"]
        print_line(
            console,
            f"{work['samples']:,} samples: {work['requests']:,} requests, {work['prompt_tokens']:,} prompt tokens "
            f"({work['cached_tokens']:,} shared), {work['output_tokens']:,} to write",
        )
        print_line(
            console,
            f"time: {duration(seconds['mid'])} ({duration(seconds['low'])} to {duration(seconds['high'])})",
        )
    if within_s is not None:
        seconds = body["seconds"]
        late = seconds is None or body["fits"] == "no" or seconds["mid"] > within_s
        console.print(f"[red]not within {duration(within_s)}[/]" if late else f"[green]within {duration(within_s)}[/]")
