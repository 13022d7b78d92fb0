r"""Chaos: a run that is killed, interrupted, out of disk, torn or doubled, against the same run left alone.

    python benchmarks/resume.py [--disaster kill ...] [--kills 10] -- SAMPLES --judge JUDGE [options of gpueval run]

Runs the command once to the end. Then, per disaster, in a fresh folder: the disaster, and the same command again
until it ends well. Prints one JSON line each: exit codes and last words on the way, are the scores equal, how far
apart are the probabilities, how many requests were asked in the last life.

``kill``         SIGKILL of the whole process group, ``--kills`` times, at random moments after the store begins to grow
``term``         SIGTERM at a random moment
``interrupt``    Ctrl-C, and again a moment later
``full``         the folder on a disk that is too small for the store (a tmpfs; needs root), then made larger
``torn``         SIGKILL, and the last page of the store cut off
``doubled``      a second run started on the same folder while the first is at work
``clock``        the clock on the wall runs backwards
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from result_rows import emit

BACKWARDS = "import time\n_real, _start = time.time, time.time()\ntime.time = lambda: 2 * _start - _real()\n"
Told = dict[str, Any]


def stored(folder: Path) -> int:
    """Count the replies in a run folder's store."""
    path = folder / "judgments.sqlite"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT COUNT(*) FROM replies").fetchone()[0])
    except sqlite3.DatabaseError:
        return 0


class Command:
    """One ``gpueval run`` that can be started again and again, and what a run left alone stored."""

    def __init__(self, arguments: list[str], chance: random.Random) -> None:
        self._arguments, self.chance, self.total = arguments, chance, 0

    def start(self, folder: Path, **environment: str) -> subprocess.Popen[str]:
        """Start it in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "gpueval", "run", *self._arguments, "--out", str(folder), "--quiet"],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )

    def grown(self, folder: Path, process: subprocess.Popen[str], most: int) -> None:
        """Wait until the store has grown by a random number of replies, at most ``most``, and a moment more."""
        goal = stored(folder) + self.chance.randint(1, max(1, most))
        while stored(folder) < goal and process.poll() is None:
            time.sleep(0.05)
        time.sleep(self.chance.random())


def ended(process: subprocess.Popen[str]) -> Told:
    """Wait for the end: exit code and last words."""
    words = process.communicate()[1].strip().splitlines()
    told = [line for line in words if line.startswith("gpueval:")]
    return {"exit_code": process.returncode, "said": told[-1] if told else ""}


def killed(command: Command, folder: Path, times: int) -> Told:
    """SIGKILL, again and again."""
    kept = []
    for _ in range(times):
        process = command.start(folder)
        command.grown(folder, process, command.total // (times + 1))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kept.append(stored(folder))
    return {"kills": times, "stored_after_each": kept}


def signalled(command: Command, folder: Path, *numbers: signal.Signals) -> Told:
    """One signal after the other to the process alone."""
    process = command.start(folder)
    command.grown(folder, process, command.total // 2)
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.3)
    return ended(process) | {"stored_then": stored(folder)}


def full(command: Command, folder: Path) -> Told:
    """A disk that fills up, then a larger one."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(folder)], check=True)
    told = ended(command.start(folder)) | {"stored_then": stored(folder)}
    subprocess.run(["mount", "-o", "remount,size=256m", str(folder)], check=True)
    return told


def torn(command: Command, folder: Path) -> Told:
    """A killed run whose store lost its end; a damaged store is moved away."""
    killed(command, folder, 1)
    store = folder / "judgments.sqlite"
    with sqlite3.connect(store) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    os.truncate(store, store.stat().st_size - 2048)
    told = ended(command.start(folder))
    if told["exit_code"]:
        store.rename(folder / "damaged.sqlite")
    return told


def doubled(command: Command, folder: Path) -> Told:
    """A second run on the folder while the first is at work."""
    first = command.start(folder)
    command.grown(folder, first, 10)
    second = ended(command.start(folder))
    return {"second": second, "first": ended(first)}


def clock(command: Command, folder: Path) -> Told:
    """A whole run under a clock that runs backwards."""
    with tempfile.TemporaryDirectory() as site:
        (Path(site) / "sitecustomize.py").write_text(BACKWARDS)
        path = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
        return ended(command.start(folder, PYTHONPATH=path))


def cells(folder: Path) -> list[Told]:
    """Read the scores."""
    with (folder / "scores.jsonl").open() as file:
        return [json.loads(line) for line in file]


def compared(whole: Path, folder: Path) -> Told:
    """Hold the scores of a survivor against those of the run left alone."""
    first, second = cells(whole), cells(folder)
    apart = [
        abs(a["p"] - b["p"])
        for one, two in zip(first, second, strict=True)
        for name in one["scores"]
        for a, b in zip(one["scores"][name].get("claims", []), two["scores"][name].get("claims", []), strict=True)
        if a["p"] is not None and b["p"] is not None
    ]
    values = [[{k: v["value"] for k, v in row["scores"].items()} for row in run] for run in (first, second)]
    return {
        "values_equal": values[0] == values[1],
        "n_values_that_differ": sum(a != b for a, b in zip(*values, strict=True)),
        "largest_difference_of_p": max(apart, default=0.0),
    }


def main() -> None:
    """Run once in peace, then through each disaster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disaster", nargs="+", default=["kill"])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = Command([text for text in options.arguments if text != "--"], random.Random(options.seed))
    disasters: dict[str, Callable[[Path], Told]] = {
        "kill": lambda folder: killed(command, folder, options.kills),
        "term": lambda folder: signalled(command, folder, signal.SIGTERM),
        "interrupt": lambda folder: signalled(command, folder, signal.SIGINT, signal.SIGINT),
        "full": lambda folder: full(command, folder),
        "torn": lambda folder: torn(command, folder),
        "doubled": lambda folder: doubled(command, folder),
        "clock": lambda folder: clock(command, folder),
    }
    with tempfile.TemporaryDirectory() as work:
        whole = Path(work) / "whole"
        if ended(command.start(whole))["exit_code"]:
            raise SystemExit("the run left alone failed")
        command.total = stored(whole)
        for name in options.disaster:
            folder, began = Path(work) / name, time.perf_counter()
            told = disasters[name](folder)
            last = ended(command.start(folder))
            facts = json.loads((folder / "run.json").read_text())["requests"]
            row = {"benchmark": "resume", "disaster": name, "requests": command.total, **told}
            row |= {
                "last_exit_code": last["exit_code"],
                "asked_in_the_last_life": facts["n_requests"] - facts["n_reused"],
            }
            emit(row | compared(whole, folder) | {"wall_s": round(time.perf_counter() - began, 1)}, options.out)
            if name == "full":
                subprocess.run(["umount", "--lazy", str(folder)], check=True)


if __name__ == "__main__":
    main()
