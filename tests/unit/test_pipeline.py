"""Run folders: resume, rescore, honesty of the summary, locks, and what must never touch the network."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import gpueval
from gpueval.errors import EngineDied, EngineError, UsageError
from gpueval.judge.store import Store
from gpueval.records import Completion
from gpueval.run_folder import read_summary

ROWS = [
    {
        "id": str(i),
        "question": f"Q{i}?",
        "answer": f"Fact {i}. More {i}.",
        "contexts": [f"Context {i}."],
        "reference": f"R {i}.",
    }
    for i in range(30)
]
ALL = ["faithfulness", "answer_relevancy", "context_precision", "context_recall", "answer_correctness"]


def by_text(request):
    """A verdict that depends on the text only, the same in every order."""
    return (sum("".join(request.parts).encode()) % 100) / 100


@pytest.fixture
def run(tmp_path, scripted):
    def go(engine=None, rows=ROWS, out="run", **settings):
        engine = engine or scripted(support=by_text, useful=by_text)
        result = gpueval.evaluate(
            rows, judge=engine, embedder=engine, out=tmp_path / out, **{"metrics": ALL} | settings
        )
        return result, engine

    return go


def scores(result):
    return (result.folder / "scores.jsonl").read_bytes()


def test_a_second_run_asks_nothing_and_gives_the_same(run) -> None:
    first, engine = run()
    n = len(engine.requests)
    second, engine = run()
    assert n > 100
    assert len(engine.requests) == 0
    assert scores(first) == scores(second)


@pytest.mark.parametrize("dies_after", [0, 1, 57, 150])
def test_a_run_that_breaks_anywhere_goes_on_where_it_stopped(run, scripted, dies_after) -> None:
    whole, engine = run(out="whole")
    n_all = len(engine.requests)
    answered = []

    def breaking(request):
        if len(answered) == dies_after:
            raise EngineError("the power went")
        answered.append(request.key)
        return by_text(request)

    broken = scripted(support=breaking, useful=breaking)
    with pytest.raises(EngineError):
        run(broken, out="broken")
    resumed, engine = run(out="broken")
    assert len(engine.requests) <= n_all - len(answered)
    assert scores(resumed) == scores(whole)


def test_an_engine_that_the_caller_started_is_not_closed(run, scripted) -> None:
    engine = scripted()
    engine.close = lambda: pytest.fail("closed")
    run(engine, rows=ROWS[:1])


def test_small_windows_give_the_same_scores(run) -> None:
    assert scores(run(out="a")[0]) == scores(run(out="b", window_samples=7)[0])


def test_identical_requests_are_asked_once_across_windows(run, scripted) -> None:
    rows = [ROWS[0] | {"id": str(i)} for i in range(20)]
    _, engine = run(rows=rows, window_samples=3)
    assert len(engine.requests) == len({request.key for request in engine.requests})


def test_rescore_needs_no_engine_and_follows_the_threshold(run, no_network) -> None:
    result, _ = run()
    before = scores(result)
    gpueval.rescore(result.folder)
    assert scores(result) == before
    strict = gpueval.rescore(result.folder, threshold=0.99)
    assert strict.metrics["faithfulness"].mean == 0.0
    assert gpueval.rescore(result.folder, threshold=0.5).metrics["faithfulness"] == result.metrics["faithfulness"]


def test_rescore_lays_out_long_contexts_as_the_run_did(tmp_path, scripted) -> None:
    text = " ".join(f"Sentence {i} is here." for i in range(300))
    engine = scripted(max_prompt_tokens=300, support=by_text)
    rows = [ROWS[0] | {"contexts": [text]}]
    result = gpueval.evaluate(rows, judge=engine, metrics=["faithfulness"], out=tmp_path / "run")
    before = scores(result)
    assert result.metrics["faithfulness"].states == {"ok": 1}
    gpueval.rescore(result.folder)
    assert scores(result) == before


def test_rescore_refuses_a_metric_that_was_not_judged(run) -> None:
    result, _ = run(metrics=["faithfulness"])
    with pytest.raises(UsageError, match="context_recall needs judgments"):
        gpueval.rescore(result.folder, metrics=["context_recall"])


def test_two_judges_in_one_folder_never_share_replies(run, scripted) -> None:
    yes, _ = run(scripted("yes-judge", support=0.9), metrics=["faithfulness"])
    no, engine = run(scripted("no-judge", support=0.1), metrics=["faithfulness"])
    assert (yes.metrics["faithfulness"].mean, no.metrics["faithfulness"].mean) == (1.0, 0.0)
    assert engine.requests


def test_failures_leave_neither_the_count_nor_the_bounds(run, scripted) -> None:
    def support(request):
        bad = any(f"Context {i}." in request.parts[0] for i in range(5))
        return Completion(request.key, failure="timeout") if bad else 0.9

    result, _ = run(scripted(support=support), rows=ROWS[:10], metrics=["faithfulness"])
    summary = result.metrics["faithfulness"]
    # Five of ten judged, all supported: mean 1 over 5 of 10, between 5/10 and 10/10 with the failures.
    assert (summary.mean, summary.n_scored, summary.n_total) == (1.0, 5, 10)
    assert (summary.lower_bound, summary.upper_bound) == (0.5, 1.0)
    assert summary.states == {"ok": 5, "timeout": 5}
    assert any("5 of 10 samples could not be judged" in text for text in result.warnings)


def test_a_transient_failure_is_asked_again_by_the_next_run_a_killer_is_not(run, scripted) -> None:
    for fatal, asked in ((False, True), (True, False)):
        out = f"fatal-{fatal}"
        engine = scripted(support=lambda r, f=fatal: Completion(r.key, failure="engine_error", fatal=f))
        run(engine, rows=ROWS[:1], metrics=["faithfulness"], out=out)
        _, again = run(scripted(), rows=ROWS[:1], metrics=["faithfulness"], out=out)
        assert bool(again.requests) is asked


def test_results_hold_no_nan_and_constant_columns_are_remarked(run, scripted) -> None:
    result, _ = run(scripted(), metrics=["faithfulness"])
    json.loads((result.folder / "summary.json").read_bytes(), parse_constant=lambda name: pytest.fail(name))
    assert any("same value" in text for text in result.warnings)
    assert read_summary(result.folder)["metrics"]["faithfulness"] == result.metrics["faithfulness"]


def test_groups_are_summed_up_apart(run, scripted) -> None:
    rows = [row | {"group": "even" if i % 2 == 0 else "odd"} for i, row in enumerate(ROWS)]
    result, _ = run(rows=rows, metrics=["faithfulness"])
    assert {group: columns["faithfulness"].n_total for group, columns in result.groups.items()} == {
        "even": 15,
        "odd": 15,
    }


def test_result_as_a_data_frame(run) -> None:
    pytest.importorskip("pandas", reason="a data frame as input needs pandas")
    frame = run(rows=ROWS[:3], metrics=["faithfulness"])[0].to_pandas()
    assert list(frame.columns) == ["id", "faithfulness", "faithfulness_state"]
    assert set(frame["faithfulness_state"]) == {"ok"}


def test_a_second_process_in_the_folder_is_refused(tmp_path, run) -> None:
    result, _ = run(metrics=["exact_match"])
    import fcntl

    with (result.folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="Another process"):
            run(metrics=["exact_match"])


def test_a_damaged_store_is_named_and_nothing_is_judged_blindly(tmp_path, run) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "judgments.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(UsageError, match=r"judgments\.sqlite"):
        run()


def test_a_store_cut_short_by_a_crash_opens_again(tmp_path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put(Completion(b"a" * 16, labels=(0.5, 0.5, 0.0)), "support")
    writer = f"""
import os, sys
from pathlib import Path
from gpueval.judge.store import Store
from gpueval.records import Completion
store = Store(Path({str(path)!r}))
store.put(Completion(b"b" * 16, labels=(0.5, 0.5, 0.0)), "support")
store.commit()
store.put(Completion(b"c" * 16, labels=(0.5, 0.5, 0.0)), "support")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", writer], check=False)
    with Store(path) as store:
        assert set(store.get([b"a" * 16, b"b" * 16, b"c" * 16])) == {b"a" * 16, b"b" * 16}


def test_no_judge_no_embedder_no_data_are_clear(tmp_path, scripted) -> None:
    with pytest.raises(UsageError, match="need a judge"):
        gpueval.evaluate(ROWS, metrics=["faithfulness"], out=tmp_path / "a")
    with pytest.raises(UsageError, match="embedding model"):
        gpueval.evaluate(ROWS, judge=scripted(), metrics=["semantic_similarity"], out=tmp_path / "b")
    with pytest.raises(UsageError, match="no samples"):
        gpueval.evaluate([], metrics=["exact_match"], out=tmp_path / "c")
    with pytest.raises(UsageError, match="Unknown metric 'faith'"):
        gpueval.evaluate(ROWS, metrics=["faith"], out=tmp_path / "d")


def test_metrics_without_a_judge_start_no_engine(tmp_path, no_network) -> None:
    result = gpueval.evaluate(ROWS, metrics=["exact_match", "token_f1"], out=tmp_path / "run")
    assert result.metrics["token_f1"].n_scored == 30


def test_engine_that_cannot_be_kept_alive_leaves_what_it_answered(tmp_path, scripted) -> None:
    def support(request):
        if "Context 5." in request.parts[0]:
            raise EngineDied("gone")
        return 0.9

    with pytest.raises(EngineDied):
        gpueval.evaluate(ROWS, judge=scripted(support=support), metrics=["faithfulness"], out=tmp_path / "run")
    with Store(tmp_path / "run" / "judgments.sqlite") as store:
        assert store.counts() == {"support": (10, 0)}


def test_texts_that_the_embedder_cuts_are_reported(run, scripted) -> None:
    engine = scripted(support=by_text, useful=by_text)
    facts = engine.facts()
    engine.facts = lambda: facts | {"n_truncated": 7}
    result, _ = run(engine)
    assert any("7 texts were longer than the embedding model reads" in text for text in result.warnings)
