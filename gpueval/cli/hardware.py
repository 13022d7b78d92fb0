"""``gpueval hardware``."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.console import Console

from gpueval.cli.words import print_json
from gpueval.report.sizing import show_catalogue, show_hardware
from gpueval.sizing.hardware import detect, entries


@click.command()
@click.option("--all", "processor", is_flag=True, help="The processor beside the accelerators too.")
@click.option("--list", "listed", is_flag=True, help="List the catalogue that --hardware of other commands takes.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON; bytes and bytes per second.")
def hardware(processor: bool, listed: bool, as_json: bool) -> None:
    """Show what this machine has for a model: memory, bandwidth, arithmetic, and where each number comes from."""
    if listed:
        devices = [asdict(entry.device) | {"source": entry.source} for entry in entries()]
        if as_json:
            print_json(devices)
        else:
            show_catalogue(Console(), devices)
        return
    found = detect(processor=processor)
    body = {"devices": [asdict(device) for device in found.devices], "notes": list(found.notes)}
    if as_json:
        print_json(body)
    else:
        show_hardware(Console(), body)
