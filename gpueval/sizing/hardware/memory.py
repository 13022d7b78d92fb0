"""The memory of the machine that this process may use."""

from __future__ import annotations

import os
import re
from pathlib import Path


def host_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> tuple[int | None, int | None]:
    """Total and available bytes: the machine's, or a container's limit where that is lower.

    Returns:
        ``(None, None)`` where the system tells nothing.
    """
    total = available = None
    try:
        text = (proc / "meminfo").read_text()
        found = {match[1]: int(match[2]) * 1024 for match in re.finditer(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        total, available = found.get("MemTotal"), found.get("MemAvailable")
    except OSError:
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            total = available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, used = _limit(cgroup)
    if limit is not None and total is not None and limit < total:
        total, available = limit, min(available or limit, max(0, limit - used))
    return total, available


def _limit(cgroup: Path) -> tuple[int | None, int]:
    for most, now, stat, key in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        try:
            text = (cgroup / most).read_text().strip()
            if text == "max":
                return None, 0
            used = int((cgroup / now).read_text())
            cached = re.search(rf"^{key} (\d+)", (cgroup / stat).read_text(), re.MULTILINE)
            return int(text), used - (int(cached[1]) if cached else 0)  # page cache gives way
        except (OSError, ValueError):
            continue
    return None, 0
