"""Drawing at random until an interval is narrow enough: order, stopping, what is left out, resume and rescore."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import gpueval
from gpueval.decisions.gate import check, worst
from gpueval.decisions.policy import Policy, Rule
from gpueval.decisions.scored import read_scored
from gpueval.drawing import draw_order
from gpueval.errors import UsageError
from gpueval.records import Sample
from gpueval.run_folder import read_samples, read_summary, write_samples
from gpueval.stats.aggregate import coverage
from gpueval.stats.stopping import needed


def rows(n):
    return [
        {
            "id": f"s{i}",
            "question": f"Q{i}?",
            "answer": f"Fact {i} holds.",
            "reference": f"Fact {i} holds.",
            "contexts": [f"Context {i}."],
            "group": "rare" if i % 10 == 0 else "common",
        }
        for i in range(n)
    ]


def verdict(request):
    """Three claims of four are supported, whatever the order."""
    return 0.0 if sum("".join(request.parts).encode()) % 4 == 0 else 1.0


def test_every_beginning_of_the_order_holds_all_groups_in_proportion(tmp_path) -> None:
    path = tmp_path / "samples.jsonl"
    groups = ["a"] * 700 + ["b"] * 200 + [None] * 100
    write_samples(path, (Sample(id=str(i), group=group) for i, group in enumerate(groups)))
    draw_order(path, seed=3)
    drawn = list(read_samples(path))
    assert sorted(int(sample.id) for sample in drawn) == list(range(1000))
    for n in (10, 50, 300):
        counts = Counter(sample.group for sample in drawn[:n])
        assert all(abs(counts[group] - n * size / 1000) <= 1 for group, size in (("a", 700), ("b", 200), (None, 100)))
    first = [sample.id for sample in drawn]
    write_samples(path, (Sample(id=str(i), group=group) for i, group in enumerate(groups)))
    draw_order(path, seed=4)
    assert [sample.id for sample in read_samples(path)] != first


def test_within_a_group_every_order_is_as_likely(tmp_path) -> None:
    path, firsts = tmp_path / "samples.jsonl", Counter()
    for seed in range(600):
        write_samples(path, (Sample(id=str(i)) for i in range(6)))
        draw_order(path, seed)
        firsts[next(iter(read_samples(path))).id] += 1
    assert all(60 < firsts[str(i)] < 145 for i in range(6))  # 100 expected, 9 is a standard deviation


def test_needed_follows_the_normal_interval() -> None:
    values = np.array([0.0, 1.0] * 500)
    assert needed(values, 0.05) == pytest.approx(1.96**2 * 0.2512 / 0.05**2, abs=2)
    assert needed(np.ones(1000), 0.02) == 100
    assert needed(np.ones(100), 0.01) == pytest.approx(1.96**2 * 0.01 / 0.01**2, abs=1)
    assert needed(np.ones(5), 0.5) == 100


def test_a_run_stops_where_its_interval_is_narrow_enough(tmp_path, scripted) -> None:
    engine = scripted(support=verdict)
    data = rows(4000)
    metrics = ["faithfulness", "context_recall", "exact_match"]
    result = gpueval.evaluate(data, judge=engine, metrics=metrics, out=tmp_path, until_ci=0.05)
    faithful, exact = result.metrics["faithfulness"], result.metrics["exact_match"]
    assert 280 < faithful.n_scored < 450
    assert faithful.n_total == exact.n_scored == 4000
    assert faithful.states["not_sampled"] == 4000 - faithful.n_scored
    assert faithful.ci_high - faithful.ci_low <= 0.1
    assert faithful.ci_low < 0.75 < faithful.ci_high
    assert coverage(faithful) == 1.0
    assert worst(check(Policy({"faithfulness": Rule(block=0.5)}), read_scored(result.folder))) == "pass"
    (remark,) = [text for text in result.warnings if text.startswith("faithfulness:")]
    assert f"± 0.05 after {faithful.n_scored:,} of 4,000 samples drawn at random" in remark
    lines = list(result.cells())
    assert len(lines) == len({line["id"] for line in lines}) == 4000
    assert lines[-1]["scores"]["faithfulness"] == {"value": None, "state": "not_sampled"}
    assert lines[-1]["scores"]["exact_match"]["value"] == 1.0
    assert json.loads((tmp_path / "run.json").read_text())["asked"]["faithfulness"] == faithful.n_scored


def test_the_same_command_and_a_rescore_give_the_same(tmp_path, scripted) -> None:
    engine, data = scripted(support=verdict), rows(1000)
    arguments = {"judge": engine, "metrics": ["faithfulness", "context_recall"], "out": tmp_path, "until_ci": 0.06}
    gpueval.evaluate(data, **arguments)
    scores, asked = (tmp_path / "scores.jsonl").read_bytes(), len(engine.requests)
    gpueval.evaluate(data, **arguments)
    assert (len(engine.requests), (tmp_path / "scores.jsonl").read_bytes()) == (asked, scores)
    gpueval.rescore(tmp_path)
    assert (tmp_path / "scores.jsonl").read_bytes() == scores
    other = gpueval.rescore(tmp_path, metrics=["faithfulness"])
    assert other.metrics["faithfulness"].states["not_sampled"] > 500
    assert read_summary(tmp_path)["metrics"]["faithfulness"].n_total == 1000


def test_too_few_samples_are_all_judged_and_that_is_said(tmp_path, scripted) -> None:
    result = gpueval.evaluate(
        rows(150), judge=scripted(support=verdict), metrics=["faithfulness"], out=tmp_path, until_ci=0.01
    )
    assert result.metrics["faithfulness"].n_scored == 150
    assert "faithfulness: all 150 samples do not give ± 0.01" in result.warnings


def test_a_width_outside_0_to_1_is_refused(tmp_path, scripted) -> None:
    with pytest.raises(UsageError, match="until_ci is 2"):
        gpueval.evaluate(rows(2), judge=scripted(), metrics=["faithfulness"], out=tmp_path, until_ci=2)
