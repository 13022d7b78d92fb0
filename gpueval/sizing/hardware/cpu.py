"""The processor as a device: memory, cores, instruction sets, and two short measurements.

Copy bandwidth: every core copies its own block of at most 64 MiB (512 MiB in all), reads and writes counted.
Arithmetic: one fp32 matrix product. Both take about a third of a second together and stand in for data sheets, which
say little about a virtual machine.
"""

from __future__ import annotations

import platform
import re
import threading
import time
from pathlib import Path

from gpueval.machine import usable_cores
from gpueval.sizing.hardware.device import Device, Origin
from gpueval.sizing.hardware.memory import host_memory

_BLOCK_BYTES = 64 << 20
_MOST_PROBE_BYTES = 512 << 20
_ROUNDS = 3
_FASTER_16BIT = {"amx_bf16": 8.0, "amx_tile": 8.0, "avx512_bf16": 2.0}
"""16-bit rate over the fp32 rate, by the widest instruction set; 1 without one."""


def read() -> Device:
    """Describe the processor; its bandwidth and arithmetic are measured."""
    total, free = host_memory()
    cores = usable_cores()
    flags = _flags()
    sources: dict[str, Origin] = {"memory_total_bytes": "read", "memory_free_bytes": "read"} if total else {}
    bandwidth = copy_bandwidth(cores)
    flops = matrix_flops() * max((_FASTER_16BIT[flag] for flag in flags if flag in _FASTER_16BIT), default=1.0)
    sources |= {"bandwidth_bytes_per_s": "measured", "flops_16bit": "derived"}
    shown = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "neon", "asimd") if flag in flags]
    return Device(
        _name(),
        "cpu",
        total,
        free,
        bandwidth,
        flops,
        unified=True,
        details={"cores": cores, "instruction_sets": " ".join(shown)},
        sources=sources,
    )


def copy_bandwidth(threads: int) -> float:
    """Bytes per second moved (read and written) by ``threads`` copies at once; the best of three rounds."""
    import numpy as np

    threads = max(1, min(threads, 64))
    size = min(_BLOCK_BYTES, _MOST_PROBE_BYTES // (2 * threads))
    blocks = [(np.ones(size // 8), np.empty(size // 8)) for _ in range(threads)]
    best = float("inf")
    for _ in range(_ROUNDS + 1):  # the first touches the pages
        workers = [threading.Thread(target=np.copyto, args=(target, source)) for source, target in blocks]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = min(best, time.perf_counter() - began)
    return threads * 2 * size / best


def matrix_flops(size: int = 1024) -> float:
    """FLOP/s of an fp32 matrix product with NumPy's own library; the best of three."""
    import numpy as np

    a = np.ones((size, size), np.float32)
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def _flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {"neon"} if platform.machine() in ("arm64", "aarch64") else set()
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return set(match[1].split()) if match else set()


def _name() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()
