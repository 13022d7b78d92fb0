"""Promises about the house itself: light start-up, no network, text under test kept apart, stable command line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "torch",
    "vllm",
    "transformers",
    "sentence_transformers",
    "pandas",
    "pyarrow",
    "openai",
    "scipy",
    "sklearn",
    "faiss",
}
RULES = [
    {"kind": "support", "contains": "Paris", "labels": [0.9, 0.1, 0.0]},
    {"kind": "support", "labels": [0.2, 0.8, 0.0]},
]


def gpueval(*arguments, cwd, env=None):
    command = [sys.executable, "-m", "gpueval", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | (env or {}), check=False)


def cpu_s(code: str) -> float:
    best = 9.0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def test_help_starts_light() -> None:
    show = "import sys\nfrom gpueval.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    listed = subprocess.run(
        [sys.executable, "-c", show + "print('MODULES', *sys.modules)"], capture_output=True, text=True, check=True
    ).stdout
    assert "Score retrieval-augmented generation" in listed
    assert not HEAVY & set(listed.split("MODULES")[1].split())
    assert cpu_s(show) - cpu_s("pass") < 0.3


@pytest.fixture
def files(tmp_path):
    rows = [
        {"id": "a", "question": "Where?", "answer": "In Paris.", "contexts": ["It is in Paris."]},
        {"id": "b", "question": "Who?", "answer": "Bob did.", "contexts": ["Alice did."]},
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in RULES))
    (tmp_path / "policy.toml").write_text("[metrics.faithfulness]\nblock = 0.9\n")
    return tmp_path


def test_run_rescore_and_gate_on_the_command_line(files) -> None:
    done = gpueval(
        "run", "s.jsonl", "--judge", "scripted:rules.jsonl", "--metrics", "faithfulness", "--json", cwd=files
    )
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert set(body) == {"metrics", "groups", "warnings"}
    assert body["metrics"]["faithfulness"] | {"ci_low": 0, "ci_high": 0} == {
        "mean": 0.5,
        "ci_low": 0,
        "ci_high": 0,
        "n_scored": 2,
        "n_total": 2,
        "lower_bound": 0.5,
        "upper_bound": 0.5,
        "states": {"ok": 2},
    }
    line = json.loads((files / "runs" / "s" / "scores.jsonl").read_text().splitlines()[0])
    assert line["id"] == "a"
    assert line["scores"]["faithfulness"]["claims"] == [
        {
            "text": "In Paris.",
            "p": 0.9,
            "supported": True,
            "evidence": 0,
            "sentence": "It is in Paris.",
            "share": 1.0,
        }
    ]
    again = gpueval("rescore", "runs/s", "--threshold", "0.1", "--json", cwd=files)
    assert json.loads(again.stdout)["metrics"]["faithfulness"]["mean"] == 1.0
    assert gpueval("gate", "runs/s", "--policy", "policy.toml", cwd=files).returncode == 0
    gpueval("rescore", "runs/s", "--threshold", "0.5", cwd=files)
    blocked = gpueval("gate", "runs/s", "--policy", "policy.toml", "--json", cwd=files)
    body = json.loads(blocked.stdout)
    assert (blocked.returncode, body["blocked"], body["review"]) == (0, [], ["faithfulness"])  # two samples are noise
    (files / "policy.toml").write_text(
        "noise_aware = false\nuncalibrated_may_block = true\n[metrics.faithfulness]\nblock = 0.9\n"
    )
    blocked = gpueval("gate", "runs/s", "--policy", "policy.toml", "--json", cwd=files)
    assert (blocked.returncode, json.loads(blocked.stdout)["blocked"]) == (1, ["faithfulness"])


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["run", "none.jsonl"], 2, "none.jsonl: does not exist"),
        (["run", "s.jsonl", "--metrics", "faith"], 2, "Unknown metric 'faith'"),
        (["run", "s.jsonl", "--metrics", "faithfulness"], 2, "--judge"),
        (["run", "s.jsonl", "--metrics", "faithfulness", "--judge", "no/folder"], 3, "downloads nothing"),
        (
            ["run", "s.jsonl", "--metrics", "faithfulness", "--judge", "http://127.0.0.1:9/v1"],
            4,
            "No OpenAI-compatible",
        ),
        (["run", "s.jsonl", "--threshold", "2", "--metrics", "exact_match"], 2, "threshold"),
        (["run", "s.jsonl", "--nonsense"], 2, "No such option"),
        (["rescore", "."], 2, "not a run folder"),
        (["gate", ".", "--policy", "policy.toml"], 2, "not a run folder"),
        (["gate", ".", "--policy", "none.toml"], 2, "a preset: standard, strict"),
    ],
)
def test_errors_are_one_message_a_remedy_and_an_exit_code(files, arguments, code, part) -> None:
    if "http" in " ".join(arguments):
        pytest.importorskip("openai", reason="the client for server judges is an extra")
    done = gpueval(*arguments, cwd=files)
    assert done.returncode == code, done.stderr
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_data_errors_come_before_the_engine_and_keep_the_last_result(files) -> None:
    gpueval("run", "s.jsonl", "--judge", "scripted:rules.jsonl", "--metrics", "faithfulness", cwd=files)
    kept = (files / "runs" / "s" / "scores.jsonl").read_bytes()
    (files / "s.jsonl").write_text('{"question": 1}\n{"question"')
    done = gpueval("run", "s.jsonl", "--judge", "no/folder", "--metrics", "faithfulness", cwd=files)
    assert (done.returncode, "line 2" in done.stderr) == (2, True)
    assert (files / "runs" / "s" / "scores.jsonl").read_bytes() == kept


def test_a_whole_run_uses_no_network(tmp_path, scripted, no_network) -> None:
    import gpueval as package

    rows = [{"question": "Q?", "answer": "A b.", "contexts": ["c"], "reference": "r"}]
    result = package.evaluate(rows, judge=scripted(), embedder=scripted(), metrics=["faithfulness"], out=tmp_path / "r")
    assert result.metrics["faithfulness"].mean == 1.0


def test_no_file_is_longer_than_500_lines() -> None:
    root = Path(__file__).parents[2]
    long = {str(path): n for path in root.glob("gpueval/**/*.py") if (n := len(path.read_text().splitlines())) > 500}
    assert not long
