"""The catalogue of devices (``devices.csv``) and how a name finds one: by whole words, never by a substring.

Memory there is what a process sees in GiB (2^30), bandwidth GB/s (10^9), rates dense 16-bit TFLOPS with 32-bit
accumulation (for Apple the shaders' fp16 rate).
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from gpueval.errors import UsageError
from gpueval.sizing.hardware.device import Device, Hardware, Origin
from gpueval.units import GIB


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the catalogue."""

    device: Device
    reported_name: str
    bus_bits: int | None
    gpu_cores: tuple[int, ...]
    smallest_memory_gib: float | None
    source: str


@cache
def entries() -> tuple[Entry, ...]:
    """All rows."""
    text = resources.files("gpueval.sizing.hardware").joinpath("devices.csv").read_text()
    return tuple(_entry(row) for row in csv.DictReader(text.splitlines()))


def _entry(row: dict[str, str]) -> Entry:
    def scaled(key: str, unit: float) -> float | None:
        return float(row[key]) * unit if row[key] else None

    apple = row["kind"] == "apple"
    memory = round(float(row["memory_gib"]) * GIB)
    numbers = {
        "memory_total_bytes": memory,
        "bandwidth_bytes_per_s": scaled("bandwidth_gb_per_s", 1e9),
        "flops_16bit": scaled("tflops_16bit", 1e12),
        "flops_8bit": scaled("tflops_fp8", 1e12),
    }
    sources: dict[str, Origin] = {name: "table" for name, value in numbers.items() if value}
    extra = row["bus_bits_or_gpu_cores"]
    device = Device(
        row["name"],
        row["kind"],
        memory,
        memory,
        numbers["bandwidth_bytes_per_s"],
        numbers["flops_16bit"],
        numbers["flops_8bit"],
        row["compute_capability"] or None,
        unified=apple or row["unified"] == "yes",
        details={"trust": row["trust"]},
        sources=sources,
    )
    cores = tuple(int(n) for n in extra.split("/")) if apple and extra else ()
    bus = int(extra) if extra and not apple else None
    smallest = float(row["smallest_memory_gib"]) if row["smallest_memory_gib"] else None
    return Entry(device, row["reported_name"], bus, cores, smallest, row["source"])


def by_reported_name(name: str, memory_bytes: int | None = None, bus_bits: int | None = None) -> Entry | None:
    """Find the row whose driver name is exactly this; boards of one name are told apart by bus width and memory."""
    found = [entry for entry in entries() if _words(entry.reported_name) == _words(name)]
    if bus_bits:
        found = [entry for entry in found if entry.bus_bits in (None, bus_bits)]
    if memory_bytes:
        found = [entry for entry in found if abs((entry.device.memory_total_bytes or 0) / memory_bytes - 1) < 0.1]
    return found[0] if found else None


def apple(chip: str, gpu_cores: int | None, memory_bytes: int | None) -> Entry | None:
    """Find an Apple chip's row: bins differ by GPU cores, the M6 by memory."""
    found = [entry for entry in entries() if _words(entry.reported_name) == _words(chip)]
    exact = [entry for entry in found if gpu_cores in entry.gpu_cores]
    if not exact and memory_bytes:
        exact = [
            entry
            for entry in found
            if not entry.gpu_cores
            and (entry.smallest_memory_gib or 0) * GIB <= memory_bytes <= (entry.device.memory_total_bytes or 0)
        ]
    if not exact and len({entry.device.bandwidth_bytes_per_s for entry in found}) == 1:
        exact = found
    return exact[0] if exact else None


def find(text: str) -> Hardware:
    """Return the hardware that a person means: ``RTX 4090``, ``2 x A100 80GB SXM``, ``M3 Max 40 64GB``, ``128GB
    400GB/s``.

    Raises:
        UsageError: Nothing or more than one thing fits.
    """
    counted = re.match(r"\s*(\d+)\s*[xX×*]\s*(.+)", text)
    count, name = (int(counted[1]), counted[2].strip()) if counted else (1, text.strip())
    if not 1 <= count <= 1024:
        raise UsageError(f"{count} devices is not a machine.")
    device, notes = _given(name) or _listed(name)
    return Hardware((device,) * count, notes, supposed=True)


def _given(name: str) -> tuple[Device, tuple[str, ...]] | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(gb|gib)[\s,:;]+(\d+(?:\.\d+)?)\s*gb/s", name.lower())
    if not match:
        return None
    memory = round(float(match[1]) * GIB)
    given: dict[str, Origin] = {"memory_total_bytes": "given", "bandwidth_bytes_per_s": "given"}
    return Device(name, "given", memory, memory, float(match[3]) * 1e9, unified=True, sources=given), ()


def _listed(name: str) -> tuple[Device, tuple[str, ...]]:
    memory = re.search(r"(?:^|\s)(\d+)\s*gi?b$", name, re.IGNORECASE)
    size = int(memory[1]) if memory else None
    wanted = set(_words(name))
    short = set(_words(name[: memory.start()])) if memory else wanted
    found = [entry for entry in entries() if _words(entry.device.name) == _words(name)]
    found = found or [entry for entry in entries() if _words(entry.reported_name) == _words(name)]
    found = found or _closest([entry for entry in entries() if wanted <= set(_words(entry.device.name))], wanted)
    if not found and size:
        apples = [entry for entry in entries() if entry.device.kind == "apple" and _sold_with(entry, size)]
        found = _closest([entry for entry in apples if short <= set(_words(entry.device.name))], short)
        if not found:
            size = None
            found = [
                entry for entry in entries() if entry.device.kind == "apple" and short <= set(_words(entry.device.name))
            ]
            if found:
                sold = "; ".join(
                    f"{e.device.name} {e.smallest_memory_gib:g} to {(e.device.memory_total_bytes or 0) // GIB} GB"
                    for e in found
                )
                raise UsageError(f"'{name}' is not sold.", sold)
    if not found:
        near = sorted(entries(), key=lambda entry: -len(wanted & set(_words(entry.device.name))))[:4]
        raise UsageError(
            f"Unknown hardware '{name}'.",
            f"Near it: {', '.join(entry.device.name for entry in near)}. All: gpueval hardware --list. "
            "Any other: '128GB 400GB/s'.",
        )
    if len({(entry.device.bandwidth_bytes_per_s, entry.device.flops_16bit) for entry in found}) > 1:
        raise UsageError(f"'{name}' fits more than one device.", "; ".join(entry.device.name for entry in found))
    return _sized(found[0], size)


def _sold_with(entry: Entry, memory_gib: int) -> bool:
    largest = (entry.device.memory_total_bytes or 0) / GIB
    return (entry.smallest_memory_gib or largest) <= memory_gib <= largest


def _closest(found: list[Entry], wanted: set[str]) -> list[Entry]:
    """Prefer the plain board to its variants: of several, the only one whose extra words name no variant."""
    if len(found) < 2:
        return found
    variants = {"laptop", "d", "ti", "super", "pro", "max", "ultra", "nvl", "ada", "q"}
    plain = [entry for entry in found if not (set(_words(entry.device.name)) - wanted) & variants]
    return plain or found


def _sized(entry: Entry, memory_gib: int | None) -> tuple[Device, tuple[str, ...]]:
    device = entry.device
    if device.kind != "apple":
        return device, ()
    largest = round((device.memory_total_bytes or 0) / GIB)
    low = entry.smallest_memory_gib or 0
    if memory_gib is None:
        text = f"{device.name}: taken with {largest} GB, the most it is sold with; add '{low:g}GB' for the least."
        return device, (text,) if 0 < low < largest else ()
    return replace(device, memory_total_bytes=memory_gib * GIB, memory_free_bytes=memory_gib * GIB), ()


def _words(name: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", re.sub(r"(\d)\s*gi?b\b", r"\1gb", name.lower()))
    return [word for word in words if word not in ("nvidia", "geforce", "tesla", "apple", "core", "gpu", "amd")]
