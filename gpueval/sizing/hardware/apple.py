"""Apple chips through the system's own tools: sysctl, system_profiler, ioreg, vm_stat.

The bandwidth is in no interface: it comes from the catalogue by chip, GPU cores and memory. A process may wire only
part of the memory for the GPU: two thirds up to 32 GB, three quarters above, or what ``iogpu.wired_limit_mb`` (macOS
14 and later, MB) or ``debug.iogpu.wired_limit`` (macOS 13, bytes) sets.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Callable, Sequence

from gpueval.sizing.hardware import catalogue
from gpueval.sizing.hardware.device import Device, Origin
from gpueval.units import GIB

Run = Callable[[Sequence[str]], str | None]


def read(run: Run | None = None, system: str | None = None) -> tuple[list[Device], list[str]]:
    """Read this Mac.

    Args:
        run: Returns a command's output, None when it fails.
        system: ``platform.system()``.

    Returns:
        The device and notes; nothing on another system or an Intel Mac.
    """
    if (system or platform.system()) != "Darwin":
        return [], []
    ask = run or _run
    chip = (ask(["sysctl", "-n", "machdep.cpu.brand_string"]) or "").strip()
    if "VirtualApple" in chip:  # an x86 Python under Rosetta
        chip = _chip_from_profiler(ask)
    memory = _number(ask(["sysctl", "-n", "hw.memsize"]))
    if not re.match(r"Apple M\d", chip) or not memory:
        return [], ["this Mac has no Apple chip that sizing knows"]
    cores = _gpu_cores(ask)
    known = catalogue.apple(chip, cores, memory)
    limit, origin, notes = _wired_limit(ask, memory)
    sources: dict[str, Origin] = {"memory_total_bytes": origin, "memory_free_bytes": origin}
    if known:
        sources |= {"bandwidth_bytes_per_s": "table", "flops_16bit": "table"}
    else:
        notes.append(f"{chip} with {cores or 'unknown'} GPU cores is not in the catalogue: no speed can be told")
    free = _free(ask)
    details: dict[str, str | int | float | bool] = {"memory_bytes": memory, "chip": chip}
    if cores:
        details["gpu_cores"] = cores
    name = known.device.name if known else f"{chip} ({cores or '?'}-core GPU)"
    device = Device(
        name,
        "apple",
        limit,
        min(limit, free) if free else limit,
        known.device.bandwidth_bytes_per_s if known else None,
        known.device.flops_16bit if known else None,
        unified=True,
        details=details,
        sources=sources,
    )
    return [device], notes


def default_limit(memory_bytes: int) -> int:
    """Bytes that macOS lets the GPU wire by default: 2/3 of up to 32 GB, 3/4 of more."""
    return memory_bytes * 2 // 3 if memory_bytes <= 32 * GIB else memory_bytes * 3 // 4


def _run(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _number(text: str | None) -> int | None:
    match = re.search(r"-?\d+", text or "")
    return int(match[0]) if match else None


def _wired_limit(ask: Run, memory: int) -> tuple[int, Origin, list[str]]:
    for key, unit in (("iogpu.wired_limit_mb", 1 << 20), ("debug.iogpu.wired_limit", 1)):
        value = _number(ask(["sysctl", "-n", key]))
        if value and value > 0:
            limit = min(memory, value * unit)
            return limit, "read", [f"{key} is set: the GPU may wire {limit / GIB:.1f} GiB"]
    limit = default_limit(memory)
    return (
        limit,
        "derived",
        [f"macOS lets the GPU wire {limit / GIB:.1f} GiB of {memory // GIB} GB"],
    )


def _gpu_cores(ask: Run) -> int | None:
    try:
        displays = json.loads(ask(["system_profiler", "SPDisplaysDataType", "-json"]) or "{}")["SPDisplaysDataType"]
        for display in displays:
            if found := _number(str(display.get("sppci_cores") or "")):
                return found
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    match = re.search(r'"gpu-core-count"\s*=\s*(\d+)', ask(["ioreg", "-rc", "AGXAccelerator"]) or "")
    return int(match[1]) if match else None


def _chip_from_profiler(ask: Run) -> str:
    match = re.search(
        r'"(?:chip_type|sppci_model)"\s*:\s*"(Apple M[^"]+)"',
        ask(["system_profiler", "SPDisplaysDataType", "-json"]) or "",
    )
    return match[1] if match else ""


def _free(ask: Run) -> int | None:
    text = ask(["vm_stat"]) or ""
    page = _number((re.search(r"page size of (\d+)", text) or [""])[0])
    pages = sum(int(match[1]) for match in re.finditer(r"Pages (?:free|inactive|purgeable|speculative):\s+(\d+)", text))
    return pages * page if page and pages else None
