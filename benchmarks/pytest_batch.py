r"""Fifty tests on RAG samples: all judged in one batch by the plugin, against one call per test.

    python benchmarks/pytest_batch.py DATA/begin_wow/begin_dev_wow.tsv --judge JUDGE [--tests 50]

Writes two test files with the same samples and runs pytest on each in a process of its own. ``batch`` uses the plugin's
marker and fixture. ``one by one`` starts the engine once, in a fixture of the session, and every test asks it for its
own sample. Prints one JSON line each: seconds of the whole session, engine's start included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import begin, samples_of
from result_rows import emit

BATCH = """
import pytest

@pytest.mark.gpueval("cases.jsonl", each=True)
def test_case(scored):
    scored.states("faithfulness")
"""
ONE_BY_ONE = """
import json, pathlib
import pytest
import gpueval
from gpueval import engines

CASES = [json.loads(line) for line in (pathlib.Path(__file__).parent / "cases.jsonl").open()]

@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    engine = engines.start(JUDGE, log=tmp_path_factory.mktemp("engine") / "engine.log")
    yield engine
    engine.close()

@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case, judge, tmp_path):
    gpueval.evaluate([case], judge=judge, metrics=["faithfulness"], out=tmp_path)
"""


def main() -> None:
    """Measure both and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--judge", type=Path, required=True)
    parser.add_argument("--tests", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    judge = str(options.judge.resolve())
    for way, text in (("batch", BATCH), ("one by one", ONE_BY_ONE.replace("JUDGE", repr(judge)))):
        with tempfile.TemporaryDirectory() as folder:
            lines = [json.dumps(row) + "\n" for row in samples_of(begin(options.data, options.tests))]
            (Path(folder) / "cases.jsonl").write_text("".join(lines))
            (Path(folder) / "test_rag.py").write_text(text)
            (Path(folder) / "pytest.ini").write_text(f"[pytest]\ngpueval_judge = {judge}\n")
            began = time.perf_counter()
            done = subprocess.run([sys.executable, "-m", "pytest", "-q", folder], capture_output=True, text=True)
            seconds = time.perf_counter() - began
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        row = {"benchmark": "pytest_batch", "way": way, "tests": options.tests, "judge": options.judge.name}
        emit(row | {"seconds": round(seconds, 1), "said": done.stdout.strip().splitlines()[-1]}, options.out)


if __name__ == "__main__":
    main()
