"""Reports without a browser: what is found, packed, told in words, drawn, and refused."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

import gpueval
from gpueval.cli.main import main
from gpueval.diagnosis.causes import CAUSES
from gpueval.metrics import METRICS
from gpueval.records import Completion, State
from gpueval.report.page.packing import pack, pack_rows, short
from gpueval.report.page.samples import embed
from gpueval.report.words import METRIC_WORDS, STATE_WORDS
from gpueval.retrieval.depths import by_depth, names

ROWS = [
    {"id": "good", "question": "Q1?", "answer": "It is red.", "contexts": ["It is red."], "group": "<b>&"},
    {"id": "bad", "question": "Q2?", "answer": "It is wrong.", "contexts": ["It is red."], "group": "<b>&"},
    {"id": "lost", "question": "Q3?", "answer": "It is lost.", "contexts": ["It is red."], "group": "other"},
]


@pytest.fixture
def run(tmp_path, scripted):
    def support(request):
        if "lost" in request.parts[-1]:
            return Completion(request.key, failure=State.CONTEXT_OVERFLOW, message="too long")
        return 0.1 if "wrong" in request.parts[-1] else 0.9

    gpueval.evaluate(ROWS, judge=scripted(support=support), metrics=["faithfulness"], out=tmp_path / "run")
    return tmp_path / "run"


def unpacked(text: str):
    return json.loads(gzip.decompress(base64.b64decode(text)))


def embedded(page: str, name: str):
    return unpacked(re.search(rf'id="{name}">([^<]+)<', page)[1])


def keys(mask: int) -> set[str]:
    return {finding.key for k, finding in enumerate(CAUSES) if mask >> k & 1}


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_every_metric_and_state_is_told_in_words() -> None:
    assert METRIC_WORDS.keys() == METRICS.keys()
    assert STATE_WORDS.keys() == set(State)


def test_packing_keeps_rows_in_blocks_and_says_where_each_begins() -> None:
    rows = [{"n": n, "text": "x" * 100_000} for n in range(7)]
    blocks, starts = pack_rows(iter(rows))
    assert [unpacked(block)[0]["n"] for block in blocks] == starts
    assert [row for block in blocks for row in unpacked(block)] == rows
    assert len(blocks) == 4
    assert pack_rows([]) == ([], [])
    assert unpacked(pack({"a": "ü</script>"})) == {"a": "ü</script>"}
    assert short({"p": 0.123456, "n": 3, "l": [0.99999, None, "0.123456"]}) == {
        "p": 0.1235,
        "n": 3,
        "l": [1.0, None, "0.123456"],
    }


def test_a_run_leaves_a_page_with_every_sample(run) -> None:
    page = (run / "report.html").read_text()
    index = embedded(page, "index")
    assert index["ids"] == ["good", "bad", "lost"]
    assert index["values"] == [[[1.0, 0.0, None]]]
    assert [index["states"][k]["name"] for k in index["state"][0][0]] == ["ok", "ok", "context_overflow"]
    assert [keys(mask) for mask in index["masks"]] == [set(), {"unsupported"}, {"failed"}]
    (first, *_) = embedded(page, "block-0")
    assert first["question"] == "Q1?"
    assert first["sides"][0]["contexts"] == [[None, None, "It is red."]]
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    told = (run / "report.md").read_text()
    assert "- 1 x Claims without support" in told
    assert "Calibration: **none**" in told


def test_a_large_run_shows_what_has_findings_first(run) -> None:
    held = embed([run], ["faithfulness"], most=2)
    assert held.index["ids"] == ["bad", "lost"]
    assert held.n_total == 3
    assert held.counts["unsupported"] == 1
    assert sum(held.spread[0]) == sum(embed([run], ["faithfulness"]).spread[0]) == 2  # of the whole run
    assert embed([run], ["faithfulness"], most=1).index["ids"] == ["bad"]


def test_report_writes_page_markdown_and_plots_with_the_gate(run, tmp_path, capsys) -> None:
    (run / "report.html").unlink()
    assert (
        call(
            "report",
            str(run),
            "--policy",
            "standard",
            "--markdown",
            str(tmp_path / "new" / "r.md"),
            "--plots",
            str(tmp_path / "plots"),
        )
        == 0
    )
    made = capsys.readouterr().out.split()
    assert [Path(name).name for name in made] == ["report.html", "r.md", "metrics.png", "spread.png", "groups.png"]
    assert all(Path(name).stat().st_size > 500 for name in made)
    assert "blocked" in (run / "report.html").read_text()
    assert "gpueval gate: blocked" in (tmp_path / "new" / "r.md").read_text()


def test_compare_writes_a_page_and_plots(run, tmp_path, scripted, capsys) -> None:
    gpueval.evaluate(ROWS, judge=scripted(support=0.9), metrics=["faithfulness"], out=tmp_path / "after")
    page = tmp_path / "c.html"
    names = [str(run), str(tmp_path / "after")]
    assert call("compare", *names, "--html", str(page), "--plots", str(tmp_path / "p"), "--json") == 0
    json.loads(capsys.readouterr().out)
    index = embedded(page.read_text(), "index")
    assert index["names"] == ["run", "after"]
    assert index["values"] == [[[1.0, 0.0, None]], [[1.0, 1.0, 1.0]]]
    assert [index["findings"][k]["title"] for k in (0, 1)] == ["faithfulness turned bad", "faithfulness turned good"]
    assert index["masks"] == [0, 2, 0]
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"differences.png", "pairs.png"}
    assert call("compare", *names, names[0], "--html", str(page)) == 2
    assert "one other run" in capsys.readouterr().err


def test_a_sample_that_the_other_run_lacks_has_one_side(run, tmp_path, scripted) -> None:
    gpueval.evaluate(ROWS[1:], judge=scripted(support=0.9), metrics=["faithfulness"], out=tmp_path / "after")
    assert call("compare", str(run), str(tmp_path / "after"), "--anyway", "--html", str(tmp_path / "c.html")) == 0
    page = (tmp_path / "c.html").read_text()
    assert embedded(page, "block-0")[0]["sides"][1] is None
    assert embedded(page, "index")["state"][1][0][0] == -1


def test_rank_writes_a_page(tmp_path, capsys) -> None:
    line = {"id": "q<1>", "retrieved_ids": ["a", "b"], "relevant_ids": ["b"]}
    (tmp_path / "r.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line | {"id": "q2"}) + "\n")
    (tmp_path / "other.jsonl").write_text(json.dumps(line | {"retrieved_ids": ["b", "a"]}) + "\n")
    assert (
        call(
            "rank",
            str(tmp_path / "r.jsonl"),
            "--compare",
            str(tmp_path / "other.jsonl"),
            "--html",
            str(tmp_path / "rank.html"),
        )
        == 0
    )
    page = (tmp_path / "rank.html").read_text()
    assert "q&lt;1&gt;" in page
    assert "Recall by depth" in page
    assert "other.jsonl" in page


def test_depths_end_where_the_list_ends() -> None:
    assert names(5) == ["recall@1", "recall@2", "recall@3", "recall@5", "ndcg@1", "ndcg@2", "ndcg@3", "ndcg@5"]
    assert names(7)[-1] == "ndcg@7"
    assert by_depth({"recall@1": 0.2, "recall@10": 0.4}) == {"recall": {1: 0.2, 10: 0.4}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "not a run folder"),
        (["RUN", "--html", "/proc/nowhere/r.html"], "cannot be written"),
        (["RUN", "--baseline", "RUN"], "max_loss"),
        (["RUN", "--policy", "nothing.toml"], "nothing.toml"),
    ],
)
def test_report_says_what_is_wrong(run, capsys, arguments, says) -> None:
    assert call("report", *(str(run) if one == "RUN" else one for one in arguments)) == 2
    assert says in capsys.readouterr().err
