"""A checker before the judge, or alone: who decides what, and what is kept."""

from __future__ import annotations

import json

import pytest

import gpueval
from gpueval.errors import UsageError
from gpueval.records import Completion

P = {"Sure right.": 0.97, "Sure wrong.": 0.02, "Open one.": 0.4, "Other open.": 0.6}


@pytest.fixture
def checker(scripted):
    def check(request):
        p = P[request.parts[0]]
        return Completion(request.key, failure="engine_error") if p is None else p

    return scripted("checker", check=check)


@pytest.fixture
def samples(sample):
    return [sample(id=claim.split()[0] + str(i), answer=claim) for i, claim in enumerate(P)]


def claims_of(result):
    return [line["scores"]["faithfulness"]["claims"][0] for line in result.cells()]


def test_the_judge_sees_only_what_the_checker_is_unsure_of(scripted, checker, samples, tmp_path) -> None:
    judge = scripted(support=lambda request: 0.8 if "Open" in request.parts[-1] else 0.3)
    result = gpueval.evaluate(samples, judge=judge, checker=checker, metrics=["faithfulness"], out=tmp_path)
    assert len(judge.requests) == 2
    found = claims_of(result)
    assert [claim["tier"] for claim in found] == ["checker", "checker", "judge", "judge"]
    assert [claim["p"] for claim in found] == [0.97, 0.02, 0.8, 0.3]
    assert [claim["p_checker"] for claim in found] == [0.97, 0.02, 0.4, 0.6]
    facts = json.loads((tmp_path / "run.json").read_text())
    assert facts["tiers"]["checker"] | {"s": 0} == {"n_checked": 4, "n_settled": 2, "s": 0}
    assert facts["tiers"]["judge"] | {"s": 0} == {"n_verdicts": 2, "s": 0}
    assert facts["checker"]["band"] == [0.1, 0.9]
    assert "Claims checked first: **4** (2 of them settled without the judge" in (tmp_path / "report.md").read_text()


def test_a_rescore_decides_in_the_same_way_without_either(scripted, checker, samples, tmp_path) -> None:
    result = gpueval.evaluate(samples, judge=scripted(), checker=checker, metrics=["faithfulness"], out=tmp_path)
    before = claims_of(result)
    assert claims_of(gpueval.rescore(tmp_path)) == before


def test_a_second_start_asks_nobody_again(scripted, checker, samples, tmp_path) -> None:
    for _ in range(2):
        judge = scripted()
        gpueval.evaluate(samples, judge=judge, checker=checker, metrics=["faithfulness"], out=tmp_path)
    assert judge.requests == []
    assert len(checker.requests) == 4


def test_alone_it_decides_everything(checker, samples, tmp_path) -> None:
    result = gpueval.evaluate(samples, checker=checker, metrics=["faithfulness"], out=tmp_path)
    assert [claim["supported"] for claim in claims_of(result)] == [True, False, False, True]
    assert {claim["tier"] for claim in claims_of(result)} == {"checker"}
    assert claims_of(gpueval.rescore(tmp_path, threshold=0.3))[2]["supported"] is True


def test_alone_it_cannot_do_a_judges_other_work(checker, samples, tmp_path) -> None:
    with pytest.raises(UsageError, match="need a judge"):
        gpueval.evaluate(samples, checker=checker, metrics=["context_relevance"], out=tmp_path)
    with pytest.raises(UsageError, match="need a judge"):
        gpueval.evaluate(samples, checker=checker, metrics=["faithfulness"], out=tmp_path, claims="llm")


def test_a_check_that_fails_falls_to_the_judge_and_alone_is_a_failure(
    scripted, checker, samples, tmp_path, monkeypatch
) -> None:
    monkeypatch.setitem(P, "Sure right.", None)
    judge = scripted(support=0.7)
    result = gpueval.evaluate(samples, judge=judge, checker=checker, metrics=["faithfulness"], out=tmp_path / "both")
    assert (claims_of(result)[0]["p"], claims_of(result)[0].get("tier")) == (0.7, None)
    alone = gpueval.evaluate(samples, checker=checker, metrics=["faithfulness"], out=tmp_path / "alone")
    assert next(iter(alone.cells()))["scores"]["faithfulness"]["state"] == "engine_error"


def test_every_column_of_the_matrix_is_checked_and_shared_requests_are_kept(scripted, sample, tmp_path) -> None:
    checker = scripted("checker", check=lambda request: 0.95 if len(request.parts) > 2 else 0.5)
    judge = scripted()
    asked = sample(answer="One claim.", contexts=["First text.", "Second text."])
    result = gpueval.evaluate([asked], judge=judge, checker=checker, metrics=["faithfulness", "blending"], out=tmp_path)
    assert len(checker.requests) == 3
    assert [r.parts[0].split("\n")[1:-2] for r in judge.requests] == [["First text."], ["Second text."]]  # not both
    assert result.metrics["blending"].mean == 0.0


@pytest.mark.parametrize("band", [(0.9, 0.1), (-0.1, 0.5), (0.5, 1.2)])
def test_a_band_must_rise_within_0_to_1(checker, samples, tmp_path, band) -> None:
    with pytest.raises(UsageError, match="checker_band"):
        gpueval.evaluate(samples, checker=checker, metrics=["faithfulness"], out=tmp_path, checker_band=band)


def test_a_calibration_knows_the_tiers_and_measures_each(scripted, sample, tmp_path) -> None:
    right = {i: i % 2 == 0 for i in range(120)}
    checker = scripted("checker", check=lambda r: 0.6 if right[int(r.parts[0].split()[1][:-1])] else 0.4)
    judge = scripted(support=0.55)
    asked = [sample(id=str(i), answer=f"Number {i}.") for i in right]
    run = gpueval.evaluate(asked, judge=judge, checker=checker, metrics=["faithfulness"], out=tmp_path / "run")
    lines = "\n".join(f"{i},0,{int(right[i])}" for i in right)
    (tmp_path / "labels.csv").write_text(f"id,claim,label\n{lines}\n")
    from gpueval.calibration.run import calibrate_run

    path = tmp_path / "c.json"
    one = calibrate_run(run.folder, tmp_path / "labels.csv", "faithfulness", path).metrics["faithfulness"]
    assert one.tiers["checker"]["auc"].value == 1.0
    assert one.tiers["final"]["auc"].value == 0.5
    without = gpueval.evaluate(asked, judge=judge, metrics=["faithfulness"], out=tmp_path / "other")
    with pytest.raises(UsageError, match="another checker"):
        gpueval.rescore(without.folder, calibration=path)


def test_a_live_run_with_checker_and_judge_takes_the_calibration_of_one(scripted, checker, samples, tmp_path) -> None:
    run = gpueval.evaluate(samples, judge=scripted(), checker=checker, metrics=["faithfulness"], out=tmp_path / "one")
    ids = [sample.id for sample in samples]
    lines = "\n".join(f"{name},0,{i % 2}" for i, name in enumerate(ids))
    (tmp_path / "labels.csv").write_text(f"id,claim,label\n{lines}\n")
    path = tmp_path / "c.json"
    gpueval.calibrate(run.folder, tmp_path / "labels.csv", out=path)
    record = json.loads(path.read_text())
    record["metrics"]["faithfulness"]["slope"] = 1.0
    path.write_text(json.dumps(record))
    live = {"judge": scripted(), "checker": checker, "metrics": ["faithfulness"], "calibration": path}
    assert gpueval.evaluate(samples, out=tmp_path / "two", **live).warnings
