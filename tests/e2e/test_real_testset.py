"""A test set with real parts: SmolLM2-135M-Instruct writes and checks, MiniLM finds neighbours and ranks."""

from __future__ import annotations

import json

import pytest

from gpueval.cli.main import main
from gpueval.testset.folder import read_items
from gpueval.testset.kinds import Kind, parse_mix
from gpueval.testset.make import make_testset
from gpueval.testset.update import Change, update_testset

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]
PAGES = {
    "kettle.md": "The Tondra kettle by Marta Ohlsen holds two litres of water and boils it in three minutes. If the "
    "kettle runs dry, the Tondra switch turns it off within ten seconds. It costs 48 euros in the Tondra shop.",
    "lamp.txt": "Marta Ohlsen also drew the Ardil lamp, which shines for 31 hours on one charge. It is sold in moss "
    "green and weighs 900 grams. The Ardil lamp was shown at the Velmar fair in 2011.",
    "tent.html": "<h1>Velmar tent</h1><p>The Velmar tent weighs 2,100 grams, and three people can sleep in it.</p>",
}


class Counting:
    """An engine that counts what it is asked."""

    def __init__(self, engine) -> None:
        self._engine, self.n = engine, 0

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def run(self, requests):
        for completion in self._engine.run(requests):
            self.n += 1
            yield completion


@pytest.fixture(scope="module")
def made(vllm_judge, models, tmp_path_factory):
    pytest.importorskip("bs4", reason="HTML is an extra: pip install 'gpueval[documents]'")
    corpus, out = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("set")
    for name, text in PAGES.items():
        (corpus / name).write_text(text)
    engine = Counting(vllm_judge)
    wishes = {"mix": parse_mix("factual=3,multi_hop=1,unanswerable=2"), "most_written": 2, "seed": 4}
    card = make_testset(corpus, 6, judge=engine, embedder=models[1], out=out, **wishes)
    return corpus, out, card, engine.n, wishes


def test_every_question_written_is_kept_or_dropped_for_a_reason(made) -> None:
    _, out, card, n, _ = made
    assert n >= sum(row.written for row in card.rows) >= 6
    for row in card.rows:
        assert row.written == row.kept + sum(row.dropped.values())
    dropped = [json.loads(line) for line in (out / "dropped.jsonl").read_text().splitlines()]
    assert len(dropped) == sum(sum(row.dropped.values()) for row in card.rows)
    assert card.n_documents == 3
    for item in read_items(out / "testset.jsonl") if card.n_kept else ():
        assert item.kind is Kind.UNANSWERABLE or item.relevant_ids


def test_the_same_command_again_asks_nothing_and_gives_the_same_set(made, vllm_judge, models) -> None:
    corpus, out, _, _, wishes = made
    before, engine = (out / "testset.jsonl").read_bytes(), Counting(vllm_judge)
    make_testset(corpus, 6, judge=engine, embedder=models[1], out=out, **wishes)
    assert engine.n == 0
    assert (out / "testset.jsonl").read_bytes() == before


def test_without_checks_a_set_goes_through_update_and_run(made, vllm_judge, models, tmp_path, capsys) -> None:
    corpus, *_ = made
    out = tmp_path / "set"
    card = make_testset(
        corpus, 3, judge=vllm_judge, embedder=models[1], out=out, mix=parse_mix("factual"), check=False, seed=4
    )
    assert card.n_kept == 3
    assert set(update_testset(out, corpus).changes.values()) == {Change.SAME}
    with pytest.raises(SystemExit) as ended:
        main(["retrieve", str(out), "--embedder", str(models[1]), "--index", "exact", "--out", str(tmp_path / "r")])
    assert ended.value.code == 0
    assert "recall@10" in capsys.readouterr().out
