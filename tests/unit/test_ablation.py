"""Ablation: conditions are made and lined up, answers asked once, and the result is read with its uncertainty."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpueval.ablation.ablate import ablate
from gpueval.ablation.conditions import matched, together, with_true_documents, without_documents
from gpueval.cli.main import main
from gpueval.diagnosis.ablation import Condition, read
from gpueval.errors import DataError, EngineError, UsageError
from gpueval.records import Completion, Passage, Sample, State
from gpueval.stats.intervals import paired_shares


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def scores(full, oracle, closed):
    """Scores per condition of so many right answers, the same samples first."""
    n = max(full[1], oracle[1], closed[1])
    pairs = zip(Condition, (full, oracle, closed), strict=True)
    return {condition: np.array([1.0] * right + [0.0] * (n - right)) for condition, (right, _) in pairs}


@pytest.mark.parametrize(
    ("full", "oracle", "closed", "told"),
    [
        (60, 97, 5, ["Retrieval is the bottleneck"]),
        (60, 60, 5, ["Generation is the bottleneck"]),
        (40, 75, 5, ["Several parts lose answers: retrieval and generation."]),
        (98, 99, 5, ["No part loses answers that matter."]),
        (98, 99, 98, ["No part loses answers that matter.", "Retrieval is not needed"]),
        (88, 92, 5, ["Cannot tell with so few samples whether answers are lost in retrieval or generation."]),
    ],
)
def test_an_ablation_is_read(full, oracle, closed, told) -> None:
    found = read(scores((full, 100), (oracle, 100), (closed, 100)))
    assert found.n == 100
    for text, expected in zip(found.conclusions, told, strict=True):
        assert text.startswith(expected)


def test_few_samples_cannot_tell_and_say_how_many_would() -> None:
    found = read(scores((3, 5), (4, 5), (1, 5)))
    assert {found.retrieval.matters, found.generation.matters, found.knowledge.matters} == {"cannot tell"}
    assert found.retrieval.needed > 100
    assert found.generation.needed > 50
    # not one of five differs: that is no proof that none would
    assert read(scores((5, 5), (5, 5), (5, 5))).knowledge.matters == "cannot tell"


def test_true_documents_that_lack_the_reference_are_not_put_down_to_the_generator() -> None:
    values = scores((40, 100), (40, 100), (0, 100))
    held = np.array([1.0] * 40 + [0.0] * 60)
    found = read(values, held=held)
    assert found.documents.matters == "yes"
    assert found.generation.difference == 0
    assert found.conclusions[0].startswith("The documents are the bottleneck")


def test_only_samples_with_a_value_in_every_condition_count() -> None:
    values = scores((4, 8), (8, 8), (0, 8))
    values[Condition.ORACLE][0] = np.nan
    assert read(values).n == 7
    values[Condition.FULL][:] = np.nan
    assert read(values) is None


def test_the_interval_of_paired_shares_covers() -> None:
    generator, hits, repetitions = np.random.default_rng(1), 0, 2000
    for _ in range(repetitions):
        kinds = generator.choice(4, 40, p=(0.6, 0.2, 0.05, 0.15))
        low, high = paired_shares(int((kinds == 1).sum()), int((kinds == 2).sum()), 40)
        hits += low <= 0.15 <= high
    assert 0.935 <= hits / repetitions <= 0.985
    low, high = paired_shares(0, 0, 3)
    assert low < -0.3
    assert high > 0.3


ONE = Sample(
    id="1", question="Q1?", reference="R1.", answer="A1.", group="g", relevant_ids=("d1",), contexts=(Passage("x"),)
)


def test_conditions_hold_what_each_really_had() -> None:
    (oracle,) = with_true_documents([ONE, Sample(id="2", question="Q2?")], {"d1": Passage("true", id="d1")}, "c")
    assert oracle.contexts == (Passage("true", id="d1"),)
    assert oracle.answer is None
    (closed,) = without_documents([ONE])
    assert (closed.contexts, closed.answer) == ((), None)
    full, *_ = together({Condition.FULL: [ONE], Condition.CLOSED: [closed]})
    assert (full.id, full.group) == ("full/1", "full")
    assert full.extra == {"ablation_id": "1", "ablation_group": "g"}
    with pytest.raises(DataError, match="'d1', which is not there"):
        with_true_documents([ONE], {}, "c")
    with pytest.raises(DataError, match="no sample names"):
        with_true_documents([Sample(id="2")], {}, "c")


def test_a_file_of_a_condition_takes_the_reference_of_the_full_one() -> None:
    (found,) = matched([ONE], [Sample(id="1", answer="B", contexts=())], "o.jsonl")
    assert (found.reference, found.question, found.group, found.answer) == ("R1.", "Q1?", "g", "B")
    with pytest.raises(DataError, match="not among"):
        matched([ONE], [Sample(id="9")], "o.jsonl")
    with pytest.raises(DataError, match="another question"):
        matched([ONE], [Sample(id="1", question="Q9?")], "o.jsonl")


def rows(n):
    return [
        {
            "id": f"s{k}",
            "question": f"Question {k}?",
            "reference": f"Fact {k}.",
            "contexts": [f"Noise {k}."],
            "relevant_ids": [f"d{k}"],
            "group": "even" if k % 2 == 0 else "odd",
        }
        for k in range(n)
    ]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def files(tmp_path):
    samples = write(tmp_path / "samples.jsonl", rows(40))
    corpus = write(tmp_path / "corpus.jsonl", [{"id": f"d{k}", "text": f"Fact {k}."} for k in range(40)])
    return samples, corpus


def reader(question, documents):
    """A generator that copies a fact where it is given one."""
    reader.asked += 1
    return next((text for text in documents if text.startswith("Fact")), "It is nothing.")


reader.asked = 0


def holds(request):
    return 0.9 if all("Fact" in text for text in ("".join(request.parts[:-1]), request.parts[-1])) else 0.1


FAR = {"support": holds, "similar": 0.0}


def test_a_function_is_asked_once_per_condition_and_sample(files, tmp_path, scripted) -> None:
    samples, corpus = files
    reader.asked = 0
    given = {"judge": scripted(**FAR), "embedder": scripted(**FAR), "rag": reader, "corpus": corpus}
    found = ablate(samples, out=tmp_path / "run", **given)
    assert {condition: one.n for condition, one in found.whole.right.items()} == {"full": 0, "oracle": 40, "closed": 0}
    assert found.whole.conclusions[0].startswith("Retrieval is the bottleneck")
    assert set(found.groups) == {"even", "odd"}
    assert reader.asked == 120
    ablate(samples, out=tmp_path / "run", **given)
    assert reader.asked == 120
    body = json.loads((tmp_path / "run" / "ablation.json").read_text())
    assert body["whole"]["retrieval"]["matters"] == "yes"
    assert "Retrieval is the bottleneck" in (tmp_path / "run" / "report.html").read_text()
    assert "Retrieval is the bottleneck" in (tmp_path / "run" / "report.md").read_text()


def test_a_judge_that_overlooks_the_reference_does_not_blame_the_documents(tmp_path, scripted) -> None:
    said = [f"Part {k} weighs {k} grams." for k in range(60)]
    lines = [line | {"reference": text} for line, text in zip(rows(60), said, strict=True)]
    corpus = write(tmp_path / "corpus.jsonl", [{"id": f"d{k}", "text": text} for k, text in enumerate(said)])
    found = ablate(
        write(tmp_path / "samples.jsonl", lines),
        judge=scripted(support=0.1),
        rag=lambda _, documents: documents[0] if documents else "It is light.",
        corpus=corpus,
        metrics=["context_recall"],
        metric="exact_match",
        out=tmp_path / "run",
    )
    assert found.whole.documents is not None
    assert found.whole.documents.difference == 0
    assert found.whole.conclusions[0].startswith("Retrieval is the bottleneck")


def test_an_engine_answers_all_conditions_in_one_batch(files, tmp_path, scripted) -> None:
    samples, corpus = files
    seen = []

    def answer(request):
        seen.append(request)
        text = "".join(request.parts)
        return Completion(request.key, text="Fact." if "Fact" in text else "Nothing.")

    from gpueval.engines.scripted import Scripted

    rag = Scripted(answer, "rag")
    given = {"judge": scripted(**FAR), "embedder": scripted(**FAR), "corpus": corpus}
    ablate(samples, out=tmp_path / "run", rag=rag, prompt="Say it.", **given)
    assert len(seen) == 120
    assert {request.ask.system == "Say it." for request in seen if len(request.parts) > 1} == {True}
    assert {request.ask.system == "Say it." for request in seen if len(request.parts) == 1} == {False}
    ablate(samples, out=tmp_path / "run", rag=rag, prompt="Say it.", **given)
    assert len(seen) == 120
    broken = Scripted(lambda request: Completion(request.key, failure=State.ENGINE_ERROR), "broken")
    with pytest.raises(EngineError, match="answered none of 120"):
        ablate(samples, out=tmp_path / "other", rag=broken, **given)


def test_answers_of_three_files_need_no_generator(files, tmp_path, scripted, capsys) -> None:
    lines = rows(12)
    full = write(tmp_path / "full.jsonl", [line | {"answer": "Wrong."} for line in lines])
    oracle = write(
        tmp_path / "oracle.jsonl", [{"id": x["id"], "answer": x["reference"], "contexts": ["T"]} for x in lines]
    )
    closed = write(tmp_path / "closed.jsonl", [{"id": x["id"], "answer": "Wrong."} for x in lines])
    judge = write(tmp_path / "rules.jsonl", [{"labels": [0.1, 0.9, 0.0]}])
    arguments = [str(full), "--oracle", str(oracle), "--closed", str(closed), "--judge", f"scripted:{judge}", "--quiet"]
    arguments += ["--metrics", "faithfulness", "--metric", "exact_match", "--out", str(tmp_path / "run")]
    assert call("ablate", *arguments) == 0
    told = capsys.readouterr().out
    assert "Retrieval is the bottleneck" in told
    assert "12 / 12" in told
    assert call("ablate", *arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["whole"]["right"]["oracle"]["share"] == 1.0


def test_what_is_missing_is_said_before_anything_starts(files, tmp_path, scripted, capsys) -> None:
    samples, corpus = files
    judge = scripted(**FAR)
    with pytest.raises(UsageError, match="There are no answers for: full, oracle, closed"):
        ablate(samples, judge=judge, out=tmp_path / "run", corpus=corpus)
    with pytest.raises(DataError, match="which is not there"):
        ablate(samples, judge=judge, out=tmp_path / "run", rag=reader)
    bare = write(tmp_path / "bare.jsonl", [{"id": "1", "question": "Q?", "reference": "R", "relevant_ids": ["d1"]}])
    with pytest.raises(UsageError, match="need a retriever"):
        ablate(bare, judge=judge, out=tmp_path / "run", rag=reader)
    assert judge.requests == []
    base = [
        "ablate",
        str(samples),
        "--judge",
        "scripted:none",
        "--corpus",
        str(corpus),
        "--out",
        str(tmp_path / "r"),
        "--quiet",
    ]
    assert call(*base, "--rag", "nowhere:function") == 2
    assert "cannot be loaded" in capsys.readouterr().err
    assert call(*base, "--rag", "math:pi") == 2
    assert "is no function" in capsys.readouterr().err
    assert call(*base, "--prompt", str(tmp_path / "none.txt"), "--rag", "math:sqrt") == 2
    assert "--prompt" in capsys.readouterr().err


def test_a_function_that_fails_says_on_which_sample(files, tmp_path, scripted) -> None:
    samples, corpus = files

    def moody(question, documents):
        if "7" in question:
            raise ValueError("no sevens")
        return "Fact."

    given = {"judge": scripted(**FAR), "embedder": scripted(**FAR), "corpus": corpus, "out": tmp_path / "run"}
    with pytest.raises(EngineError, match="failed on sample 's7': ValueError: no sevens"):
        ablate(samples, rag=moody, **given)
    with pytest.raises(EngineError, match="returned int"):
        ablate(samples, rag=lambda question, documents: 3, **given)
