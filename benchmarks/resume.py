"""Chaos: a run killed with SIGKILL again and again at random moments, against the same run left alone.

    python benchmarks/resume.py --kills 10 -- SAMPLES --judge JUDGE [further options of gpueval run]

Runs the command once to the end, then again in another folder with ``kills`` SIGKILLs (the whole process group: the
engine process dies too), each at a random moment after the store begins to grow, then lets it finish. Prints one JSON
line: are the scores equal, how far apart are the probabilities, how many requests were answered in all lives together
beyond the distinct ones (those in flight at a kill), and the times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_rows import emit


def stored(folder: Path) -> int:
    """Count the replies in a run folder's store."""
    path = folder / "judgments.sqlite"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT COUNT(*) FROM replies").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def start(arguments: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start the run in a process group of its own."""
    command = [sys.executable, "-m", "gpueval", "run", *arguments, "--out", str(folder), "--quiet"]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cells(folder: Path) -> list[dict[str, object]]:
    """Read the scores."""
    with (folder / "scores.jsonl").open() as file:
        return [json.loads(line) for line in file]


def main() -> None:
    """Run, kill, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reference", type=Path, help="folder of a finished run of the same command")
    parser.add_argument("--out", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    arguments = [text for text in options.arguments if text != "--"]
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as work:
        whole = options.reference or Path(work) / "whole"
        if options.reference is None and start(arguments, whole).wait():
            raise SystemExit("the uninterrupted run failed")
        total = stored(whole)
        folder, kept, began = Path(work) / "killed", [], time.perf_counter()
        for _ in range(options.kills):
            process = start(arguments, folder)
            goal = stored(folder) + chance.randint(1, max(1, total // (options.kills + 1)))
            while stored(folder) < goal and process.poll() is None:
                time.sleep(0.05)
            time.sleep(chance.random())
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kept.append(stored(folder))
        if start(arguments, folder).wait():
            raise SystemExit("the last run failed")
        facts = json.loads((folder / "run.json").read_text())
        first, second = cells(whole), cells(folder)
        apart = [
            abs(a["p"] - b["p"])
            for one, two in zip(first, second, strict=True)
            for name in one["scores"]  # type: ignore[attr-defined]
            for a, b in zip(one["scores"][name].get("claims", []), two["scores"][name].get("claims", []), strict=True)  # type: ignore[index]
            if a["p"] is not None and b["p"] is not None
        ]
        values = [[{k: v["value"] for k, v in row["scores"].items()} for row in run] for run in (first, second)]  # type: ignore[attr-defined]
        row = {
            "benchmark": "resume",
            "kills": options.kills,
            "requests": total,
            "stored_after_each_kill": kept,
            "asked_in_the_last_life": facts["requests"]["n_requests"] - facts["requests"]["n_reused"],
            "values_equal": values[0] == values[1],
            "n_values_that_differ": sum(a != b for a, b in zip(*values, strict=True)),
            "largest_difference_of_p": max(apart, default=0.0),
            "wall_s": round(time.perf_counter() - began, 1),
        }
        emit(row, options.out)


if __name__ == "__main__":
    main()
