"""Keeps model libraries off the network, and their chatter off the terminal and out of ``--json`` (but keeps it)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""Environment in which model libraries neither download nor report."""


def stay_offline() -> None:
    """Set :data:`OFFLINE` for this process before a library is imported; what a person has set stays."""
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)


@contextmanager
def output_to(log: Path | None) -> Iterator[None]:
    """Send standard output and error, those of new child processes included, to a file for a while.

    Child processes started inside keep writing to the file after the block has ended.

    Args:
        log: Appended to; None changes nothing.
    """
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(file)
