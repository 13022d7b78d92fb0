"""How a benchmark's result leaves it: one line of JSON on the screen, and behind those of earlier runs in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def emit(row: Mapping[str, Any], out: Path | None) -> None:
    """Print a row and append it to ``out``."""
    line = json.dumps(row)
    print(line, flush=True)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")
