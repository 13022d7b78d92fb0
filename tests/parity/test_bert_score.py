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
    (" ".join(f"word{i}" for i in range(40)), "short"),
]


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
