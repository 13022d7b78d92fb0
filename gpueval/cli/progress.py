"""Progress on stderr: a bar with rate and time left in a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gpueval.units import duration, rate

_EVERY_S = 10.0


class ProgressBar:
    """Shows each round as it runs; usable as a context manager and as the callback of a run.

    The rate counts from the round's first report, so replies that were already stored do not flatter it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._starts: dict[str, tuple[float, int]] = {}
        self._last_line = time.monotonic()

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` requests of a round are answered."""
        now = time.monotonic()
        if stage not in self._starts or done < self._starts[stage][1]:
            self._starts[stage] = (now, done)
        began, first = self._starts[stage]
        speed = (done - first) / (now - began) if now > began else 0.0
        text = f"{rate(speed)} · {duration((total - done) / speed)} left" if speed and done < total else ""
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total, speed="")
        self._bar.update(self._tasks[stage], completed=done, total=total, speed=text)
        if not self._quiet and not self._console.is_terminal and (now - self._last_line >= _EVERY_S):
            self._last_line = now
            print(f"gpueval: {stage} {done:,}/{total:,} {text}".rstrip(), file=sys.stderr, flush=True)
        if done >= total:
            self._starts.pop(stage, None)
