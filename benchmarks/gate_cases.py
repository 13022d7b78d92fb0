r"""What a gate says in eight situations, each a real run of the same judge.

    python benchmarks/gate_cases.py DATA/begin_wow/begin_dev_wow.tsv --judge JUDGE --calibration FILE [--rows 200]

``FILE`` comes from ``gpueval calibrate`` on a run of this judge. One engine scores the rows as they are, with some
answers put under the wrong question, with documents left out, and with questions longer than the judge reads. Then
``gpueval gate`` is started on the run folders as a command. Prints one JSON line per situation: policy, checks, exit
code.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers import begin, samples_of
from result_rows import emit

import gpueval
from gpueval import engines

LEVEL = "[metrics.faithfulness]\n{} = {}\n"
LOSS = "[metrics.faithfulness]\nmax_loss = 0.01\n"


def shifted(rows: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Give the first ``n`` rows the answer of the row after: what it says stands in another document."""
    answers = [row["answer"] for row in rows]
    return [row | {"answer": answers[i + 1]} if i < n else row for i, row in enumerate(rows)]


def main() -> None:
    """Score, gate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--judge", required=True)
    parser.add_argument("--calibration", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = samples_of(begin(options.data, options.rows))
    versions: dict[str, list[dict[str, Any]]] = {
        "base": rows,
        "little worse": shifted(rows, len(rows) // 30),
        "much worse": shifted(rows, len(rows) // 4),
        "documents lost": [row | {"contexts": None} if i % 5 == 0 else row for i, row in enumerate(rows)],
        "too long": [row | {"question": "why " * 5000} for row in rows],
    }
    with tempfile.TemporaryDirectory() as work:
        judge = engines.start(options.judge, options={"max_model_len": 2048}, log=Path(work) / "engine.log")
        for name, version in [*versions.items(), ("uncalibrated", rows)]:
            gpueval.evaluate(
                version,
                judge=judge,
                metrics=["faithfulness"],
                out=Path(work) / name,
                calibration=None if name == "uncalibrated" else options.calibration,
            )
        judge.close()
        mean = json.loads((Path(work) / "base" / "summary.json").read_text())["metrics"]["faithfulness"]["mean"]
        below, above = round(mean - 0.05, 2), round(min(1.0, mean + 0.15), 2)
        situations = (
            ("pass", "base", LEVEL.format("block", below), None),
            ("block", "base", LEVEL.format("block", above), None),
            ("warn", "base", LEVEL.format("warn", above), None),
            ("low coverage", "documents lost", LEVEL.format("block", below), None),
            ("all failed", "too long", LEVEL.format("block", below), None),
            ("uncalibrated", "uncalibrated", LEVEL.format("block", above), None),
            ("regression within noise", "little worse", LOSS, "base"),
            ("regression beyond noise", "much worse", LOSS, "base"),
        )
        for what, run, policy, baseline in situations:
            (Path(work) / "policy.toml").write_text(policy)
            command = [sys.executable, "-m", "gpueval", "gate", run, "--policy", "policy.toml", "--json"]
            command += ["--baseline", baseline] if baseline else []
            done = subprocess.run(command, cwd=work, capture_output=True, text=True)
            checks = json.loads(done.stdout)["checks"]
            row = {"benchmark": "gate_cases", "situation": what, "policy": policy, "exit_code": done.returncode}
            emit(row | {"rows": len(rows), "judge": Path(options.judge).name, "checks": checks}, options.out)


if __name__ == "__main__":
    main()
