"""Ablation and diagnosis with real parts: SmolLM2-135M-Instruct answers and judges, MiniLM retrieves and clusters."""

from __future__ import annotations

import json

import pytest

from gpueval.ablation.ablate import ablate
from gpueval.ablation.generate import Generator, answer
from gpueval.cli.main import main
from gpueval.records import Passage, Sample

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]
PAGES = {
    "kettle": "The Tondra kettle holds two litres of water. It costs 48 euros in the shop.",
    "lamp": "The Ardil lamp shines for 31 hours on one charge. It is sold in moss green.",
    "tent": "The Velmar tent weighs 2,100 grams. Three people can sleep in it.",
}
ROWS = [
    {"id": "kettle", "question": "How much does the Tondra kettle cost?", "reference": "It costs 48 euros."},
    {"id": "lamp", "question": "How long does the Ardil lamp shine?", "reference": "It shines for 31 hours."},
    {"id": "tent", "question": "What does the Velmar tent weigh?", "reference": "It weighs 2,100 grams."},
]


@pytest.fixture(scope="module")
def ablation(vllm_judge, models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablation")
    questions, corpus = folder / "questions.jsonl", folder / "corpus.jsonl"
    questions.write_text("".join(json.dumps(row | {"relevant_ids": [row["id"]]}) + "\n" for row in ROWS))
    corpus.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in PAGES.items()))
    given = {"judge": vllm_judge, "rag": vllm_judge, "embedder": str(models[1]), "corpus": corpus, "k": 2}
    return ablate(questions, out=folder / "run", max_tokens=32, **given), folder / "run"


def test_three_conditions_are_answered_and_judged_together(ablation) -> None:
    found, folder = ablation
    assert found.whole.n == 3
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert [one["group"] for one in samples] == ["full"] * 3 + ["oracle"] * 3 + ["closed"] * 3
    retrieved = {one["extra"]["ablation_id"]: [passage["id"] for passage in one["contexts"]] for one in samples[:3]}
    assert {name: ids[0] for name, ids in retrieved.items()} == {name: name for name in PAGES}
    assert {len(ids) for ids in retrieved.values()} == {2}
    assert [passage["text"] for passage in samples[3]["contexts"]] == [PAGES["kettle"]]
    assert all(one["answer"] for one in samples)
    assert "48" in samples[3]["answer"]


def test_the_run_can_be_diagnosed(ablation, models, capsys) -> None:
    _, folder = ablation
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(folder), "--embedder", str(models[1]), "--json"])
    assert not ended.value.code
    body = json.loads(capsys.readouterr().out)
    assert body["n_samples"] == 3
    assert "clusters" in body
    assert "Where answers are lost" in (folder / "report.html").read_text()


def test_transformers_answers_too(models, tmp_path) -> None:
    generator = Generator(str(models[0]), max_tokens=16, engine="transformers")
    sample = Sample(id="1", question=ROWS[0]["question"], contexts=(Passage(PAGES["kettle"]),))
    (found,) = answer([sample], generator, tmp_path, lambda stage, done, total: None)
    assert "48" in found.answer
