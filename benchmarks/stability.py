r"""Do verdicts repeat? The same requests cold, from a warm cache, in another order and in small batches.

    python benchmarks/stability.py JUDGE DATA/begin_wow/begin_dev_wow.tsv [--rows 200] [--out FILE]

A line per comparison with the first, cold pass: largest and mean difference of p, verdicts that turned at 0.5, and how
many of the turned ones lay within the distance of the threshold that gpueval marks as unstable.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np
from aggregation import request
from prompt_trials import begin, probability
from result_rows import emit

from gpueval import engines
from gpueval.engines.base import Engine
from gpueval.judge.plan import Keys
from gpueval.metrics.base import NOISE
from gpueval.records import Request


def asked(engine: Engine, requests: list[Request]) -> dict[bytes, float]:
    """Return p per request."""
    return {completion.key: probability(completion) for completion in engine.run(requests)}


def main() -> None:
    """Ask five times and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    engine = engines.start(options.judge, log=Path("stability.log"))
    keys = Keys(engine.fingerprint, "")
    rows = begin(options.data)[: options.rows]
    every = list({one.key: one for row in rows for one in [request(row, claim, keys) for claim in row.claims]}.values())
    shuffled = random.Random(0).sample(every, len(every))
    first = asked(engine, every)
    passes = {
        "warm cache": asked(engine, every),
        "warm cache, other order": asked(engine, shuffled),
        "seven at a time": {
            key: p for i in range(0, len(every), 7) for key, p in asked(engine, shuffled[i : i + 7]).items()
        },
    }
    engine.close()
    fresh = engines.start(options.judge, log=Path("stability.log"))
    passes["another start, other order"] = asked(fresh, shuffled)
    fresh.close()
    for name, found in passes.items():
        before, after = (np.array([some[one.key] for one in every]) for some in (first, found))
        turned = (before >= 0.5) != (after >= 0.5)
        emit(
            {
                "benchmark": "stability",
                "judge": engine.facts()["model"],
                "compared": name,
                "n": len(every),
                "largest_difference": float(np.abs(before - after).max()),
                "mean_difference": float(np.abs(before - after).mean()),
                "turned": int(turned.sum()),
                "turned_within_noise": int((turned & (np.abs(before - 0.5) <= NOISE)).sum()),
                "marked_unstable": int((np.abs(before - 0.5) <= NOISE).sum()),
            },
            options.out,
        )


if __name__ == "__main__":
    main()
