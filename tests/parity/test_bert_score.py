"""BERTScore against the bert-score package, on the same layer of the same model."""

from __future__ import annotations

import pytest

from gpueval.judge import prompts
from gpueval.records import Request

PAIRS = [
    ("The cat sat on the mat.", "A cat was sitting on the mat."),
    ("Paris.", "The capital of France is Paris, which lies on the Seine."),
    ("It opened in 1889; 300 men built it.", "It opened in 1889; 300 men built it."),
    ("Die Brücke ist 1.280 m lang — naïve café 東京", "Most 1280 méter hosszú"),
    ("a", "b"),
    ("The 🦜🧬 sings loud.", "A 🦜 sings 🧬 loudly."),
    (" ".join(f"word{i}" for i in range(40)), "short"),
]


@pytest.mark.engine
@pytest.mark.parametrize("side", ["left", "right"])
def test_tokens_are_those_that_the_model_saw(models, side) -> None:
    pytest.importorskip("sentence_transformers", reason="token vectors come from sentence-transformers")
    from gpueval.engines.text_encoder import TextEncoder

    encoder = TextEncoder(models[1], device="cpu")
    encoder._model.tokenizer.padding_side = side
    texts = ["a cat\n", "  a much longer text about a 🦜 [SEP] ", "a", "word " * 400]
    found = encoder.tokens(texts)
    for i, text in enumerate(texts):
        alone = encoder.tokens([text])
        rows = slice(*found.offsets[i : i + 2])
        assert found.special[rows].tolist() == alone.special.tolist()
        assert found.special[rows].sum() == 2
        if side == "right":  # with padding before it, this model gives a text other positions
            assert abs(found.vectors[rows] - alone.vectors).max() < 1e-5


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
def test_equal_to_the_bert_score_package(models) -> None:
    bert_score = pytest.importorskip("bert_score", reason="values are compared with the bert-score package's")
    pytest.importorskip("sentence_transformers", reason="token vectors come from sentence-transformers")
    from gpueval.engines.sentence_embedder import SentenceEmbedder

    engine = SentenceEmbedder(models[1], device="cpu")
    requests = [Request(bytes([i]), prompts.TOKENS, pair) for i, pair in enumerate(PAIRS)]
    ours = {done.key: (*done.labels, done.value) for done in engine.run(requests)}
    theirs = bert_score.score(
        *zip(*PAIRS, strict=True), model_type=str(models[1]), num_layers=6, device="cpu", verbose=False
    )
    for i, expected in enumerate(zip(*(side.tolist() for side in theirs), strict=True)):
        assert ours[bytes([i])] == pytest.approx(expected, abs=1e-5)
