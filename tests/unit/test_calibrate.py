"""From a run to labels to a calibration and back, with a judge whose errors are known."""

from __future__ import annotations

import csv
import io
import json
import random

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import gpueval
from gpueval.calibration import apply, labels, record
from gpueval.calibration.fit import calibrate
from gpueval.calibration.run import calibrate_run, sample_rows
from gpueval.cli.main import cli
from gpueval.errors import DataError, PrerequisiteError, UsageError
from gpueval.records import Cell, State

N = 240


def is_right(i: int) -> bool:
    return i % 3 != 0


@pytest.fixture
def run(scripted, tmp_path):
    """A run of 240 answers of one claim: the judge calls right ones 0.7 to 0.99 and wrong ones 0.5 to 0.75."""
    noise = random.Random(1)
    p = {f"claim {i}.": 0.7 + 0.29 * noise.random() if is_right(i) else 0.5 + 0.25 * noise.random() for i in range(N)}

    def make(name: str = "judge", folder: str = "run", **settings):
        judge = scripted(name, support=lambda request: p[request.parts[-1].split("\n")[1]])
        samples = [{"id": f"s{i}", "question": "?", "answer": f"claim {i}.", "contexts": ["=Text"]} for i in range(N)]
        return gpueval.evaluate(samples, judge=judge, metrics=["faithfulness"], out=tmp_path / folder, **settings)

    return make


def rows_of(path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def filled(path, n=None) -> None:
    """Label the rows of a file truthfully; from the n-th on leave them open."""
    rows = rows_of(path)
    for row in rows[:n]:
        row["label"] = "1" if is_right(int(row["id"][1:])) else "0"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, labels.COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def calibrated(run, tmp_path):
    result = run()
    sample_rows(result.folder, 150, "faithfulness", "claim", tmp_path / "labels.csv")
    filled(tmp_path / "labels.csv")
    calibrate_run(result.folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "calibration.json")
    return result, tmp_path / "calibration.json"


def test_a_lenient_judge_is_found_out_and_put_right(calibrated) -> None:
    result, path = calibrated
    assert result.metrics["faithfulness"].mean == 1.0
    found = record.read(path).metrics["faithfulness"]
    assert found.untouched["balanced_accuracy"].value == 0.5
    assert found.untouched["kappa"].value == 0.0
    assert found.cross_fitted["balanced_accuracy"].value > 0.85
    assert found.cross_fitted["brier"].value < found.untouched["brier"].value
    assert found.ruling == "may gate"
    assert found.rate["judge"].value == 1.0
    assert found.rate["by_prediction"].low < 2 / 3 < found.rate["by_prediction"].high
    again = gpueval.rescore(result.folder, calibration=path)
    assert again.metrics["faithfulness"].mean == pytest.approx(2 / 3, abs=0.12)
    assert any("may gate" in text for text in again.warnings)
    cell = next(iter(again.cells()))["scores"]["faithfulness"]
    assert cell["claims"][0]["supported"] is False
    assert cell["claims"][0]["p"] < 0.5


def test_a_rescore_keeps_the_runs_calibration_until_told_otherwise(calibrated) -> None:
    result, path = calibrated
    with_it = gpueval.rescore(result.folder, calibration=path).metrics["faithfulness"].mean
    path.unlink()
    assert gpueval.rescore(result.folder).metrics["faithfulness"].mean == with_it
    with pytest.raises(UsageError, match="--no-calibration"):
        sample_rows(result.folder, 5, "faithfulness", "claim", path)
    assert gpueval.rescore(result.folder, calibration=False).metrics["faithfulness"].mean == 1.0
    assert json.loads((result.folder / "run.json").read_text())["calibration"] is None


def test_a_run_takes_a_calibration_from_the_start(calibrated, run) -> None:
    result, path = calibrated
    rescored = gpueval.rescore(result.folder, calibration=path)
    fresh = run(folder="second", calibration=path)
    assert fresh.metrics == rescored.metrics


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"judge": "scripted:other"}, "another judge"),
        ({"prompts_version": "1999"}, "another version of the prompts: 1999, not"),
        ({"claims": "llm"}, "another kind of claims: llm, not sentences"),
    ],
)
def test_a_calibration_of_something_else_is_refused(calibrated, change, told) -> None:
    result, path = calibrated
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(record.read(path), **change)))
    with pytest.raises(UsageError, match=told):
        gpueval.rescore(result.folder, calibration=path)


def test_a_calibration_of_another_metric_is_refused(calibrated) -> None:
    result, path = calibrated
    found = record.read(path)
    path.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(found, metrics={"context_recall": found.metrics["faithfulness"]}))
    )
    with pytest.raises(UsageError, match="is for context_recall; the run scores faithfulness"):
        gpueval.rescore(result.folder, calibration=path)


def test_a_file_that_is_no_calibration_is_named(calibrated, tmp_path) -> None:
    result, _ = calibrated
    (tmp_path / "x.json").write_text('{"format": 1}')
    with pytest.raises(DataError, match=r"x\.json: not a calibration"):
        gpueval.rescore(result.folder, calibration=tmp_path / "x.json")
    with pytest.raises(DataError, match="cannot be read"):
        gpueval.rescore(result.folder, calibration=tmp_path / "none.json")


def test_the_sample_spans_the_scores_and_its_weights_add_up() -> None:
    scores = np.r_[np.full(900, 0.97), np.linspace(0, 0.9, 100)]
    picked = labels.pick(scores.tolist(), 60)
    chosen = scores[[row for row, _ in picked]]
    assert len({row for row, _ in picked}) == 60
    assert sum(weight for _, weight in picked) == pytest.approx(1000)
    assert (chosen < 0.5).sum() >= 25
    assert labels.pick(scores.tolist(), 60) == picked
    assert labels.pick(scores.tolist(), 60, seed=1) != picked
    assert len(labels.pick([0.1, 0.2], 50)) == 2


def test_the_file_shows_what_is_judged_but_not_how_it_was(run, tmp_path) -> None:
    result = run()
    sample_rows(result.folder, 10, "faithfulness", "claim", tmp_path / "labels.csv")
    rows = rows_of(tmp_path / "labels.csv")
    assert len(rows) == 10
    for row in rows:
        assert row["text"] == f"claim {row['id'][1:]}."
        assert row["evidence"] == "'=Text"  # a spreadsheet would run it
        assert row["label"] == ""
        assert set(row) == set(labels.COLUMNS)
    with pytest.raises(PrerequisiteError, match="may hold labels"):
        sample_rows(result.folder, 10, "faithfulness", "claim", tmp_path / "labels.csv")


def test_whole_answers_are_calibrated_on_their_score(run, tmp_path) -> None:
    result = run()
    sample_rows(result.folder, 150, "faithfulness", "answer", tmp_path / "labels.csv")
    filled(tmp_path / "labels.csv")
    calibrate_run(result.folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "c.json")
    cells = [
        line["scores"]["faithfulness"]
        for line in gpueval.rescore(result.folder, calibration=tmp_path / "c.json").cells()
    ]
    passed = [cell["passes"] for cell in cells]
    assert sum(passed[i] == is_right(i) for i in range(N)) > 0.85 * N
    assert all(0 < cell["p_right"] < 1 for cell in cells)
    assert {cell["value"] for cell in cells} == {1.0}


def test_a_cell_without_a_score_stays_as_it_is() -> None:
    one = record.MetricCalibration("answer", 1, 1, 0, 1, "platt", 0.5, {}, {}, {}, "advisory", "")
    assert apply.cell(Cell(None), one) == Cell(None)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,claim\ns0,0\n", r"line 1, field 'label': the column is missing"),
        ("id,claim,label\ns0,0,maybe\n", r"line 2, field 'label': 'maybe' is no label"),
        ("id,claim,label\ns0,x,1\n", r"line 2, field 'claim': 'x' is no number"),
        ("id,claim,label\nnobody,0,1\n", r"line 2, field 'id': claim 0 of sample 'nobody' has no score"),
        ("id,claim,label\ns0,7,1\n", "claim 7 of sample 's0' has no score"),
        ("id,claim,label\ns0,0,1\ns0,0,0\n", r"line 3, field 'id': this row is labelled twice"),
        ("id,claim,label\ns0,0,1\ns1,,0\n", r"line 3, field 'claim': some rows label claims and some whole answers"),
        ("id,claim,label,weight\ns0,0,1,-1\n", r"line 2, field 'weight': '-1' is no positive number"),
        ("id,claim,label,text\ns0,0,1,claim 9.\n", r"line 2, field 'text': the run's claim reads 'claim 0\.'"),
        ("id,claim,label\ns0,0,\n", "no row has a label"),
        ("id,claim,label\ns0,0,1\ns1,0,1\n", "all 2 labels say 'right'; both kinds are needed"),
        ("metric,id,claim,label\nblending,s0,0,1\n", "does not score blending"),
    ],
)
def test_wrong_labels_are_named(run, tmp_path, content, told) -> None:
    result = run()
    (tmp_path / "labels.csv").write_text(content)
    with pytest.raises(UsageError, match=told):
        calibrate_run(result.folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "c.json")
    assert not (tmp_path / "c.json").exists()


def test_labels_from_a_spreadsheet_with_semicolons_words_and_a_mark(run, tmp_path) -> None:
    result = run()
    lines = [f"s{i};0;{'Yes' if is_right(i) else 'NO'};1,5" for i in range(30)]
    (tmp_path / "labels.csv").write_text("\ufeffid;claim;label;weight\r\n" + "\r\n".join(lines) + "\r\n")
    found = calibrate_run(result.folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "c.json")
    one = found.metrics["faithfulness"]
    assert (one.n_right, one.n_wrong) == (20, 10)
    assert one.ruling == "advisory"
    assert "10 of the rarer kind" in one.reason


def test_a_judge_that_guesses_is_not_usable_and_its_calibration_refused(run, tmp_path) -> None:
    result = run()
    noise = random.Random(2)
    lines = [f"s{i},0,{noise.randint(0, 1)}" for i in range(N)]
    (tmp_path / "labels.csv").write_text("id,claim,label\n" + "\n".join(lines))
    one = calibrate_run(result.folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "c.json").metrics[
        "faithfulness"
    ]
    assert one.ruling == "not usable"
    backwards = [f"s{i},0,{int(not is_right(i))}" for i in range(N)]
    (tmp_path / "labels.csv").write_text("id,claim,label\n" + "\n".join(backwards))
    calibrate_run(result.folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "c.json")
    with pytest.raises(UsageError, match="faithfulness cannot be calibrated with this judge: AUC"):
        gpueval.rescore(result.folder, calibration=tmp_path / "c.json")


def test_figures_do_not_depend_on_the_order_of_the_labels(run, tmp_path) -> None:
    every = labels.items(run().folder, "faithfulness", "claim")
    some = [labels.Label(i, is_right(i), 1.0) for i in range(60)]
    first, second = calibrate(every, some, "claim", 0.5), calibrate(every, some[::-1], "claim", 0.5)
    assert first.threshold == pytest.approx(second.threshold)
    assert first.untouched["auc"].value == pytest.approx(second.untouched["auc"].value)


def test_the_command_from_sample_to_table(run, tmp_path) -> None:
    folder = run().folder
    outcome = CliRunner().invoke(cli, ["calibrate", str(folder), "--sample", "150"])
    assert outcome.exit_code == 0
    assert "150 of 240 claims" in outcome.stderr
    filled(folder / "labels.csv", 120)
    outcome = CliRunner().invoke(cli, ["calibrate", str(folder), "--labels", str(folder / "labels.csv")])
    assert outcome.exit_code == 0, outcome.output
    for text in ("120 labelled claims", "Cohen's kappa", "prediction-powered", "may gate: balanced accuracy"):
        assert text in outcome.stdout
    outcome = CliRunner().invoke(cli, ["calibrate", str(folder), "--labels", str(folder / "labels.csv"), "--json"])
    assert json.loads(outcome.stdout)["metrics"]["faithfulness"]["n_labels"] == 120
    outcome = CliRunner().invoke(cli, ["rescore", str(folder), "--calibration", str(folder / "calibration.json")])
    assert outcome.exit_code == 0, outcome.output
    assert "may gate" in outcome.stdout
    assert isinstance(CliRunner().invoke(cli, ["calibrate", str(folder)]).exception, UsageError)


def test_many_labels_of_few_samples_do_not_gate(run) -> None:
    every = labels.items(run().folder, "faithfulness", "claim")
    few = [labels.Item(f"s{i % 4}", i, item.text, item.score) for i, item in enumerate(every)]
    some = [labels.Label(i, is_right(i), 1.0) for i in range(N)]
    assert calibrate(every, some, "claim", 0.5).ruling == "may gate"
    one = calibrate(few, some, "claim", 0.5)
    assert one.ruling == "advisory"
    assert "4 samples; 20 are needed" in one.reason


def test_a_long_context_and_an_id_like_a_formula_come_back_from_the_file(scripted, tmp_path) -> None:
    samples = [{"id": f"=s{i}", "answer": f"claim {i}.", "contexts": ["x" * 200_000]} for i in range(12)]
    folder = gpueval.evaluate(samples, judge=scripted(), metrics=["faithfulness"], out=tmp_path / "r").folder
    sample_rows(folder, 12, "faithfulness", "claim", tmp_path / "labels.csv")
    rows = rows_of(tmp_path / "labels.csv")
    assert all(row["id"].startswith("'=s") and len(row["evidence"]) < 32_767 for row in rows)
    for i, row in enumerate(rows):
        row["label"] = str(i % 2)
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, labels.COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    found = calibrate_run(folder, tmp_path / "labels.csv", "faithfulness", tmp_path / "c.json")
    assert found.metrics["faithfulness"].n_labels == 12


def test_an_answer_with_missing_verdicts_neither_passes_nor_is_labelled() -> None:
    one = record.MetricCalibration("answer", 1, 1, 0, 1, "platt", 0.5, {}, {}, {}, "advisory", "", slope=1.0)
    partial = Cell(0.3, State.PARTIAL, 0.3, 1.0)
    assert apply.cell(partial, one) == partial
    assert apply.cell(Cell(0.9), one).detail["passes"] is True


def test_looking_at_another_metric_keeps_the_runs_calibration(run, calibrated, scripted) -> None:
    result, path = calibrated
    gpueval.rescore(result.folder, calibration=path)
    gpueval.rescore(result.folder, metrics=["exact_match"])
    again = gpueval.rescore(result.folder, metrics=["faithfulness"])
    assert any("may gate" in text for text in again.warnings)
