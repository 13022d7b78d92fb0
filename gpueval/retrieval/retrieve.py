"""The function behind ``gpueval retrieve``: embed a corpus, search it exactly and by FAISS, score what came back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpueval.engines.ray_encoder import RayEncoder
from gpueval.engines.text_encoder import TextEncoder, Vectors
from gpueval.errors import UsageError
from gpueval.fingerprint import digest
from gpueval.machine import cache_folder
from gpueval.retrieval.corpus import locate, texts
from gpueval.retrieval.depths import at_depths
from gpueval.retrieval.indexes import build, check, search, settings
from gpueval.retrieval.measures import Measure, parse
from gpueval.retrieval.rank import DEFAULT_MEASURES, RankResult, rank_run, read_any_judgments
from gpueval.retrieval.search import Found, agreement, exact, lists_of
from gpueval.retrieval.trec import Judgments, run_from_lists
from gpueval.retrieval.vectors import Rows, VectorStore
from gpueval.run_folder import locked, write_json

_WORST, _MOVED = 20, 5
"""Queries named as worst, and as moved most per index and setting."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One index with one search setting.

    Attributes:
        index: Kind.
        setting: Lists looked into, or candidates kept; None without any.
        recall_of_exact: Mean share of the exact k nearest that it found.
        queries_per_s: Rate of the search.
        build_s: Time to build it; 0 when it was read from disk.
        size_bytes: Size on disk.
        ranking: Measures against the judgments; None without judgments.
        curves: Recall and nDCG at growing depth: measure, then depth and mean; empty without judgments.
    """

    index: str
    setting: int | None
    recall_of_exact: float
    queries_per_s: float
    build_s: float
    size_bytes: int
    ranking: RankResult | None
    curves: dict[str, dict[int, float]]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What retrieval over a corpus came to.

    Attributes:
        rows: One per index and setting; the exact search comes first.
        facts: Model, counts, truncated texts, times.
        texts: The queries by id.
    """

    rows: tuple[Row, ...]
    facts: dict[str, Any]
    texts: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``gpueval retrieve --json``."""
        rows = [
            {
                "index": row.index,
                "setting": row.setting,
                "recall_of_exact": row.recall_of_exact,
                "queries_per_s": row.queries_per_s,
                "build_s": row.build_s,
                "size_bytes": row.size_bytes,
            }
            | ({"metrics": row.ranking.to_dict()["metrics"], "curves": row.curves} if row.ranking else {})
            for row in self.rows
        ]
        warnings = self.rows[0].ranking.warnings if self.rows[0].ranking else ()
        return {"indexes": rows, "warnings": list(warnings)} | self._queries() | self.facts

    def _queries(self) -> dict[str, Any]:
        """Return the queries that the exact search answers worst, and those that an index moved most."""
        truth = self.rows[0].ranking
        if truth is None or not truth.queries:
            return {}
        name, values = next(iter(truth.per_query.items()))
        order = np.argsort(values, kind="stable")[:_WORST]
        worst = [{"query": truth.queries[i], "value": float(values[i])} for i in order]
        moved = []
        for row in self.rows[1:]:
            if row.ranking is None:
                continue
            change = row.ranking.per_query[name] - values
            order = np.argsort(-np.abs(change), kind="stable")[:_MOVED]
            moved += [
                {
                    "index": row.index,
                    "setting": row.setting,
                    "query": truth.queries[i],
                    "exact": float(values[i]),
                    "value": float(values[i] + change[i]),
                }
                for i in order
                if change[i]
            ]
        texts = {one["query"]: self.texts.get(one["query"], "") for one in (*worst, *moved)}
        return {"measure": name, "worst_queries": worst, "moved_queries": moved, "texts": texts}


def retrieve(
    corpus: Path | str,
    *,
    embedder: Path | str,
    queries: Path | str | None = None,
    qrels: Path | str | None = None,
    indexes: Sequence[str] = ("exact",),
    metrics: Sequence[str] = DEFAULT_MEASURES,
    k: int = 100,
    out: Path | str,
    dimensions: int | None = None,
    device: str | None = None,
    cache: Path | None = None,
    ray: str | None = None,
    replicas: int | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Retrieval:
    """Measure a retriever end to end.

    Args:
        corpus: ``.jsonl`` with id and text, or a BEIR folder.
        embedder: Sentence-transformers folder.
        queries: ``.jsonl`` with id and text; from the BEIR folder when None.
        qrels: TREC file, ``.jsonl`` or BEIR ``.tsv``; without judgments only the indexes are measured.
        indexes: Of :data:`gpueval.retrieval.indexes.KINDS`; the exact search always runs.
        metrics: Ranking measures.
        k: Documents per query.
        out: Folder for the runs (``run.<index>.trec``), the indexes and ``retrieve.json``.
        dimensions: Keep the first dimensions of the vectors.
        device: ``cpu``, ``cuda``, ``mps``.
        cache: Folder of vectors; None is ``vectors`` under the user's cache.
        ray: Address of a Ray cluster that encodes, or ``auto``; None without one.
        replicas: Replicas of the embedding model on the cluster, or on this machine without one.
        progress: Called with stage, done and total.

    Raises:
        DataError: A file is wrong.
        PrerequisiteError: The model, sentence-transformers or FAISS is missing.
        UsageError: An unknown index, or too few documents for one.
    """
    check(indexes)
    measures = [parse(name) for name in metrics]
    files = locate(Path(corpus), Path(queries) if queries else None, Path(qrels) if qrels else None)
    judgments = read_any_judgments(files[2]) if files[2] else None  # what is wrong is said before anything is encoded
    asked = dict(texts(files[1]))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be a folder: {error.strerror}.", "Choose another --out.") from error
    encoder: TextEncoder | RayEncoder
    if ray or replicas:
        encoder = RayEncoder(Path(embedder), ray, replicas, device=device, dimensions=dimensions)
    else:
        encoder = TextEncoder(Path(embedder), device=device, dimensions=dimensions, log=folder / "embed.log")
    where = (cache or cache_folder() / "vectors") / digest(encoder.fingerprint.encode()).hex()
    with locked(where, "Wait for it: two processes would encode the same texts twice."):
        task = encode_task(files[0], asked, encoder, where, progress)
        table = _searched(task, indexes, k, folder, judgments, measures)
    facts = {
        "documents": len(task.documents),
        "queries": len(asked),
        "k": k,
        "embedder": Path(embedder).name,
        "dimensions": encoder.dimensions,
        "encoded_now": encoder.n_texts,
        "truncated": encoder.n_truncated,
    }
    result = Retrieval(table, facts, asked)
    write_json(folder / "retrieve.json", result.to_dict())
    return result


@dataclass(frozen=True, slots=True)
class Encoded:
    """Everything encoded: names of documents and queries, the documents' vectors on disk, the queries' in memory."""

    documents: list[str]
    store: VectorStore
    rows: Rows
    queries: list[str]
    vectors: Vectors
    key: str
    device: str


def encode_task(
    corpus: Path, asked: Mapping[str, str], encoder: TextEncoder | RayEncoder, where: Path, progress: Progress
) -> Encoded:
    """Encode a corpus and questions; what the cache holds is not encoded again.

    Args:
        corpus: ``.jsonl`` with id and text.
        asked: Questions by id.
        encoder: Of both.
        where: Folder of vectors of this encoder.
        progress: Called with stage, done and total.
    """
    documents: list[str] = []

    def corpus_texts() -> Iterable[str]:
        for name, text in texts(corpus):
            documents.append(name)
            yield text

    with corpus.open("rb") as lines:
        total = sum(1 for _ in lines)
    store = VectorStore(where / "document", encoder.dimensions)
    rows = store.add(corpus_texts(), encoder, "document", lambda done: progress("documents", done, total))
    query_store = VectorStore(where / "query", encoder.dimensions)
    query_rows = query_store.add(asked.values(), encoder, "query", lambda done: progress("queries", done, len(asked)))
    key = digest(store.digest_of(rows).encode(), encoder.fingerprint.encode()).hex()[:12]
    return Encoded(documents, store, rows, list(asked), query_store.take(query_rows), key, encoder.device)


def _searched(
    task: Encoded,
    indexes: Sequence[str],
    k: int,
    folder: Path,
    judgments: Judgments | None,
    measures: Sequence[Measure],
) -> tuple[Row, ...]:
    """Search exactly, then with every index and setting."""
    check(indexes, len(task.documents))
    dimensions = task.vectors.shape[1]
    truth = exact(task.vectors, task.store, task.rows, k, task.device)

    def row(kind: str, setting: int | None, found: Found, share: float, build_s: float, size: int) -> Row:
        label = kind if setting is None else f"{kind}-{setting}"
        lists = dict(lists_of(found, task.queries, task.documents))
        _write_run(folder / f"run.{label}.trec", label, lists)
        ranking, curves = None, dict[str, dict[int, float]]()
        if judgments is not None:
            ordered = run_from_lists({query: names for query, (names, _) in lists.items()}, {}, "input")
            ranking = rank_run(ordered, judgments, measures)
            curves = at_depths(ordered, judgments, k)
        rate = len(task.queries) / max(1e-9, found.seconds)
        return Row(kind, setting, share, rate, build_s, size, ranking, curves)

    table = [row("exact", None, truth, 1.0, 0.0, len(task.rows) * dimensions * 4)]
    for kind in dict.fromkeys(kind for kind in indexes if kind != "exact"):
        built = build(kind, task.store, task.rows, dimensions, folder / "indexes" / f"{kind}-{task.key}.faiss")
        for setting in settings(kind, built.index, min(k, len(task.documents))):
            found = search(kind, built, task.vectors, min(k, len(task.documents)), setting)
            share = agreement(found, truth, k, task.vectors, task.store, task.rows)
            table.append(row(kind, setting, found, share, built.seconds, built.size_bytes))
    return tuple(table)


def _write_run(file: Path, label: str, lists: Mapping[str, tuple[list[str], list[float]]]) -> None:
    """Write a TREC run; an id with a blank in it cannot stand in one, so its query is left out there."""
    with file.open("w", encoding="utf-8") as stream:
        for query, (names, scores) in lists.items():
            if any(character.isspace() for name in (query, *names) for character in name):
                continue
            for place, (name, score) in enumerate(zip(names, scores, strict=True), start=1):
                stream.write(f"{query} Q0 {name} {place} {score!r} gpueval-{label}\n")
