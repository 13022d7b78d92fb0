"""How a benchmark's result leaves it: one line of JSON on the screen, and behind those of earlier runs in a file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def machine() -> str:
    """Name processor, cores, memory and Python: what a figure depends on besides the code."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = names.pop() if names else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def emit(row: Mapping[str, Any], out: Path | None) -> None:
    """Print a row with the machine it was measured on, and append it to ``out``."""
    line = json.dumps({**row, "machine": machine()})
    print(line, flush=True)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")
