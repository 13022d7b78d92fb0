"""Samples drawn at random until a metric's interval is narrow enough: what is still asked, and how many come next."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpueval.metrics import Metric
from gpueval.stats.aggregate import Table
from gpueval.stats.stopping import LEAST_SCORED, needed

_FIRST_STEP = 128
_LEAST_STEP = 64
_GROWTH = 4
"""A step is at least the drawn samples over this: few steps, each full enough to keep an engine busy."""


def draw_order(path: Path, seed: int) -> None:
    """Bring the samples of a file into a random order of which every beginning holds all groups in proportion.

    The i-th of a group's N samples, in random order, gets the place (i + u) / N with u random in [0, 1). Reads the file
    twice; memory holds a few numbers per sample.
    """
    offsets, numbers, groups = array("q"), array("q"), dict[str | None, int]()
    decode = msgspec.json.Decoder(_Grouped).decode
    with path.open("rb") as file:
        position = 0
        for line in file:
            offsets.append(position)
            numbers.append(groups.setdefault(decode(line).group, len(groups)))
            position += len(line)
        group = np.frombuffer(numbers, np.int64)
        chance = np.random.default_rng(seed)
        shuffled = chance.permutation(len(group))
        by_group = shuffled[np.argsort(group[shuffled], kind="stable")]
        sizes = np.bincount(group)
        within = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = (within + chance.random(len(group))) / np.repeat(sizes, sizes)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as out:
            for row in by_group[np.argsort(places, kind="stable")].tolist():
                file.seek(offsets[row])
                out.write(file.readline())
    partial.replace(path)


class _Grouped(msgspec.Struct):
    group: str | None = None


class Drawing:
    """Decides, window by window, which metrics the next samples are asked for.

    Metrics that need no judgment are scored on every sample.

    Args:
        metrics: What is scored.
        half_width: A judged metric stops when its 95 % interval is no wider than mean ± this; None never stops one.
        asked: Samples that each metric was asked of, where that is settled: a rescore.
    """

    def __init__(
        self, metrics: Sequence[Metric], half_width: float | None = None, asked: Mapping[str, int] | None = None
    ) -> None:
        self._metrics = metrics
        self._half_width = half_width
        self.asked = dict(asked or {})

    @property
    def by_results(self) -> bool:
        """Whether what is asked next depends on what has been scored."""
        return self._half_width is not None

    def active(self, n_done: int) -> list[Metric]:
        """Metrics that the next sample is asked for."""
        return [metric for metric in self._metrics if self.asked.get(metric.name, n_done + 1) > n_done]

    def step(self, table: Table, n_done: int, most: int) -> int:
        """Samples of the next window, at most ``most``."""
        ends = [n - n_done for n in self.asked.values() if n > n_done]
        if self._half_width is not None and not n_done:
            ends.append(_FIRST_STEP)
        elif self._half_width is not None:
            judged = [metric.name for metric in self.active(n_done) if metric.needs]
            wanted = [_wanted(table.values(name), n_done, self._half_width) for name in judged]
            ends += [max(_LEAST_STEP, n_done // _GROWTH, n - n_done) for n in wanted]
        return min([most, *ends])

    def look(self, table: Table, n_done: int) -> None:
        """Stop the metrics whose interval is narrow enough."""
        if self._half_width is None:
            return
        for metric in self.active(n_done):
            if metric.needs:
                values = table.values(metric.name)
                if len(values) >= LEAST_SCORED and len(values) >= needed(values, self._half_width):
                    self.asked[metric.name] = n_done

    def remarks(self, n_total: int) -> list[str]:
        """Say what was left out, and where all samples were not enough."""
        if self._half_width is None:
            return []
        found = []
        for metric in self._metrics:
            if not metric.needs:
                continue
            n = self.asked.get(metric.name)
            if n is None:
                found.append(f"{metric.name}: all {n_total:,} samples do not give ± {self._half_width:g}")
            elif n < n_total:
                found.append(
                    f"{metric.name}: ± {self._half_width:g} after {n:,} of {n_total:,} samples drawn at random; "
                    f"{n_total - n:,} are not judged"
                )
        return found


def _wanted(values: NDArray[np.float64], n_done: int, half_width: float) -> int:
    """Samples of which as many have a value as the width needs, at the share that has one so far."""
    share = max(1, len(values)) / n_done
    return int(needed(values, half_width) / share) + 1
