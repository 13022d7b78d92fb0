"""What the house itself costs: samples x 5 metrics through a scripted engine, no model.

    python benchmarks/harness.py 10000 100000 [--out benchmarks/results/harness.jsonl]

Each size runs in a fresh process, from a JSONL file to a finished run folder: load, plan, hash, store, parse, score,
sum up. A sample has two retrieved chunks, an answer of two sentences and a reference of one: 14 requests for the five
default metrics, 3 of them similarities. Prints one JSON line per size: wall and CPU seconds, peak memory of the
process, microseconds per request. With ``--device-us`` the engine takes 256 requests at a time and sleeps so many
microseconds for each, as a host does that waits for a device: wall seconds against device_s, what the sleeps sum to,
show how much of the house's own work is done meanwhile.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from result_rows import emit


def measure(n_samples: int, folder: Path, device_us: float) -> dict[str, object]:
    """Run one size in this process."""
    from gpueval.engines.scripted import Scripted
    from gpueval.pipeline import evaluate
    from gpueval.records import Completion, Request

    questions = '{"questions":["What is it?","Which one is it?","How is it so?"]}'

    def reply(request: Request) -> Completion:
        if request.ask.labels:
            return Completion(request.key, labels=(0.8, 0.2, 0.0), prompt_tokens=200, output_tokens=1)
        if request.ask.schema:
            return Completion(request.key, text=questions, prompt_tokens=200, output_tokens=30)
        return Completion(request.key, value=0.7)

    source = folder / "samples.jsonl"
    with source.open("w") as file:
        for i in range(n_samples):
            row = {
                "id": f"s{i}",
                "question": f"What is the capital of country number {i}?",
                "answer": f"The capital of country {i} is town {i}. It has {i} inhabitants.",
                "reference": f"Town {i} is the capital of country {i}.",
                "contexts": [
                    f"Country {i} has the capital town {i}. " * 6,
                    f"Country {i} exports goods of kind {i}. " * 6,
                ],
            }
            file.write(json.dumps(row) + "\n")

    class Device(Scripted):
        slept_s = 0.0

        def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
            waiting = iter(requests)
            while batch := list(islice(waiting, 256)):
                self.slept_s += (pause := len(batch) * device_us * 1e-6)
                time.sleep(pause)
                yield from map(reply, batch)

    embedder = Scripted(reply, "harness")
    engine = Device(reply, "harness") if device_us else embedder
    began, cpu = time.perf_counter(), time.process_time()
    result = evaluate(source, judge=engine, embedder=embedder, out=folder / "run")
    wall, used = time.perf_counter() - began, time.process_time() - cpu
    n_requests = json.loads((folder / "run" / "run.json").read_text())["requests"]["n_requests"]
    assert all(summary.n_scored == n_samples for summary in result.metrics.values())
    return {
        "benchmark": "harness",
        "n_samples": n_samples,
        "n_requests": n_requests,
        "wall_s": round(wall, 2),
        **({"device_s": round(engine.slept_s, 2)} if isinstance(engine, Device) else {}),
        "cpu_s": round(used, 2),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "us_per_request": round(1e6 * wall / n_requests, 1),
        "store_mib": round((folder / "run" / "judgments.sqlite").stat().st_size / 2**20, 1),
    }


def main() -> None:
    """Run every size in its own process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="+", type=int)
    parser.add_argument("--device-us", type=float, default=0.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for size in options.sizes:
        if options.inner:
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(measure(size, Path(folder), options.device_us)))
            continue
        done = subprocess.run(
            [sys.executable, __file__, str(size), "--inner", "--device-us", str(options.device_us)],
            capture_output=True,
            text=True,
            check=True,
        )
        emit(json.loads(done.stdout), options.out)


if __name__ == "__main__":
    main()
