"""The samples of one run, or of two side by side, as the page's script reads them.

The index holds what the list shows and filters by, column by column; the texts of a sample lie in packed blocks. A page
holds at most :data:`MOST` samples: those with findings first, then those with the lowest scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpueval.diagnosis.causes import CAUSES, Kind, causes_of
from gpueval.metrics import METRICS
from gpueval.records import Sample, State
from gpueval.report.page.charts import BINS
from gpueval.report.page.packing import pack_rows, short
from gpueval.report.words import METRIC_WORDS, STATE_WORDS
from gpueval.run_folder import read_scores

MOST = 20_000
"""Samples on a page: about 100 MB of text, which a browser still holds with ease."""

Lines = Sequence[Mapping[str, Any] | None]
"""A sample's line of scores in each run; None where a further run lacks the sample."""

_HEAD = 160
_STATES = list(State)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Samples made ready for a page.

    Attributes:
        index: Columns for the list.
        blocks: Packed rows.
        counts: Samples per finding, over the whole run.
        n_total: Samples of the run; ``len(index["ids"])`` of them are on the page.
        spread: Per metric the samples in each of :data:`~gpueval.report.page.charts.BINS` equal parts of 0 to 1, over
            the whole run.
    """

    index: dict[str, Any]
    blocks: list[str]
    counts: dict[str, int]
    n_total: int
    spread: list[list[int]]


def embed(
    folders: Sequence[Path],
    metrics: Sequence[str],
    most: int = MOST,
    kinds: Sequence[Kind] = CAUSES,
    mask: Callable[[Sample, Lines], int] = lambda sample, lines: causes_of(sample, lines[0] or {}),
) -> Embedded:
    """Read the samples of runs for a page; the samples of a further run are matched to the first one's by id.

    O(samples) time; memory for the packed rows, and for the whole further run.

    Args:
        folders: Run folders, one or two.
        metrics: The metrics to show; all runs have them.
        most: Samples on the page at most.
        kinds: What samples can be looked for by; at most 31.
        mask: Tells which kinds a sample is of, as bits, from its lines of scores.
    """
    masks, lows = list[int](), list[float]()
    spread = [[0] * BINS for _ in metrics]
    others = [_by_id(folder) for folder in folders[1:]]

    def matched(sample: Sample, line: dict[str, Any]) -> list[tuple[Sample, dict[str, Any]] | None]:
        return [(sample, line), *(held.get(sample.id) for held in others)]

    for sample, line in read_scores(folders[0], dict[str, Any]):
        masks.append(mask(sample, [side and side[1] for side in matched(sample, line)]))
        lows.append(_lowest(line, metrics))
        for counts, name in zip(spread, metrics, strict=True):
            if (value := short(line["scores"][name]["value"])) is not None:
                counts[min(BINS - 1, int(value * BINS))] += 1
    of_kind = {kind.key: sum(found >> k & 1 for found in masks) for k, kind in enumerate(kinds)}
    shown = _chosen(masks, lows, most)
    columns = _Columns(len(folders), metrics, kinds)

    def rows() -> Iterator[dict[str, Any]]:
        for row, (sample, line) in enumerate(read_scores(folders[0], dict[str, Any])):
            if row in shown:
                sides = matched(sample, line)
                columns.add(sample, masks[row], [side and side[1] for side in sides])
                yield _row(sample, sides)

    blocks, starts = pack_rows(rows())
    return Embedded(columns.index(starts), blocks, of_kind, len(masks), spread)


def _lowest(line: Mapping[str, Any], metrics: Sequence[str]) -> float:
    """Return the worst value of a sample, from 0 (bad) to 1."""
    values = [(METRICS[name].higher_is_better, line["scores"][name]["value"]) for name in metrics]
    return min((value if higher else 1 - value for higher, value in values if value is not None), default=1.0)


def _chosen(masks: Sequence[int], lows: Sequence[float], most: int) -> set[int]:
    order = np.lexsort((np.array(lows), np.array(masks) == 0))
    return set(order[:most].tolist())


def _by_id(folder: Path) -> dict[str, tuple[Sample, dict[str, Any]]]:
    return {sample.id: (sample, line) for sample, line in read_scores(folder, dict[str, Any])}


class _Columns:
    """The index, while rows are read."""

    def __init__(self, n_sides: int, metrics: Sequence[str], kinds: Sequence[Kind]) -> None:
        self._metrics, self._kinds = metrics, kinds
        self._ids, self._heads, self._groups, self._masks = list[str](), list[str](), list[str | None](), list[int]()
        self._values: list[list[list[float | None]]] = [[[] for _ in metrics] for _ in range(n_sides)]
        self._states: list[list[list[int]]] = [[[] for _ in metrics] for _ in range(n_sides)]

    def add(self, sample: Sample, mask: int, lines: Lines) -> None:
        self._ids.append(sample.id)
        self._heads.append((sample.question or sample.answer or "")[:_HEAD])
        self._groups.append(sample.group)
        self._masks.append(mask)
        for side, line in enumerate(lines):
            for k, name in enumerate(self._metrics):
                cell = line["scores"].get(name) if line else None
                self._values[side][k].append(None if cell is None else short(cell["value"]))
                self._states[side][k].append(-1 if cell is None else _STATES.index(State(cell["state"])))

    def index(self, starts: Sequence[int]) -> dict[str, Any]:
        groups = sorted({group for group in self._groups if group is not None})
        place = {group: k for k, group in enumerate(groups)}
        return {
            "ids": self._ids,
            "heads": self._heads,
            "groups": groups,
            "group": [-1 if group is None else place[group] for group in self._groups],
            "masks": self._masks,
            "metrics": [
                {"name": name, "words": METRIC_WORDS[name], "higher": METRICS[name].higher_is_better}
                for name in self._metrics
            ],
            "states": [{"name": str(state), "words": STATE_WORDS[state]} for state in _STATES],
            "findings": [{"key": one.key, "title": one.title, "words": one.words} for one in self._kinds],
            "values": self._values,
            "state": self._states,
            "starts": list(starts),
        }


def _row(sample: Sample, sides: Sequence[tuple[Sample, dict[str, Any]] | None]) -> dict[str, Any]:
    return {
        "id": sample.id,
        "question": sample.question,
        "reference": sample.reference,
        "answerable": sample.answerable,
        "relevant": sample.relevant_ids,
        "sides": [None if side is None else _side(*side) for side in sides],
    }


def _side(sample: Sample, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "answer": sample.answer,
        "retrieved": sample.retrieved_ids,
        "contexts": [[passage.id, passage.source, passage.text] for passage in sample.contexts or ()],
        "scores": short(line["scores"]),
        "suspicious": line.get("suspicious"),
    }
