"""Columns of cells summed up honestly: a failure neither leaves the denominator unseen nor turns into a number."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval.records import FAILURES, Cell, State, Summary
from gpueval.stats.intervals import Interval, bootstrap_means

_CONSTANT_FROM = 10


class Column:
    """Collects the cells of one metric in constant memory per cell (24 bytes)."""

    def __init__(self) -> None:
        self._values = array("d")
        self._low = array("d")
        self._high = array("d")
        self._states: Counter[str] = Counter()

    def add(self, cell: Cell) -> None:
        """Add one cell."""
        self._states[cell.state] += 1
        if cell.value is not None:
            self._values.append(cell.value)
            self._low.append(cell.value if cell.low is None else cell.low)
            self._high.append(cell.value if cell.high is None else cell.high)

    def values(self) -> NDArray[np.float64]:
        """The scored cells' values, shape (n,)."""
        return np.frombuffer(self._values, dtype=np.float64) if self._values else np.empty(0)

    def summary(self, interval: Interval | None) -> Summary:
        """Sum up, with the interval of the values' mean.

        ``lower_bound`` and ``upper_bound`` take every failed cell as 0 and as 1 and every partial cell at its own
        bounds. Cells without a value for a reason that lies in the sample (no claims, abstained, field not given)
        count in neither.
        """
        values = self.values()
        n = len(values)
        n_failed = sum(count for state, count in self._states.items() if state in FAILURES)
        bounded = n + n_failed
        return Summary(
            mean=float(values.mean()) if n else None,
            ci_low=interval[0] if interval else None,
            ci_high=interval[1] if interval else None,
            n_scored=n,
            n_total=self._states.total(),
            lower_bound=sum(self._low) / bounded if bounded else None,
            upper_bound=(sum(self._high) + n_failed) / bounded if bounded else None,
            states=dict(sorted(self._states.items())),
        )


class Table:
    """Collects cells per metric, over all samples and per group."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._groups: dict[str, dict[str, Column]] = {}

    def add(self, cells: Mapping[str, Cell], group: str | None) -> None:
        """Add the cells of one sample."""
        for name, cell in cells.items():
            self._columns.setdefault(name, Column()).add(cell)
            if group is not None:
                self._groups.setdefault(group, {}).setdefault(name, Column()).add(cell)

    def values(self, name: str) -> NDArray[np.float64]:
        """The values of a metric so far, shape (n,)."""
        return self._columns[name].values() if name in self._columns else np.empty(0)

    def result(self, warnings: list[str]) -> dict[str, Any]:
        """Return ``{"metrics", "groups", "warnings"}`` with :class:`~gpueval.records.Summary` records."""
        groups = {group: self._groups[group] for group in sorted(self._groups)}
        tables = [self._columns, *groups.values()]
        intervals = iter(bootstrap_means([column.values() for table in tables for column in table.values()]))
        metrics, *by_group = (
            {name: column.summary(next(intervals)) for name, column in table.items()} for table in tables
        )
        return {
            "metrics": metrics,
            "groups": dict(zip(groups, by_group, strict=True)),
            "warnings": warnings + _remarks(metrics),
        }


def coverage(summary: Summary) -> float:
    """Return the share of samples that the metric could deal with: all but failures and samples lacking a field.

    ``(n - n_failed - n_not_applicable - w) / n``, where n are the samples asked (all but those that were left out by
    drawing at random) and w is the sum of the partial cells' widths (a cell with 9 of 10 verdicts missing counts a
    tenth); 0 without samples. An answer that declines or makes no claim has been dealt with.
    """
    n = summary.n_total - summary.states.get(State.NOT_SAMPLED, 0)
    if not n:
        return 0.0
    n_failed = sum(n for state, n in summary.states.items() if state in FAILURES)
    width = 0.0
    if summary.lower_bound is not None and summary.upper_bound is not None and State.PARTIAL in summary.states:
        width = (summary.upper_bound - summary.lower_bound) * (summary.n_scored + n_failed) - n_failed
    lost = n_failed + summary.states.get(State.NOT_APPLICABLE, 0) + max(0.0, width)
    return (n - lost) / n


def _remarks(metrics: Mapping[str, Summary]) -> list[str]:
    found = []
    for name, summary in metrics.items():
        if summary.n_scored >= _CONSTANT_FROM and summary.ci_low == summary.ci_high:
            found.append(f"{name}: all {summary.n_scored} scored samples have the same value {summary.mean:.3f}")
        n_failed = sum(n for state, n in summary.states.items() if state in FAILURES)
        if n_failed:
            found.append(
                f"{name}: {n_failed} of {summary.n_total} samples could not be judged; with them the mean lies between "
                f"{summary.lower_bound:.3f} and {summary.upper_bound:.3f}"
            )
    return found
