"""Retrieval with real parts: all-MiniLM-L6-v2, the example's handbook, FAISS."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gpueval
from gpueval.engines.text_encoder import TextEncoder

EXAMPLE = Path(gpueval.__file__).parent / "example" / "handbook.jsonl"
pytestmark = [pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def passages() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in EXAMPLE.read_text().splitlines():
        for context in json.loads(line)["contexts"]:
            text = context if isinstance(context, str) else context["text"]
            found.setdefault(text, f"p{len(found)}")
    return {name: text for text, name in found.items()}


def test_vectors_equal_the_librarys_own(models, passages) -> None:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'gpueval[embed]'")
    texts = [*passages.values(), "", "one", "long " * 600]
    encoder = TextEncoder(models[1])
    ours = encoder.encode(texts, "document")
    theirs = library.SentenceTransformer(str(models[1]), local_files_only=True).encode(texts, normalize_embeddings=True)
    assert np.abs(ours - theirs).max() < 1e-5
    assert encoder.n_truncated == 1
    half = TextEncoder(models[1], dimensions=192).encode(texts[:3], "document")
    assert np.allclose(half, theirs[:3, :192] / np.linalg.norm(theirs[:3, :192], axis=1, keepdims=True), atol=1e-5)


def test_questions_find_their_passages_and_the_second_run_encodes_nothing(models, passages, tmp_path) -> None:
    pytest.importorskip("faiss", reason="pip install 'gpueval[retrieve]'")
    names = {text: name for name, text in passages.items()}
    with (tmp_path / "corpus.jsonl").open("w") as corpus:
        corpus.writelines(json.dumps({"id": name, "text": text}) + "\n" for name, text in passages.items())
    with (tmp_path / "queries.jsonl").open("w") as queries, (tmp_path / "qrels.jsonl").open("w") as qrels:
        for line in EXAMPLE.read_text().splitlines():
            row = json.loads(line)
            own = [c if isinstance(c, str) else c["text"] for c in row["contexts"]]
            queries.write(json.dumps({"id": row["id"], "text": row["question"]}) + "\n")
            qrels.write(json.dumps({"id": row["id"], "relevant_ids": [names[text] for text in own]}) + "\n")
    given = {"embedder": models[1], "queries": tmp_path / "queries.jsonl", "qrels": tmp_path / "qrels.jsonl"}
    given |= {"indexes": ["flat", "hnsw"], "metrics": ["recall@5", "mrr@10"], "k": 10, "out": tmp_path / "out"}
    first = gpueval.retrieve(tmp_path / "corpus.jsonl", **given, cache=tmp_path / "vectors")
    exact, flat = first.rows[:2]
    assert exact.ranking.metrics["recall@5"].mean > 0.7
    assert flat.recall_of_exact == 1.0
    assert flat.ranking.metrics["mrr@10"].mean == exact.ranking.metrics["mrr@10"].mean
    assert first.facts["encoded_now"] == len(passages) + 24
    again = gpueval.retrieve(tmp_path / "corpus.jsonl", **given, cache=tmp_path / "vectors")
    assert again.facts["encoded_now"] == 0
    assert all(row.build_s == 0 for row in again.rows)
    ranked = gpueval.rank(tmp_path / "out" / "run.exact.trec", tmp_path / "qrels.jsonl", metrics=["mrr@10"])
    assert ranked.metrics["mrr@10"].mean == pytest.approx(exact.ranking.metrics["mrr@10"].mean)
