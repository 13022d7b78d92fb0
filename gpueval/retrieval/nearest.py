"""The texts nearest to questions: the plain retriever that an ablation or a test set is held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpueval.engines.text_encoder import TextEncoder, Vectors
from gpueval.fingerprint import digest
from gpueval.machine import cache_folder
from gpueval.records import Passage
from gpueval.retrieval.corpus import texts
from gpueval.retrieval.retrieve import Progress, encode_task
from gpueval.retrieval.search import exact, lists_of
from gpueval.retrieval.vectors import VectorStore
from gpueval.run_folder import locked


def nearest(
    corpus: Path,
    questions: Mapping[str, str],
    encoder: TextEncoder,
    k: int,
    cache: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, tuple[Passage, ...]]:
    """Return the k nearest texts of a corpus per question, best first, by exact search over unit vectors.

    Args:
        corpus: ``.jsonl`` with id and text.
        questions: By id.
        encoder: Of texts and questions.
        k: Texts per question.
        cache: Folder of vectors; None is ``vectors`` under the user's cache.
        progress: Called with stage, done and total.

    Raises:
        DataError: The corpus is wrong.
    """
    with _kept_vectors(encoder, cache) as where:
        task = encode_task(corpus, questions, encoder, where, progress)
        found = exact(task.vectors, task.store, task.rows, k, task.device)
    names = {query: ids for query, (ids, _) in lists_of(found, task.queries, task.documents)}
    held = passages(corpus, {name for ids in names.values() for name in ids})
    return {query: tuple(held[name] for name in ids) for query, ids in names.items()}


def passages(corpus: Path, names: set[str]) -> dict[str, Passage]:
    """Return the texts of a corpus that are named, by id; those it lacks are left out."""
    return {name: Passage(text, id=name) for name, text in texts(corpus) if name in names}


def encoded(
    texts: Sequence[str],
    encoder: TextEncoder,
    cache: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Vectors:
    """Return (texts, dimensions) unit vectors of documents; what the cache holds is not encoded again.

    Args:
        texts: Texts.
        encoder: Of the texts.
        cache: Folder of vectors; None is ``vectors`` under the user's cache.
        progress: Called with stage, done and total.
    """
    with _kept_vectors(encoder, cache) as where:
        store = VectorStore(where / "document", encoder.dimensions)
        return store.take(store.add(texts, encoder, "document", lambda done: progress("chunks", done, len(texts))))


@contextmanager
def _kept_vectors(encoder: TextEncoder, cache: Path | None) -> Iterator[Path]:
    """Hold the folder of an encoder's vectors for this process."""
    where = (cache or cache_folder() / "vectors") / digest(encoder.fingerprint.encode()).hex()
    with locked(where, "Wait for it: two processes would encode the same texts twice."):
        yield where
