"""Hardware of this machine (NVIDIA, Apple, else the processor), or of one that is only thought of."""

from __future__ import annotations

from gpueval.sizing.hardware import apple, cpu, nvidia
from gpueval.sizing.hardware.catalogue import entries, find
from gpueval.sizing.hardware.device import Device, Hardware

__all__ = ["Device", "Hardware", "detect", "entries", "find"]


def detect(*, processor: bool = False) -> Hardware:
    """Read this machine.

    Args:
        processor: List the processor beside the accelerators too.

    Returns:
        Accelerators, or the processor where there is none. Never raises for a driver's trouble: that is a note.
    """
    devices, notes = nvidia.read()
    if not devices:
        found, more = apple.read()
        devices, notes = found, notes + more
    if not devices:
        notes.append("no accelerator: vLLM's CPU engine or llama.cpp would run on the processor")
    if processor or not devices:
        devices = [*devices, cpu.read()]
    return Hardware(tuple(devices), tuple(notes))
