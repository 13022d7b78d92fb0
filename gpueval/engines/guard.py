"""Keeps a dead run from leaving its engine processes behind.

vLLM's engine core does not notice when the process that started it is killed: it stays, with the model in memory. A
shell waits on a pipe that only this process holds; when the pipe breaks, it kills the engine's processes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_WAIT_THEN_KILL = (
    'read -r _; for p in "$@"; do case "$(cat "/proc/$p/comm" 2>/dev/null)" in VLLM*|python*) kill -9 "$p";; esac; done'
)


class Guard:
    """Kills processes when this one dies without having called :meth:`close`.

    Args:
        pids: The processes; none on systems without /proc.
    """

    def __init__(self, pids: list[int]) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        if pids:
            self._shell = subprocess.Popen(
                ["sh", "-c", _WAIT_THEN_KILL, "guard", *map(str, pids)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """Stop watching."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            if self._shell.stdin is not None:
                self._shell.stdin.close()
            self._shell = None


def descendants(pid: int | None = None) -> list[int]:
    """Return the process ids of all children and their children; empty on systems without /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it ended while we looked
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [pid or os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
