r"""Replicas: one and two on this machine, and a simulation of many from figures measured on one.

    python benchmarks/cluster.py run SAMPLES --judge JUDGE [--replicas 1 2] [--metrics faithfulness]
    python benchmarks/cluster.py model --requests-per-s 200 --host-us 75 --samples 100000 [--replicas 8 64 256 1000]

``run`` scores the samples with every number of replicas on a local Ray cluster, the cores shared out among them, and
prints one JSON line each: seconds of the judge, of the start, and the largest difference of a probability from the
first.

``model`` plays the run's own scheduling with a clock of its own: windows of samples, a group of requests per passage,
groups handed to the replica with room, no one holding more than its share of what is left. Assumptions, all arguments:
every replica answers ``--requests-per-s`` (take it from a measured run of one), group sizes are drawn evenly from 1 to
``--largest-group``, the driver spends ``--host-us`` per request on one core (benchmarks/harness.py measures it) while
replicas answer the window before, one window ahead, and the network costs nothing. Prints one JSON line per number of
replicas: samples per second, the share of the time that replicas work, and the driver's share.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from result_rows import emit

from gpueval.engines.balanced import _ALWAYS


def window_s(groups: list[int], n: int, rate: float) -> float:
    """Seconds until the last of ``n`` replicas, each of ``rate`` requests per second, is done with a window.

    A replica that holds requests is busy until they are answered; it takes the next group when it holds less than its
    share of the rest, at least ``_ALWAYS`` requests.
    """
    left, waiting = sum(groups), iter(groups)
    busy = [(0.0, number) for number in range(n)]  # when the requests that a replica holds will be answered
    heapq.heapify(busy)
    now = last = 0.0
    group = next(waiting, None)
    while group is not None:
        until, number = heapq.heappop(busy)  # who has least to do asks next
        held = (until - now) * rate
        most = max(_ALWAYS, left // n)
        if held >= most:
            now = until - (most - 1) / rate
            held = most - 1
        until = max(until, now) + group / rate
        last = max(last, until)
        left -= group
        heapq.heappush(busy, (until, number))
        group = next(waiting, None)
    return last


def model(options: argparse.Namespace) -> None:
    """Simulate and print."""
    chance = random.Random(0)
    for n in options.replicas or (1, 8, 64, 256, 1000):
        host_s = asked = 0.0
        planned = answered = before = 0.0  # when the driver, the replicas, and the replicas a window ago were done
        for start in range(0, options.samples, options.window):
            size = min(options.window, options.samples - start)
            groups = [chance.randint(1, options.largest_group) for _ in range(size * options.groups_per_sample)]
            asked += sum(groups)
            host_s += (own := sum(groups) * options.host_us * 1e-6)
            planned = max(planned, before) + own
            before, answered = answered, max(answered, planned) + window_s(groups, n, options.requests_per_s)
        total = answered
        ideal = asked / (n * options.requests_per_s)
        row = {"benchmark": "cluster_model", "replicas": n, "samples": options.samples, "requests": int(asked)}
        row |= {"requests_per_s_of_each": options.requests_per_s, "host_us": options.host_us, "window": options.window}
        row |= {"seconds": round(total, 1), "samples_per_s": round(options.samples / total, 1)}
        emit(row | {"replicas_work": round(ideal / total, 3), "driver": round(host_s / total, 3)}, options.out)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    import gpueval

    first: list[float] = []
    for n in options.replicas or (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            settings = {"max_model_len": 2048, "kv_cache_gib": 1}
            result = gpueval.evaluate(
                options.samples,
                judge=options.judge,
                metrics=options.metrics.split(","),
                out=folder,
                replicas=n,
                engine_options=settings,
            )
            facts: dict[str, Any] = json.loads((Path(folder) / "run.json").read_text())
            found = [
                claim["p"]
                for line in result.cells()
                for cell in line["scores"].values()
                for claim in cell.get("claims", ())
            ]
        first = first or found
        row = {"benchmark": "cluster", "replicas": n, "samples": facts["n_samples"], "judge": Path(options.judge).name}
        row |= {"requests": facts["requests"]["n_requests"], "judge_s": round(facts["requests"]["judge_s"], 1)}
        row |= {"start_s": round(facts["timing_s"]["start"], 1), "wall_s": round(time.perf_counter() - began, 1)}
        apart = max(abs(a - b) for a, b in zip(first, found, strict=True))
        emit(row | {"largest_difference": apart}, options.out)


def main() -> None:
    """Run or simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    real = commands.add_parser("run")
    real.add_argument("samples", type=Path)
    real.add_argument("--judge", required=True)
    real.add_argument("--metrics", default="faithfulness")
    real.set_defaults(action=run)
    many = commands.add_parser("model")
    many.add_argument("--requests-per-s", type=float, required=True)
    many.add_argument("--host-us", type=float, required=True)
    many.add_argument("--samples", type=int, default=100_000)
    many.add_argument("--window", type=int, default=4096)
    many.add_argument("--groups-per-sample", type=int, default=3)
    many.add_argument("--largest-group", type=int, default=6)
    many.set_defaults(action=model)
    for one in (real, many):
        one.add_argument("--replicas", type=int, nargs="+")
        one.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
