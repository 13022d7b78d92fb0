r"""How often a gate cries wolf, how often it sees a loss, and how often a comparison finds what is not there.

    python benchmarks/decisions.py RUN_FOLDER [--metric faithfulness] [--repeats 200] [--pairs 1000]

The scored values of a finished run are the distribution that samples come from; a system's measurement draws n of
them with replacement. Prints one JSON line per question:

``flaky``     one unchanged system whose true mean lies at the level, ``--repeats`` measurements of n samples: share
              that a fixed threshold on the mean turns red, and share that the gate does
``baseline``  the same system measured again (answers written anew: a share ``--rewritten`` of the samples gets a new
              value), held against the first measurement: share of red builds under max_loss 0, and under "the mean must
              not fall"
``power``     a true loss of ``--loss`` on top: share that the baseline check blocks
``compare``   ``--pairs`` comparisons of an unchanged system: share with a corrected p below 0.05
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from result_rows import emit

from gpueval.decisions.compare import compare
from gpueval.decisions.gate import check, worst
from gpueval.decisions.policy import Policy, Rule
from gpueval.decisions.scored import Scored, read_scored
from gpueval.records import Cell
from gpueval.stats.aggregate import Table


def measured(like: Scored, metric: str, values: NDArray[np.float64]) -> Scored:
    """Make a run of these values."""
    table = Table()
    for value in values.tolist():
        table.add({metric: Cell(value)}, None)
    n, found = len(values), table.result([])
    return replace(
        like,
        ids=[str(i) for i in range(n)],
        group_of=[None] * n,
        asked=[b""] * n,
        metrics=found["metrics"],
        groups={},
        values={metric: values},
    )


def worse(values: NDArray[np.float64], loss: float, chance: np.random.Generator) -> NDArray[np.float64]:
    """Take ``loss`` off the mean: good samples fall to 0 at random, as many as it takes."""
    share = loss / max(1e-9, float(values.mean()))
    return np.where(chance.random(len(values)) < share, 0.0, values)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--metric", default="faithfulness")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--rewritten", type=float, default=0.3)
    parser.add_argument("--loss", type=float, default=0.05)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    like, name = read_scored(options.folder), options.metric
    whole = like.values[name][~np.isnan(like.values[name])]
    chance = np.random.default_rng(0)
    shared: dict[str, Any] = {"benchmark": "decisions", "metric": name, "values": len(whole)}
    shared |= {"mean": round(float(whole.mean()), 4)}
    level = Policy({name: Rule(block=float(whole.mean()))}, uncalibrated_may_block=True)
    loss = Policy({name: Rule(max_loss=0.0)}, uncalibrated_may_block=True)

    def again(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(chance.random(len(values)) < options.rewritten, chance.choice(whole, len(values)), values)

    for n in options.sizes:
        draws = [chance.choice(whole, n) for _ in range(options.repeats)]
        red = [worst(check(level, measured(like, name, draw))) == "block" for draw in draws]
        fixed = [float(draw.mean()) < whole.mean() for draw in draws]
        row = {"question": "flaky", "n": n, "repeats": options.repeats}
        emit(shared | row | {"red_fixed": float(np.mean(fixed)), "red_gate": float(np.mean(red))}, options.out)
        red, fixed, seen = [], [], []
        for draw in draws:
            base, same = measured(like, name, draw), again(draw)
            red.append(worst(check(loss, measured(like, name, same), base)) == "block")
            fixed.append(same.mean() < draw.mean())
            seen.append(worst(check(loss, measured(like, name, worse(same, options.loss, chance)), base)) == "block")
        row = {"n": n, "repeats": options.repeats, "rewritten": options.rewritten}
        told = {"red_fixed": float(np.mean(fixed)), "red_gate": float(np.mean(red))}
        emit(shared | row | {"question": "baseline"} | told, options.out)
        emit(shared | row | {"question": "power", "loss": options.loss, "blocked": float(np.mean(seen))}, options.out)
        found = 0
        for _ in range(options.pairs):
            draw = chance.choice(whole, n)
            base, other = measured(like, name, draw), measured(like, name, again(draw))
            p = compare(base, [other], [name])[0][name].p_value
            found += p is not None and p < 0.05
        row = {"question": "compare", "n": n, "pairs": options.pairs, "rewritten": options.rewritten}
        emit(shared | row | {"found": found / options.pairs}, options.out)


if __name__ == "__main__":
    main()
