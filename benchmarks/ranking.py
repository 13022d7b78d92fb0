"""From TREC files to averages of five measures: gpueval, pytrec_eval with its own parser, ranx.

    pip install pytrec-eval-terrier ranx
    python benchmarks/ranking.py 20000 100000 [--out benchmarks/results/ranking.jsonl]

Writes a random run of N queries x 100 results and judgments of about 18 documents each, then starts each tool in
a process of its own and compares the averages. A tool that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from result_rows import emit

TOOLS = {
    "gpueval": """
from gpueval.retrieval.rank import rank
found = rank(run, qrels, metrics=["ndcg@10", "map", "mrr", "recall@100", "precision@10"], ties="trec")
means = {name: average.mean for name, average in found.metrics.items()}
""",
    "pytrec_eval": """
import pytrec_eval
with open(run) as a, open(qrels) as b:
    lists, judged = pytrec_eval.parse_run(a), pytrec_eval.parse_qrel(b)
names = {"ndcg_cut.10": "ndcg_cut_10", "map": "map", "recip_rank": "recip_rank"}
names |= {"recall.100": "recall_100", "P.10": "P_10"}
found = pytrec_eval.RelevanceEvaluator(judged, set(names)).evaluate(lists)
means = {name: sum(values[key] for values in found.values()) / len(found) for name, key in
         zip(["ndcg@10", "map", "mrr", "recall@100", "precision@10"], names.values())}
""",
    "ranx": """
from ranx import Qrels, Run, evaluate
found = evaluate(Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec"),
                 ["ndcg@10", "map", "mrr", "recall@100", "precision@10"])
means = {name: float(value) for name, value in found.items()}
""",
}
FRAME = """
import json, resource, sys, time
began = time.perf_counter()
run, qrels = sys.argv[1:]
{body}
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"seconds": seconds, "peak_mib": peak, "means": means}}))
"""


def write(folder: Path, queries: int) -> tuple[Path, Path]:
    """Write a run and judgments."""
    draw = np.random.default_rng(0)
    run, qrels = folder / "run.txt", folder / "qrels.txt"
    with run.open("w") as lists, qrels.open("w") as judged:
        for query in range(queries):
            documents = draw.choice(1_000_000, 110, replace=False)
            scores = np.round(np.sort(draw.normal(10, 3, 100))[::-1], 4)
            rows = enumerate(zip(documents[:100], scores, strict=True), start=1)
            lists.write("".join(f"q{query} Q0 D{d:07d} {rank} {score} tag\n" for rank, (d, score) in rows))
            relevant = np.concatenate([documents[draw.choice(100, 8, replace=False)], documents[100:]])
            grades = draw.integers(0, 4, len(relevant))
            judged.write("".join(f"q{query} 0 D{d:07d} {grade}\n" for d, grade in zip(relevant, grades, strict=True)))
    return run, qrels


def measure(tool: str, run: Path, qrels: Path) -> dict[str, object] | None:
    """Run one tool three times; None when it is not installed."""
    found = []
    for _ in range(3):
        command = [sys.executable, "-c", FRAME.format(body=TOOLS[tool]), str(run), str(qrels)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            if "ModuleNotFoundError" in done.stderr:
                return None
            raise SystemExit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda row: row["seconds"]) | {"first_seconds": found[0]["seconds"]}


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="+", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            run, qrels = write(Path(folder), size)
            results = {tool: found for tool in TOOLS if (found := measure(tool, run, qrels))}
        ours = results["gpueval"]
        for tool, found in results.items():
            worst = max(abs(found["means"][name] - value) for name, value in ours["means"].items())
            line = {
                "benchmark": "ranking", "queries": size, "results_per_query": 100, "tool": tool,
                "cores": os.cpu_count(),
                "seconds": round(found["seconds"], 2), "first_seconds": round(found["first_seconds"], 2),
                "peak_mib": round(found["peak_mib"]), "times_ours": round(found["seconds"] / ours["seconds"], 2),
                "largest_difference_of_means": worst,
            }  # fmt: skip
            emit(line, options.out)


if __name__ == "__main__":
    main()
