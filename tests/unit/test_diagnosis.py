"""Diagnosis: causes by their rules, kinds and clusters of failing claims, what changed between two runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gpueval
from gpueval.cli.main import main
from gpueval.diagnosis.causes import CAUSES, causes_of
from gpueval.diagnosis.changes import Change, change_of, changes
from gpueval.diagnosis.clusters import find_clusters
from gpueval.diagnosis.diagnose import FailingClaim, diagnose
from gpueval.diagnosis.failures import Failure, kind_of, says_it_all
from gpueval.metrics import METRICS
from gpueval.records import Passage, Sample


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def keys(mask: int) -> set[str]:
    return {cause.key for k, cause in enumerate(CAUSES) if mask >> k & 1}


def cell(value, state="ok", **more):
    return {"value": value, "state": state} | more


def claims(*supported, evidence=None):
    return [{"text": "It is red.", "supported": one, "evidence": evidence} for one in supported]


DENIED = {
    "text": "The parcel weighs 3 kg.",
    "supported": False,
    "sentence": "In all the parcel weighs 3 kg.",
}
LOST = {"cut", "overruled", "failed"}
HIT = {"relevant_ids": ("a",), "contexts": (Passage("x", id="b"), Passage("y", id="a"))}
MISS = {"relevant_ids": ("z",), "contexts": (Passage("x", id="b"), Passage("y", id="a"))}
LOW = {"relevant_ids": ("a",), "contexts": (Passage("x", id="b"), Passage("y", id="c"), Passage("z", source="a"))}


@pytest.mark.parametrize(
    ("fields", "scores", "expected"),
    [
        ({}, {"faithfulness": cell(1.0, claims=claims(True))}, set()),
        ({}, {"faithfulness": cell(0.5, claims=claims(True, False))}, {"unsupported"}),
        ({}, {"faithfulness": cell(0.5, claims=[DENIED])}, {"overruled"}),
        ({}, {"faithfulness": cell(1.0, "partial", claims=claims(None))}, {"failed"}),
        ({}, {"blending": cell(0.5)}, {"blended"}),
        ({}, {"answer_relevancy": cell(0.0, evasive=True)}, {"evasive"}),
        ({}, {"faithfulness": cell(None, "abstained")}, {"declined"}),
        ({"answerable": False}, {"faithfulness": cell(1.0, "abstained")}, set()),
        ({}, {"context_recall": cell(None, "abstained")}, set()),
        ({}, {"faithfulness": cell(1.0), "answer_correctness": cell(0.2)}, {"wrong"}),
        ({}, {"faithfulness": cell(0.2), "answer_correctness": cell(0.2)}, set()),
        ({}, {"faithfulness": cell(None, "timeout")}, {"failed"}),
        (
            {},
            {
                "faithfulness": cell(0.5, claims=claims(True, False)),
                "answer_correctness": cell(0.9, claims=claims(True)),
                "context_recall": cell(1.0, claims=claims(True)),
            },
            {"overruled"},
        ),
        (
            {},
            {
                "faithfulness": cell(0.5, claims=claims(True, False)),
                "answer_correctness": cell(0.9, claims=claims(True)),
                "context_recall": cell(0.5, claims=claims(True, False)),
            },
            {"unsupported"},
        ),
        # what was retrieved
        ({}, {"context_recall": cell(0.2)}, {"missed"}),
        ({}, {"context_precision": cell(0.0)}, {"missed"}),
        ({"answerable": False}, {"context_precision": cell(0.0)}, set()),
        ({"relevant_ids": ("a",), "retrieved_ids": ("b",)}, {"context_recall": cell(1.0)}, {"missed"}),
        (MISS, {}, {"missed"}),
        (HIT, {}, set()),
        (LOW, {}, {"ranked"}),
        ({"relevant_ids": ("a",), "contexts": (Passage("x"),)}, {}, set()),
        ({}, {"context_precision": cell(0.3, useful=[False, False, True])}, {"ranked"}),
        ({}, {"context_precision": cell(0.5, useful=[False, True, False])}, set()),
        # what the documents say
        ({"relevant_ids": ("a",), "retrieved_ids": ("a", "b")}, {"context_recall": cell(0.0)}, {"cut"}),
        (HIT, {"context_recall": cell(0.0)}, {"cut"}),
        (HIT | {"answerable": False}, {"context_recall": cell(0.0)}, set()),
        (
            HIT,
            {"context_recall": cell(0.0), "faithfulness": cell(1.0), "answer_correctness": cell(0.1)},
            {"stale"},
        ),
        # a fact that stands there word by word, or in a right answer, was not cut
        (HIT, {"context_recall": cell(0.0, claims=[DENIED])}, {"overruled"}),
        ({}, {"context_recall": cell(0.0, claims=[DENIED])}, {"overruled"}),
        (HIT, {"context_recall": cell(0.0, claims=[DENIED, *claims(False, False)])}, {"cut", "overruled"}),
        (HIT, {"context_recall": cell(0.0, "partial", claims=[DENIED, *claims(None, None)])}, LOST),
        (HIT, {"context_recall": cell(0.0), "answer_correctness": cell(0.9)}, set()),
        (
            HIT,
            {
                "context_recall": cell(0.0, claims=[DENIED]),
                "faithfulness": cell(0.5, claims=claims(True, False)),
                "answer_correctness": cell(0.9),
            },
            {"overruled", "unsupported"},
        ),
        # an answer that had nothing to go by is put down to retrieval
        (MISS, {"faithfulness": cell(0.0, claims=claims(False))}, {"missed"}),
        (HIT, {"context_recall": cell(0.0), "faithfulness": cell(0.0, claims=claims(False))}, {"cut"}),
        (MISS, {"answer_relevancy": cell(0.0, evasive=True)}, {"missed"}),
        (MISS, {"faithfulness": cell(None, "abstained")}, {"missed"}),
        # an answer that follows an irrelevant document
        (
            HIT,
            {"faithfulness": cell(1.0, claims=claims(True, evidence="b")), "answer_correctness": cell(0.1)},
            {"noise"},
        ),
        (
            HIT,
            {"faithfulness": cell(1.0, claims=claims(True, evidence="a")), "answer_correctness": cell(0.1)},
            {"wrong"},
        ),
        ({}, {"noise_sensitivity_irrelevant": cell(0.5)}, {"noise"}),
    ],
)
def test_a_cause_holds_by_its_rule(fields, scores, expected) -> None:
    assert keys(causes_of(Sample(id="x", **fields), {"id": "x", "scores": scores})) == expected


def test_flags_of_the_run_are_causes() -> None:
    line = {"id": "x", "scores": {}, "unstable": ["faithfulness"], "suspicious": ["answer"]}
    assert keys(causes_of(Sample(id="x"), line)) == {"unstable", "suspicious"}


def test_a_judge_that_denies_what_a_sentence_says_is_doubted() -> None:
    row = {
        "text": "The parcel weighs 3 kg.",
        "supported": False,
        "sentence": "In all the parcel weighs 3 kg, not more.",
    }
    line = {"id": "x", "scores": {"context_recall": cell(0.6, claims=[row])}}
    assert keys(causes_of(Sample(id="x"), line)) == set()  # "not" stands in one of them only
    row["sentence"] = "In all the parcel weighs 3 kg."
    assert keys(causes_of(Sample(id="x"), line)) == {"overruled"}
    assert not says_it_all("3 kg", "It weighs 3 kg.")


def test_every_cause_is_told_in_full() -> None:
    assert len({cause.key for cause in CAUSES}) == len(CAUSES) <= 31
    for cause in CAUSES:
        assert cause.words.endswith(".")
        assert cause.try_next.endswith(".")
        assert cause.confirm.endswith(".")
        assert not cause.metric or cause.metric in METRICS


@pytest.mark.parametrize(
    ("claim", "sentence", "kind"),
    [
        ("The parcel weighs 40 grams.", "The parcel weighs 35 grams.", Failure.NUMBER),
        ("The bridge was opened in 1931.", "The bridge was opened in 1913.", Failure.DATE),
        ("The shop opens in March.", "The shop opens in May.", Failure.DATE),
        ("The bridge was designed by Ida Moen.", "The bridge was designed by Karl Rask.", Failure.NAME),
        ("The museum does not open on Mondays.", "The museum opens on Mondays.", Failure.NEGATION),
        ("Das Museum öffnet nicht am Montag.", "Das Museum öffnet am Montag.", Failure.NEGATION),
        ("The tent weighs two kilos and is waterproof.", "The tent weighs two kilos.", Failure.ADDED),
        ("Customers praise its design.", "The kettle holds one litre.", Failure.UNRELATED),
        ("Customers praise its design.", None, Failure.UNRELATED),
        ("Anna visited Bern.", "Bern visited Anna.", Failure.SAME),
        ("", "", Failure.UNRELATED),
    ],
)
def test_a_failing_claim_has_a_kind(claim, sentence, kind) -> None:
    assert kind_of(claim, sentence) == kind
    assert kind_of(claim, sentence, blended=True) == Failure.MIXED


ROWS = [
    {
        "id": f"s{n}",
        "question": f"What is number {n}?",
        "answer": f"It is wrong {n}." if n < 6 else f"It is red {n}.",
        "contexts": [{"text": f"It is red {n}.", "id": f"d{n}"}, {"text": "Another.", "id": "e"}],
        "reference": f"It is red {n}.",
        "group": "a" if n < 8 else "b",
    }
    for n in range(20)
]


def verdict(request):
    return 0.1 if "wrong" in request.parts[-1] else 0.9


def run(folder, rows, scripted, **answers):
    judge = scripted(**({"support": verdict} | answers))
    gpueval.evaluate(rows, judge=judge, metrics=["faithfulness", "context_recall"], out=folder)
    return folder


def test_a_run_is_diagnosed(tmp_path, scripted) -> None:
    found = diagnose(run(tmp_path / "run", ROWS, scripted))
    assert (found.n_samples, found.n_troubled) == (20, 6)
    (one,) = found.findings
    assert one.cause == "unsupported"
    assert one.named
    assert one.samples.n == 6
    assert one.samples.low < 0.3 < one.samples.high
    assert one.clearest == ("s0", "s1", "s2", "s3", "s4")
    assert one.groups["a"].n == 6
    assert one.standing_out == ("a",)
    assert [finding.cause for finding in found.main()] == ["unsupported"]
    assert found.kinds == {Failure.ADDED: 6}
    assert found.unseen["blended"] == "blending"
    assert "missed" not in found.unseen
    assert found.unseen["cut"] == "relevant_ids"


def test_few_samples_name_no_cause(tmp_path, scripted) -> None:
    found = diagnose(run(tmp_path / "run", [*ROWS[5:], ROWS[0] | {"id": "again"}], scripted))
    assert found.findings[0].samples.n == 2
    assert not found.findings[0].named
    assert found.main() == ()
    assert diagnose(tmp_path / "run", named_from=0.01).main()


def test_a_judge_that_hardly_follows_is_said_to(tmp_path, scripted) -> None:
    from gpueval.records import Completion

    folder = run(
        tmp_path / "run", ROWS, scripted, support=lambda request: Completion(request.key, labels=(0.3, 0.2, 0.0))
    )
    assert "hardly follows" in diagnose(folder).judge[0]


def test_diagnose_prints_what_to_try(tmp_path, scripted, capsys) -> None:
    folder = run(tmp_path / "run", ROWS, scripted)
    assert call("diagnose", str(folder)) == 0
    told = capsys.readouterr().out
    assert "6 of 20 samples show a cause outside the judge. Most frequent: Claims without support (6)." in told
    assert "try next:" in told
    assert "stands out: a 75% (all: 30%)" in told
    assert "added detail" in told
    assert call("diagnose", str(folder), "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body == json.loads((folder / "diagnosis.json").read_text())
    assert body["main"] == ["unsupported"]
    assert call("diagnose", str(tmp_path)) == 2


PAGE = "One two three four five. The kettle holds 2 litres. Six seven eight nine ten."


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ({}, {}, Change.NOTHING),
        ({}, {"answer": "Other."}, Change.GENERATION),
        ({"reference": "r"}, {"reference": "s"}, Change.QUESTION),
        (
            {"contexts": (Passage("a"), Passage("b"))},
            {"contexts": (Passage("b"), Passage("a")), "answer": "Other."},
            Change.ORDER,
        ),
        ({"contexts": (Passage(PAGE),)}, {"contexts": (Passage("Something else altogether."),)}, Change.RETRIEVAL),
        ({"contexts": (Passage(PAGE),)}, {"contexts": ()}, Change.RETRIEVAL),
        ({"contexts": (Passage(PAGE),)}, {"contexts": (Passage(PAGE.replace("2", "3")),)}, Change.DOCUMENTS),
        (
            {"contexts": (Passage(PAGE, id="a"),)},
            {"contexts": (Passage(PAGE.replace("2", "3"), id="a"),)},
            Change.DOCUMENTS,
        ),
        # the same words under another id are another document: products look alike
        (
            {"contexts": (Passage(PAGE, id="a"),)},
            {"contexts": (Passage(PAGE.replace("2", "3"), id="b"),)},
            Change.RETRIEVAL,
        ),
        (
            {"contexts": (Passage(PAGE, id="a#0", source="a"),)},
            {"contexts": (Passage(PAGE[:40], id="a#3", source="a"),)},
            Change.CHUNKS,
        ),
        ({"contexts": (Passage(PAGE),)}, {"contexts": (Passage("ten. " + PAGE[5:40]),)}, Change.CHUNKS),
    ],
)
def test_what_changed_in_a_sample(before, after, kind) -> None:
    assert change_of(Sample(id="x", **before), Sample(id="x", **after)) == kind


def test_what_changed_adds_up(tmp_path, scripted) -> None:
    base = run(tmp_path / "before", ROWS, scripted)
    rows = [dict(row) for row in ROWS]
    for row in rows[10:16]:
        row["answer"] = "It is wrong."
    for row in rows[16:18]:
        row["contexts"] = [{"text": "Elsewhere.", "id": "f"}]
        row["answer"] = "It is wrong."
    other = run(tmp_path / "after", rows, scripted)
    found = changes(base, other)
    assert found.counts == {Change.RETRIEVAL: 2, Change.GENERATION: 6, Change.NOTHING: 12}
    assert found.examples[Change.RETRIEVAL] == ("s16", "s17")
    parts = found.parts["faithfulness"]
    assert parts[Change.GENERATION].difference == pytest.approx(-0.3)
    assert sum(part.difference for part in parts.values()) == pytest.approx(found.metrics["faithfulness"].difference)
    assert parts[Change.NOTHING].difference == 0
    assert found.risen() == ("unsupported",)
    assert found.causes["unsupported"].before == 6
    assert found.judged_otherwise == ()


def test_another_judge_shows_where_nothing_else_changed(tmp_path, scripted, capsys) -> None:
    base = run(tmp_path / "before", ROWS, scripted)
    other = tmp_path / "after"
    judge = scripted("strict", support=0.1)
    gpueval.evaluate(ROWS, judge=judge, metrics=["faithfulness"], out=other)
    found = changes(base, other)
    assert found.judged_otherwise == ("another judge",)
    assert found.parts["faithfulness"][Change.NOTHING].difference == pytest.approx(-0.7)
    assert call("diagnose", str(other), "--against", str(base)) == 0
    told = capsys.readouterr().out
    assert "faithfulness moved by -0.700, -0.700 of it where nothing changed but the judge's verdict" in told
    assert "another judge" in told
    strangers = run(tmp_path / "else", [row | {"id": "t" + row["id"]} for row in ROWS], scripted)
    assert call("diagnose", str(strangers), "--against", str(base)) == 2
    assert "share no sample" in capsys.readouterr().err


class Topics:
    """Encodes a claim by its first word."""

    def encode(self, texts, kind):
        generator, made = np.random.default_rng(0), []
        for text in texts:
            one = np.zeros(8) + 0.01 * generator.normal(size=8)
            one[sum(map(ord, text.split()[0])) % 8] += 1
            made.append(one / np.linalg.norm(one))
        return np.array(made, np.float32)


def test_failing_claims_are_clustered_and_labelled() -> None:
    texts = [f"Prices were raised {n} times." for n in range(6)] + [f"Awards went to designer {n}." for n in range(4)]
    made = [FailingClaim(f"s{n}", text, None, Failure.NUMBER) for n, text in enumerate(texts)]
    found = find_clusters(made, Topics())
    assert [one.n for one in found.clusters] == [6, 4]
    assert "Prices" in found.clusters[0].terms
    assert found.clusters[0].label in texts[:6]
    assert found.clusters[0].kinds == {Failure.NUMBER: 6}
    assert {sample for _, sample in found.clusters[1].examples} <= {f"s{n}" for n in range(6, 10)}
    assert (found.n_claims, found.n_alone, found.n_left_out) == (10, 0, 0)
    assert find_clusters(made[:3], Topics()).clusters == ()
    assert len(find_clusters(made[:6], Topics()).clusters) == 1  # all about one thing


def test_a_new_run_drops_the_diagnosis_of_the_old_one(tmp_path, scripted) -> None:
    folder = run(tmp_path / "run", ROWS, scripted)
    assert call("diagnose", str(folder)) == 0
    run(folder, ROWS, scripted)
    assert not (folder / "diagnosis.json").exists()
    assert call("diagnose", str(folder)) == 0
    gpueval.rescore(folder)
    assert not (folder / "diagnosis.json").exists()


@pytest.mark.parametrize("kept", ["{", '{"clusters": [1]}', '{"against": {"n": 3}}'])
def test_a_damaged_diagnosis_is_named(tmp_path, scripted, capsys, kept) -> None:
    folder = run(tmp_path / "run", ROWS, scripted)
    (folder / "diagnosis.json").write_text(kept)
    assert call("report", str(folder)) == 2
    assert "diagnosis.json is damaged" in capsys.readouterr().err
