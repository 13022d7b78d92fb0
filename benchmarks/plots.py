"""Draws the rows in benchmarks/results as SVG files beside them, the newest row of each kind.

    python benchmarks/plots.py [throughput harness prefix_cache bare_engine resume cluster ...]

Needs matplotlib (it comes with the development packages).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#999999"
"""Of Okabe and Ito's palette, which colour-blind readers can tell apart."""

Rows = list[dict[str, Any]]


def newest(rows: Rows, *by: str) -> Rows:
    """Keep the last row for each combination of values, in order of first appearance."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        found[tuple(row.get(name) for name in by)] = row
    return list(found.values())


def bars(axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str], unit: str) -> None:
    """Draw lying bars with their values."""
    drawn = axes.barh(names, values, color=colours)
    axes.bar_label(drawn, [f" {value:,.3g}" for value in values])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)


def throughput(rows: Rows, axes: Axes) -> str:
    """Samples per second of each tool."""
    rows = sorted(newest(rows, "tool"), key=lambda row: -row["samples_per_s"])
    names = {"in-process": "gpueval, in process", "gpueval": "gpueval, HTTP", "ragas": "Ragas", "deepeval": "DeepEval"}
    lost = [f" ({n} rows lost a cell)" if (n := row["rows_with_a_lost_cell"]) else "" for row in rows]
    labels = [names[row["tool"]] + text for row, text in zip(rows, lost, strict=True)]
    own = [BLUE if "gpueval" in names[row["tool"]] else GREY for row in rows]
    bars(axes, labels, [row["samples_per_s"] for row in rows], own, "samples per second")
    return f"{rows[0]['rows']} rows, faithfulness + answer relevancy + context precision, {rows[0]['judge']}"


def bare_engine(rows: Rows, axes: Axes) -> str:
    """Where the time of a run goes, beside the bare engine's."""
    rows = newest(rows, "first")
    for place, (state, row) in enumerate((state, row) for state in ("cold", "warm") for row in rows):
        left = 0.0
        for part, colour in (("engine", BLUE), ("embedder", GREEN), ("rest", ORANGE)):
            width = row[f"{state}_{part}_s"]
            axes.barh(2 * place, width, left=left, color=colour, label=part if place == 0 else None)
            left += width
        axes.barh(
            2 * place + 0.8, row[f"{state}_bare_s"], color=GREY, label="LLM.generate alone" if not place else None
        )
        axes.text(left + 0.5, 2 * place + 0.15, f"{state}, {row['first']} measured first")
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.margins(x=0.35)
    axes.set_xlabel("seconds")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    return f"A run against the bare engine, {rows[0]['requests']} requests, {rows[0]['judge']}"


def prefix_cache(rows: Rows, axes: Axes) -> str:
    """Seconds in both orders."""
    rows = newest(rows, "order")
    labels = [f"{row['order']} ({row['from_cache']:.0%} from cache)" for row in rows]
    bars(axes, labels, [row["seconds"] for row in rows], [BLUE, GREY], "seconds")
    return f"Prefix cache: {rows[0]['requests']} requests over {rows[0]['passages']} passages, {rows[0]['judge']}"


def harness(rows: Rows, axes: Axes) -> str:
    """Wall time and memory over the number of samples."""
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    rows = newest([row for row in rows if "device_s" not in row and row["n_samples"] in sizes], "n_samples")
    axes.loglog(sizes, [row["wall_s"] for row in rows], "o-", color=BLUE, label="wall time, seconds")
    axes.loglog(sizes, [row["peak_memory_mib"] for row in rows], "s--", color=ORANGE, label="peak memory, MiB")
    axes.set_xlabel("samples x 5 metrics")
    axes.grid(which="major", color="#ddd")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return "What the house itself costs, no model"


def resume(rows: Rows, axes: Axes) -> str:
    """Requests asked again after each disaster."""
    rows = newest([row for row in rows if "disaster" in row], "disaster")
    labels = [f"{row['disaster']}{'' if row['values_equal'] else ' (scores differ)'}" for row in rows]
    bars(
        axes,
        labels,
        [row["asked_in_the_last_life"] for row in rows],
        [BLUE if row["values_equal"] else ORANGE for row in rows],
        f"requests asked in the last life, of {rows[0]['requests']}",
    )
    equal = "equal scores after every disaster" if all(row["values_equal"] for row in rows) else "scores differ"
    return f"Chaos: {equal}"


def cluster(rows: Rows, axes: Axes) -> str:
    """Samples per second of many replicas, simulated."""
    rows = newest([row for row in rows if row["benchmark"] == "cluster_model"], "replicas")
    counts = [row["replicas"] for row in rows]
    axes.loglog(counts, [row["samples_per_s"] for row in rows], "o-", color=BLUE, label="simulated")
    ideal = [rows[0]["samples_per_s"] * n / counts[0] for n in counts]
    axes.loglog(counts, ideal, "--", color=GREY, label="as many times one")
    axes.set_xlabel("replicas")
    axes.set_ylabel("samples per second")
    axes.grid(which="major", color="#ddd")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    first = rows[0]
    return (
        f"Simulation: {first['requests_per_s_of_each']:g} requests/s each, {first['host_us']:g} us of the driver each"
    )


PLOTS: dict[str, Callable[[Rows, Axes], str]] = {
    one.__name__: one for one in (throughput, bare_engine, prefix_cache, harness, resume, cluster)
}


def main() -> None:
    """Draw what is asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PLOTS)}; default all")
    for name in parser.parse_args().names or PLOTS:
        rows = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
        figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
        axes.set_title(PLOTS[name](rows, axes), loc="left", fontsize=11)
        path = RESULTS / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        print(path)


if __name__ == "__main__":
    main()
