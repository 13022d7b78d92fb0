"""What of this machine a process may use: its cores, and the folder for what is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> list[int]:
    """Return the numbers of the processor's cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """Return how many cores this process may use: its affinity, or a container's quota where that is lower."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(len(cores()), round(int(quota) / int(period))))
    except (OSError, ValueError):
        return len(cores())


def cache_folder() -> Path:
    """Return ``$GPUEVAL_CACHE``, else ``$XDG_CACHE_HOME/gpueval``, else ``~/.cache/gpueval``; it need not exist."""
    if own := os.environ.get("GPUEVAL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpueval"
