"""PNG plots for papers and pull requests, drawn by matplotlib: the pictures of the pages, for where HTML cannot go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval.decisions.compare import Difference
from gpueval.decisions.scored import Scored
from gpueval.lazy import require
from gpueval.metrics import METRICS
from gpueval.records import Summary
from gpueval.report.ranking import best_settings, label_of

_BLUE, _ORANGE, _GREEN, _GREY = "#0072b2", "#d55e00", "#009e73", "#8c8c8c"
_SERIES = (_BLUE, _ORANGE, _GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8f00")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
_LINES = ("-", "--", ":", "-.")
_DPI = 200
_COLUMNS = 4


def run_plots(run: Scored, folder: Path) -> list[Path]:
    """Draw a run: ``metrics.png`` (means with 95 % intervals), ``spread.png`` (distributions) and, with groups,
    ``groups.png``.

    Args:
        run: A finished run.
        folder: Where the files go; made where it is missing.

    Raises:
        PrerequisiteError: matplotlib is not installed.
    """
    names = list(run.metrics)
    plt = _plt()
    figure, axes = plt.subplots(figsize=(7, 0.5 * len(names) + 1.2), layout="constrained")
    for place, name in enumerate(names):
        one = run.metrics[name]
        if one.mean is None:
            continue
        if one.ci_low is not None and one.ci_high is not None:
            axes.plot([one.ci_low, one.ci_high], [place, place], color=_BLUE, linewidth=5, alpha=0.4)
        axes.plot([one.mean], [place], "o", color=_BLUE)
        axes.annotate(f"{one.mean:.3f}", (one.mean, place), xytext=(0, 7), textcoords="offset points", ha="center")
    _labels(axes, [f"{name} ({run.metrics[name].n_scored:,})" for name in names])
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("mean with 95 % interval (samples scored)")
    made = [_save(figure, folder / "metrics.png")]

    figure, places = _grid(len(names))
    for axes, name in zip(places, names, strict=True):
        values = run.values[name]
        axes.hist(values[~np.isnan(values)], bins=20, range=(0, 1), color=_BLUE)
        axes.set_title(name, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    made.append(_save(figure, folder / "spread.png"))
    if run.groups:
        made.append(_groups(run.groups, names, folder / "groups.png"))
    return made


def comparison_plots(base: Scored, other: Scored, found: Mapping[str, Difference], folder: Path) -> list[Path]:
    """Draw a comparison: ``differences.png`` (with 95 % intervals) and ``pairs.png`` (sample by sample)."""
    plt = _plt()
    figure, axes = plt.subplots(figsize=(7, 0.5 * len(found) + 1.2), layout="constrained")
    axes.axvline(0, color=_GREY, linestyle="--", linewidth=1)
    for place, one in enumerate(found.values()):
        if one.difference is None:
            continue
        if one.low is not None and one.high is not None:
            axes.plot([one.low, one.high], [place, place], color=_BLUE, linewidth=5, alpha=0.4)
        axes.plot([one.difference], [place], "o", color=_BLUE)
    _labels(axes, [f"{name} ({one.n:,})" for name, one in found.items()])
    axes.set_xlabel("difference, other minus base, with 95 % interval (pairs)")
    made = [_save(figure, folder / "differences.png")]

    figure, grid = _grid(len(found))
    places = {id_: row for row, id_ in enumerate(other.ids)}
    at = np.array([places.get(id_, -1) for id_ in base.ids], np.int64)
    for axes, name in zip(grid, found, strict=True):
        before = base.values[name]
        after = np.where(at >= 0, other.values[name][at], np.nan)
        _pairs(axes, before, after)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("base")
    made.append(_save(figure, folder / "pairs.png"))
    return made


def retrieval_plots(body: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw a retrieval: ``depth.png`` (recall and nDCG by depth) and ``tradeoff.png`` (share of the exact result
    against queries per second).

    Args:
        body: The content of ``retrieve.json``.
        folder: Where the files go.
    """
    plt = _plt()
    kinds = list(dict.fromkeys(row["index"] for row in body["indexes"]))
    made = []
    judged = [row for row in best_settings(body["indexes"]) if row.get("curves")]
    if judged:
        figure, grid = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for axes, measure in zip(grid, ("recall", "ndcg"), strict=True):
            for row in judged:
                curve = {int(depth): mean for depth, mean in row["curves"][measure].items()}
                place = kinds.index(row["index"])
                style = {"color": _SERIES[place % len(_SERIES)], "linestyle": _LINES[place % len(_LINES)]}
                axes.plot(list(curve), list(curve.values()), marker=".", label=label_of(row), **style)
            axes.set_xscale("log")
            axes.set_ylim(0, 1)
            axes.set_xlabel("depth")
            axes.set_title(f"{measure} by depth", fontsize=10)
            axes.spines[["top", "right"]].set_visible(False)
        grid[1].legend(frameon=False, fontsize=8)
        made.append(_save(figure, folder / "depth.png"))
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for place, kind in enumerate(kinds):
        rows = [row for row in body["indexes"] if row["index"] == kind]
        rates, shares = [row["queries_per_s"] for row in rows], [row["recall_of_exact"] for row in rows]
        axes.plot(rates, shares, "o-", color=_SERIES[place % len(_SERIES)], label=kind)
    axes.set_xscale("log")
    axes.set_xlabel("queries per second")
    axes.set_ylabel("share of the exact result")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return [*made, _save(figure, folder / "tradeoff.png")]


def _plt() -> Any:
    require("matplotlib", "report").use("Agg")
    return require("matplotlib.pyplot", "report")


def _grid(n: int) -> tuple[Any, list[Any]]:
    """Make a figure of n small plots, a few in a row."""
    columns = min(n, _COLUMNS)
    rows = -(-n // columns)
    size = (2.6 * columns, 2.5 * rows)
    figure, grid = _plt().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for unused in grid.flat[n:]:
        unused.set_axis_off()
    return figure, list(grid.flat[:n])


def _labels(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(y=0.15)
    axes.grid(axis="x", color="#dddddd")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _groups(groups: Mapping[str, Mapping[str, Summary]], names: Sequence[str], path: Path) -> Path:
    """Draw the means as a table of colours: blue is good, orange is bad, whichever way the metric counts."""
    held = sorted(groups)
    means = np.full((len(held), len(names)), np.nan)
    for row, group in enumerate(held):
        for column, name in enumerate(names):
            one = groups[group].get(name)
            means[row, column] = np.nan if one is None or one.mean is None else one.mean
    good = np.where([METRICS[name].higher_is_better for name in names], means, 1 - means)
    plt = _plt()
    size = (1.5 * len(names) + 2, 0.45 * len(held) + 1.4)
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    axes.imshow(good, cmap="RdBu", vmin=-0.5, vmax=1.5, aspect="auto")
    for (row, column), mean in np.ndenumerate(means):
        axes.text(column, row, "–" if np.isnan(mean) else f"{mean:.2f}", ha="center", va="center")
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_yticks(range(len(held)), [_plain(group) for group in held])
    return _save(figure, path)


def _pairs(axes: Any, before: NDArray[np.float64], after: NDArray[np.float64]) -> None:
    """Draw one dot per pair of values, as large as the number of samples that share it."""
    both = ~np.isnan(before) & ~np.isnan(after)
    points, counts = np.unique(np.round(np.stack([before[both], after[both]]) * 20) / 20, axis=1, return_counts=True)
    colours = np.where(points[1] > points[0], _GREEN, np.where(points[1] < points[0], _ORANGE, _GREY))
    axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1)
    if counts.size:
        axes.scatter(points[0], points[1], s=8 + 120 * counts / counts.max(), c=colours, alpha=0.8, linewidths=0)
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.05, 1.05)
    axes.set_aspect("equal")


def _plain(text: str) -> str:
    """Keep matplotlib from reading a name as mathematics, and a picture from growing with it."""
    return text.replace("$", r"\$")[:40]


def _save(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI)
    _plt().close(figure)
    return path
