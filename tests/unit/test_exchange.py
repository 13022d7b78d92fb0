"""Results out and in: tables, OpenMetrics, and the files of Ragas, DeepEval and TruLens."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import gpueval
from gpueval.cli.main import main
from gpueval.decisions.compare import unlike
from gpueval.decisions.scored import read_scored
from gpueval.errors import DataError, UsageError
from gpueval.exchange.exports import export
from gpueval.exchange.imports import import_results
from gpueval.exchange.peers import NAMES, TOOLS, metric_of, name_for
from gpueval.metrics import METRICS
from gpueval.records import Completion, State

ROWS = [
    {
        "id": "a",
        "question": 'Wo, "genau"?',
        "answer": "Rot, ja.\nDoch.",
        "contexts": ["Rot.", "Blau, ja."],
        "group": "x",
    },
    {"id": "b", "question": "Who?", "answer": "wrong", "contexts": ["Alice."], "group": 'y"\\'},
    {"id": "c", "question": "Who?", "answer": "lost", "contexts": ["Alice."]},
]
METRIC_NAMES = ("faithfulness", "exact_match")


@pytest.fixture
def run(tmp_path, scripted):
    def support(request):
        text = "".join(request.parts)
        if "lost" in text:
            return Completion(request.key, failure=State.CONTEXT_OVERFLOW, message="too long")
        return 0.1 if "wrong" in text else 0.9

    gpueval.evaluate(ROWS, judge=scripted(support=support), metrics=METRIC_NAMES, out=tmp_path / "run")
    return tmp_path / "run"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_holds_texts_values_and_states(run, tmp_path) -> None:
    assert export(run, tmp_path / "t.csv") == 3
    first, second, third = read(tmp_path / "t.csv")
    assert (first["answer"], json.loads(first["contexts"])) == (ROWS[0]["answer"], ROWS[0]["contexts"])
    assert (first["faithfulness"], second["faithfulness"], third["faithfulness"]) == ("1.0", "0.0", "")
    assert third["faithfulness_state"] == "context_overflow"
    assert first["exact_match_state"] == "not_applicable"


def test_parquet_holds_the_same(run, tmp_path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="parquet is an extra: pip install 'gpueval[parquet]'")
    export(run, tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [row["faithfulness"] for row in table] == [1.0, 0.0, None]
    assert [row["question"] for row in table] == [row["question"] for row in ROWS]


def test_open_metrics_text(run, tmp_path) -> None:
    export(run, tmp_path / "t.prom")
    text = (tmp_path / "t.prom").read_text()
    lines = text.splitlines()
    assert 'gpueval_score{metric="faithfulness"} 0.5' in lines
    assert 'gpueval_score{metric="faithfulness",group="y\\"\\\\"} 0.0' in lines
    assert 'gpueval_samples{metric="faithfulness",state="context_overflow"} 1' in lines
    assert not [line for line in lines if line.endswith("None") or "nan" in line.lower()]
    assert lines[-1] == "# EOF"
    assert text.count("# TYPE gpueval_score gauge") == 1


def test_open_metrics_are_what_the_client_library_reads(run, tmp_path) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="comes with vLLM")
    export(run, tmp_path / "t.prom")
    families = {one.name: one for one in parser.text_string_to_metric_families((tmp_path / "t.prom").read_text())}
    found = {sample.labels.get("group"): sample.value for sample in families["gpueval_score"].samples}
    assert found == {None: 0.5, "x": 1.0, 'y"\\': 0.0}


@pytest.mark.parametrize(("tool", "name"), [("ragas", "r.csv"), ("deepeval", "d.json"), ("trulens", "t.csv")])
def test_what_is_exported_comes_back(run, tmp_path, tool, name) -> None:
    export(run, tmp_path / name, tool)
    back = import_results(tmp_path / name, tmp_path / "back")
    mine, theirs = read_scored(run), read_scored(tmp_path / "back")
    assert theirs.values["faithfulness"][:2].tolist() == mine.values["faithfulness"][:2].tolist()
    assert back.metrics["faithfulness"].states == {"engine_error": 1, "ok": 2}
    assert back.metrics["faithfulness"].mean == 0.5
    assert theirs.ruling("faithfulness") == "uncalibrated"
    assert "another judge" in unlike(mine, theirs)
    assert (tmp_path / "back" / "report.md").read_text().startswith("# gpueval report")


def test_a_ragas_table_as_pandas_writes_it(tmp_path) -> None:
    path = tmp_path / "ragas.csv"
    path.write_text(
        "user_input,retrieved_contexts,response,reference,faithfulness,llm_context_precision_with_reference,"
        "noise_sensitivity(mode=relevant),my_metric\n"
        "Q?,\"['one', 'two']\",A.,R.,0.5,0.9999999999,0.25,0.3\n"
        "Q2?,\"['one']\",A.,R.,,1.0,0.0,0.4\n"
    )
    found = import_results(path, tmp_path / "run")
    assert set(found.metrics) == {"faithfulness", "context_precision", "noise_sensitivity_relevant"}
    assert found.metrics["faithfulness"].states == {"engine_error": 1, "ok": 1}
    (first, _) = (json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines())
    assert [chunk["text"] for chunk in first["contexts"]] == ["one", "two"]


def test_a_test_run_of_deepeval(tmp_path) -> None:
    case = {
        "name": "test_case_0",
        "input": "Q?",
        "actualOutput": "A.",
        "retrievalContext": ["one"],
        "context": ["ideal"],
        "success": False,
        "metricsData": [
            {"name": "Faithfulness", "threshold": 0.5, "success": True, "score": 1.0, "reason": "because"},
            {"name": "Contextual Relevancy", "threshold": 0.5, "success": False, "score": None, "error": "timed out"},
            {"name": "Tone [GEval]", "score": 0.5, "success": True},
        ],
        "order": 0,
    }
    path = tmp_path / "run.json"
    for body in ({"testCases": [case]}, {"testRunData": {"testCases": [case]}}):
        path.write_text(json.dumps(body))
        found = import_results(path, tmp_path / "run")
        assert found.metrics["faithfulness"].mean == 1.0
        assert found.metrics["context_relevance"].states == {"engine_error": 1}
        assert found.warnings[0] == "'Tone [GEval]' has no metric here and was left out"
        assert [line["id"] for line in found.cells()] == ["test_case_0"]


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.csv", "user_input,faithfulness\nq,high\n", "'high' is no score"),
        ("a.csv", "user_input,faithfulness\nq,7\n", "outside 0 to 1"),
        ("a.csv", "user_input,tone\nq,0.5\n", "no score that has a metric"),
        ("a.csv", "question,faithfulness\nq,0.5\n", "not clear whose"),
        ("a.csv", "user_input,faithfulness\n", "holds no rows"),
        ("a.json", "{", "not JSON"),
        ("none.csv", None, "does not exist"),
        ("a.jsonl", '{"record_id": "1", "input": "q", "Groundedness": 1}\n' * 2, "used twice"),
    ],
)
def test_files_that_cannot_be_imported(tmp_path, name, text, part) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises((DataError, UsageError), match=part):
        import_results(tmp_path / name, tmp_path / "run")


def test_an_import_never_takes_the_place_of_a_run(run, tmp_path) -> None:
    export(run, tmp_path / "r.csv", "ragas")
    with pytest.raises(UsageError, match="judgments of its own"):
        import_results(tmp_path / "r.csv", run)


def test_every_name_of_a_tool_leads_to_a_metric() -> None:
    assert {metric for names in NAMES.values() for metric in names.values()} <= METRICS.keys()
    for tool in TOOLS:
        for metric in set(NAMES[tool].values()):
            assert metric_of(tool, name_for(tool, metric)) == metric


def test_export_and_import_on_the_command_line(run, tmp_path, capfd) -> None:
    def code(*arguments: object) -> int:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        return int(ended.value.code)

    assert code("export", run, "-o", tmp_path / "r.csv", "--as", "ragas") == 0
    assert code("import", tmp_path / "r.csv", "-o", tmp_path / "back", "--json") == 0
    assert json.loads(capfd.readouterr().out)["metrics"]["faithfulness"]["mean"] == 0.5
    assert code("export", run, "-o", tmp_path / "r.xlsx") == 2
    assert code("export", run, "-o", tmp_path / "r.csv", "--as", "deepeval") == 2
    assert code("export", tmp_path, "-o", tmp_path / "r.csv") == 2
    (tmp_path / "p.toml").write_text("min_coverage = 0.5\n[metrics.faithfulness]\nblock = 0.4\n")
    assert code("gate", tmp_path / "back", "--policy", tmp_path / "p.toml") == 0
    assert code("compare", run, tmp_path / "back") == 2
    assert code("rescore", tmp_path / "back") == 2
