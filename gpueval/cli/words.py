"""How lists come in from the command line, and how JSON goes out."""

from __future__ import annotations

import sys
from typing import Any

from gpueval.run_folder import pretty_json


def names_in(text: str) -> list[str]:
    """Split a list at its commas; blanks around names and empty places do not count."""
    return [name.strip() for name in text.split(",") if name.strip()]


def print_json(body: Any) -> None:
    """Write a result to standard output."""
    sys.stdout.buffer.write(pretty_json(body))
