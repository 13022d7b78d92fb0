r"""Does ``--until-ci`` keep its word: coverage of the interval at the moment it stops, and what it saves.

    python benchmarks/until_ci.py RUN_FOLDER [--repeats 2000] [--samples 100000]

Takes the scored values of every judged metric of a finished run as the distribution that samples come from; the mean
of all of them is the truth. Draws runs of ``--samples`` samples from it, lets the rule of a run decide after each step
(the run's own steps and stopping rule), and holds the interval of the values drawn so far against the truth. Prints
one JSON line per metric and width: share of runs whose interval holds the truth, median and 90th percentile of
the samples drawn, largest half width at the stop.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from result_rows import emit

from gpueval.drawing import Drawing
from gpueval.metrics import METRICS
from gpueval.records import Cell
from gpueval.stats.aggregate import Table
from gpueval.stats.intervals import bootstrap_means

_WINDOW = 4096


def drawn(values: NDArray[np.float64], metric: str, width: float, n: int, chance: np.random.Generator) -> Table:
    """Draw until the rule stops, and return the table."""
    table, drawing, n_done = Table(), Drawing([METRICS[metric]], width), 0
    while n_done < n and drawing.active(n_done):
        step = min(drawing.step(table, n_done, _WINDOW), n - n_done)
        for value in chance.choice(values, step).tolist():
            table.add({metric: Cell(value)}, None)
        n_done += step
        drawing.look(table, n_done)
    return table


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--widths", type=float, nargs="+", default=[0.05, 0.02])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    columns: dict[str, list[float]] = {}
    for line in (options.folder / "scores.jsonl").open():
        for name, cell in json.loads(line)["scores"].items():
            if cell["value"] is not None and METRICS[name].needs:
                columns.setdefault(name, []).append(cell["value"])
    for name, column in columns.items():
        values = np.array(column)
        for width in options.widths:
            chance = np.random.default_rng(0)
            found = [drawn(values, name, width, options.samples, chance).values(name) for _ in range(options.repeats)]
            ends = [interval for interval in bootstrap_means(found) if interval is not None]
            sizes = [len(one) for one in found]
            emit(
                {
                    "benchmark": "until_ci",
                    "metric": name,
                    "values": len(values),
                    "mean": round(float(values.mean()), 4),
                    "half_width": width,
                    "repeats": options.repeats,
                    "coverage": round(float(np.mean([low <= values.mean() <= high for low, high in ends])), 4),
                    "samples_median": int(np.median(sizes)),
                    "samples_90th": int(np.quantile(sizes, 0.9)),
                    "of": options.samples,
                    "widest": round(max(high - low for low, high in ends) / 2, 4),
                },
                options.out,
            )


if __name__ == "__main__":
    main()
