"""How lists come in from the command line, and how JSON goes out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gpueval.config import is_server
from gpueval.errors import UsageError
from gpueval.run_folder import pretty_json, write_atomically


def names_in(text: str) -> list[str]:
    """Split a list at its commas; blanks around names and empty places do not count."""
    return [name.strip() for name in text.split(",") if name.strip()]


def model_on_server(judge: str, name: str | None) -> dict[str, str]:
    """Return the engine's options that choose a model on a judge's server; none for a folder, which is one model."""
    return {"model": name} if name and is_server(judge) else {}


def write_file(path: Path, text: str) -> None:
    """Write a result that was asked for by name; its folder is made where it is missing.

    Raises:
        UsageError: The place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Name another place.") from error


def print_json(body: Any) -> None:
    """Write a result to standard output."""
    sys.stdout.buffer.write(pretty_json(body))
