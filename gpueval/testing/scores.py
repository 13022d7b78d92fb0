"""What a test sees of its samples: scores to assert on, and the claims behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpueval.metrics import METRICS
from gpueval.records import FAILURES
from gpueval.units import score

_SHOWN = 20


class Scores:
    """Scores of the samples of one test.

    Args:
        lines: Per sample its id and its cells by metric, as in ``scores.jsonl``.
    """

    def __init__(self, lines: Sequence[tuple[str, Mapping[str, Mapping[str, Any]]]]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def ids(self) -> list[str]:
        """Ids of the samples."""
        return [id_ for id_, _ in self._lines]

    def values(self, metric: str) -> dict[str, float | None]:
        """Return the value per sample id; None where the sample has none."""
        return {id_: self._cell(cells, metric)["value"] for id_, cells in self._lines}

    def states(self, metric: str) -> dict[str, str]:
        """Return the state per sample id."""
        return {id_: self._cell(cells, metric)["state"] for id_, cells in self._lines}

    def value(self, metric: str) -> float:
        """Return the value of the test's only sample.

        Raises:
            AssertionError: There are several samples, or it has no value; says its state.
        """
        __tracebackhide__ = True
        if len(self._lines) != 1:
            raise AssertionError(f"the test has {len(self._lines)} samples: use values(), check() or mean()")
        ((id_, cells),) = self._lines
        cell = self._cell(cells, metric)
        if cell["value"] is None:
            raise AssertionError(f"{metric} of '{id_}' has no value: {cell['state']}")
        return float(cell["value"])

    def mean(self, metric: str, *, min_coverage: float = 1.0) -> float:
        """Return the mean over the samples with a value.

        Args:
            metric: Its name.
            min_coverage: Share of the samples that must not have failed in the judge's hands or lack a field.

        Raises:
            AssertionError: Fewer were covered, or none has a value; says the states.
        """
        __tracebackhide__ = True
        states, values = self.states(metric), [x for x in self.values(metric).values() if x is not None]
        lost = {id_: state for id_, state in states.items() if state in FAILURES or state == "not_applicable"}
        if not values or len(states) - len(lost) < min_coverage * len(states):
            told = ", ".join(f"'{id_}' {state}" for id_, state in list(states.items())[:_SHOWN] if state != "ok")
            raise AssertionError(f"{metric} covers {len(states) - len(lost)} of {len(states)} samples: {told}")
        return sum(values) / len(values)

    def check(self, **limits: float) -> None:
        """Assert that every sample reaches every limit: at least, or at most where lower is better.

        Raises:
            AssertionError: Some do not, or have no value; names them.
        """
        __tracebackhide__ = True
        missed = [
            f"{metric} of '{id_}' is {score(cell['value'])}{_state(cell)}, wanted {_sign(metric)} {score(limit)}"
            for metric, limit in limits.items()
            for id_, cells in self._lines
            if not _reaches(metric, (cell := self._cell(cells, metric))["value"], limit)
        ]
        if missed:
            more = f"\n… and {len(missed) - _SHOWN} more" if len(missed) > _SHOWN else ""
            raise AssertionError("\n".join(missed[:_SHOWN]) + more)

    def check_mean(self, *, min_coverage: float = 1.0, **limits: float) -> None:
        """Assert that the mean over the samples reaches every limit; see :meth:`mean`.

        Raises:
            AssertionError: It does not, or too few samples are covered.
        """
        __tracebackhide__ = True
        for metric, limit in limits.items():
            mean = self.mean(metric, min_coverage=min_coverage)
            if not _reaches(metric, mean, limit):
                raise AssertionError(f"mean {metric} is {score(mean)}, wanted {_sign(metric)} {score(limit)}")

    def explained(self) -> str:
        """Return the claims that are not supported, each with the sentence that says most of it."""
        told = []
        for id_, cells in self._lines:
            for metric, cell in cells.items():
                if cell["value"] is None:
                    told.append(f"{metric} of '{id_}': {cell['state']}")
                for claim in cell.get("claims", ()):
                    if claim.get("supported") is False:
                        p = "" if claim.get("p") is None else f" (p {claim['p']:.2f})"
                        told.append(f"{metric} of '{id_}': not supported{p}: {claim['text']}")
                        if claim.get("sentence"):
                            told.append(f"    nearest: {claim['sentence']}")
        more = [f"… and {len(told) - 2 * _SHOWN} more lines"] if len(told) > 2 * _SHOWN else []
        return "\n".join(told[: 2 * _SHOWN] + more)

    def _cell(self, cells: Mapping[str, Mapping[str, Any]], metric: str) -> Mapping[str, Any]:
        if metric not in cells:
            raise AssertionError(f"{metric} was not asked; name it in the marker: metrics=[..., '{metric}']")
        return cells[metric]


def _reaches(metric: str, value: float | None, limit: float) -> bool:
    return value is not None and (value >= limit if METRICS[metric].higher_is_better else value <= limit)


def _sign(metric: str) -> str:
    return "at least" if METRICS[metric].higher_is_better else "at most"


def _state(cell: Mapping[str, Any]) -> str:
    return "" if cell["state"] == "ok" else f" ({cell['state']})"
