"""The function behind ``gpueval ablate``: make the conditions, answer, score them together, read the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gpueval import engines
from gpueval.ablation.conditions import matched, together, with_true_documents, without_documents
from gpueval.ablation.generate import WITH_DOCUMENTS, Answerer, Generator, Progress, answer, n_lost
from gpueval.data.columns import Columns
from gpueval.data.load import load
from gpueval.decisions.scored import Scored, read_scored
from gpueval.diagnosis.ablation import ENOUGH, MATTERS, Ablation, Condition, Floats, Reading, read
from gpueval.diagnosis.causes import recalled
from gpueval.engines.base import Embedder, Engine
from gpueval.engines.text_encoder import TextEncoder
from gpueval.errors import UsageError
from gpueval.metrics import choose
from gpueval.pipeline import evaluate
from gpueval.records import Passage, Sample
from gpueval.report.folder import write_run_reports
from gpueval.retrieval.nearest import nearest, passages
from gpueval.run_folder import locked, read_scores, write_json

METRICS = ("answer_correctness", "faithfulness", "context_recall", "context_precision")
ORACLE = "relevant_ids"
"""Stands for an oracle made from the samples' own relevant ids."""


def ablate(
    samples: Path | str | Sequence[Sample],
    *,
    judge: str | Engine,
    embedder: str | Embedder | None = None,
    out: Path | str,
    rag: str | Engine | Answerer | None = None,
    oracle: str | Path | Sequence[Sample] = ORACLE,
    closed: str | Path | Sequence[Sample] | None = None,
    corpus: Path | str | None = None,
    k: int = 5,
    retriever: str | TextEncoder | None = None,
    prompt: str = WITH_DOCUMENTS,
    max_tokens: int = 256,
    rag_options: Mapping[str, Any] | None = None,
    metrics: Sequence[str] = METRICS,
    metric: str = "answer_correctness",
    good: float = 0.5,
    matters: float = MATTERS,
    enough: float = ENOUGH,
    columns: Columns | None = None,
    progress: Progress = lambda stage, done, total: None,
    **settings: Any,
) -> Ablation:
    """Score a RAG system with its documents, with the true ones and without any, and say where answers are lost.

    Args:
        samples: What the full system did: questions, references, contexts, answers. Contexts that are not given are
            retrieved from the corpus, answers that are not given are asked of ``rag``.
        judge: As for :func:`gpueval.evaluate`.
        embedder: As for :func:`gpueval.evaluate`.
        out: Run folder; an unfinished ablation in it goes on.
        rag: The generator: model folder, server URL, ``module:function``, an engine, or a function of question and
            documents. Not needed where all answers are given.
        oracle: File of what the system answers with the true documents, or ``relevant_ids``: made of the ids that the
            samples name, looked up in their contexts and in the corpus.
        closed: File of what it answers without documents; None asks ``rag``.
        corpus: ``.jsonl`` with id and text.
        k: Documents to retrieve.
        retriever: Sentence-transformers folder for that; None takes the embedder's.
        prompt: System text of a generator with documents.
        max_tokens: Longest answer of a generator.
        rag_options: Arguments of the generator's engine.
        metrics: Metrics to score.
        metric: The one that says whether an answer is right; added to the metrics.
        good: Score from which it is.
        matters: Least difference that matters.
        enough: Share of right answers with the true documents that is enough.
        columns: Column mapping of the files.
        progress: Called with stage, done and total.
        settings: Further arguments of :func:`gpueval.evaluate`.

    Raises:
        DataError: A file is wrong, or ids do not match.
        UsageError: Something that an answer or the contexts need is not given.
        EngineError: The generator gave no answer at all.
    """
    folder, mapping = Path(out), columns or Columns()
    chosen = choose(dict.fromkeys((metric, *metrics)))
    full = _samples(samples, mapping)
    given_oracle = None if oracle == ORACLE else matched(full, _samples(oracle, mapping), str(oracle))
    given_closed = None if closed is None else matched(full, _samples(closed, mapping), str(closed))
    notes: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if any(sample.contexts is None for sample in full):
            full = _retrieved(full, corpus, retriever or embedder, k, folder, progress)
            notes.append(f"full: {k} nearest texts of the corpus")
        if given_oracle is None:
            held = {passage.id: passage for one in full for passage in one.contexts or () if passage.id is not None}
            wanted = {name for one in full for name in one.relevant_ids or ()} - held.keys()
            if wanted and corpus:
                held |= passages(Path(corpus), wanted)
            given_oracle = with_true_documents(full, held, str(corpus or "the samples' contexts"))
            if left := len(full) - len(given_oracle):
                notes.append(f"{left:,} samples name no relevant document: left out")
        conditions: dict[Condition, list[Sample]] = {
            Condition.FULL: full,
            Condition.ORACLE: given_oracle,
            Condition.CLOSED: without_documents(full) if given_closed is None else given_closed,
        }
        lacking = [name for name, some in conditions.items() if n_lost(some)]
        if lacking and rag is None:
            raise UsageError(
                f"There are no answers for: {', '.join(lacking)}.",
                "Give the generator with --rag (URL, model folder or module:function), or files with its answers.",
            )
        if lacking and rag is not None:
            generator = Generator(rag, prompt, max_tokens, settings.get("engine"), rag_options or {})
            conditions |= _answered({name: conditions[name] for name in lacking}, generator, folder, progress)
            notes.append(f"answered by {generator.name}: {', '.join(lacking)}")
    for name, made in conditions.items():
        if lost := n_lost(made):
            notes.append(f"{name}: {lost:,} samples got no answer; the same command asks them again")
    evaluate(
        list(together(conditions)),
        judge=judge,
        embedder=embedder,
        metrics=[one.name for one in chosen],
        out=folder,
        progress=progress,
        **settings,
    )
    scored = read_scored(folder)
    whole, groups = _read(scored, metric, good, matters, enough)
    result = Ablation(metric, good, whole, groups, tuple(notes))
    write_json(folder / "ablation.json", result.to_dict())
    write_run_reports(folder)
    return result


def _samples(source: Path | str | Sequence[Sample], columns: Columns) -> list[Sample]:
    return list(load(Path(source), columns)) if isinstance(source, str | Path) else list(source)


def _retrieved(
    samples: Sequence[Sample],
    corpus: Path | str | None,
    retriever: str | TextEncoder | Embedder | None,
    k: int,
    folder: Path,
    progress: Progress,
) -> list[Sample]:
    """Return the samples with the nearest texts of the corpus as contexts, where they have none."""
    if corpus is None or not isinstance(retriever, str | TextEncoder):
        raise UsageError(
            "Samples without contexts need a retriever.",
            "Give --corpus FILE.jsonl and --embedder FOLDER, or samples with the contexts that your system retrieved.",
        )
    encoder = retriever
    if isinstance(encoder, str):
        encoder = TextEncoder(engines.model_folder(encoder), log=folder / "embed.log")
    questions = {one.id: one.question or "" for one in samples if one.contexts is None}
    found = nearest(Path(corpus), questions, encoder, k, progress=progress)

    def with_contexts(sample: Sample) -> Sample:
        if sample.contexts is not None:
            return sample
        contexts: tuple[Passage, ...] = found[sample.id]
        ids = tuple(str(passage.id) for passage in contexts)
        return msgspec.structs.replace(sample, contexts=contexts, retrieved_ids=ids)

    return [with_contexts(sample) for sample in samples]


def _answered(
    conditions: Mapping[Condition, Sequence[Sample]], generator: Generator, folder: Path, progress: Progress
) -> dict[Condition, list[Sample]]:
    """Ask the generator for the answers that are not given, all conditions at once."""
    places = [(name, k) for name, some in conditions.items() for k, one in enumerate(some) if one.answer is None]
    answered = answer([conditions[name][k] for name, k in places], generator, folder, progress)
    found = {name: list(some) for name, some in conditions.items()}
    for (name, k), sample in zip(places, answered, strict=True):
        found[name][k] = sample
    return found


def _read(
    scored: Scored, metric: str, good: float, matters: float, enough: float
) -> tuple[Reading, dict[str, Reading]]:
    """Line the conditions up by sample and read them, whole and per group."""
    rows: dict[str, dict[Condition, int]] = {}
    group_of: dict[str, str | None] = {}
    recall = np.full(len(scored.ids), np.nan)
    for row, (sample, line) in enumerate(read_scores(scored.folder, dict[str, Any])):
        own = str(sample.extra["ablation_id"])
        rows.setdefault(own, {})[Condition(str(sample.group))] = row
        group_of[own] = sample.extra["ablation_group"]
        if (held := recalled(line)) is not None:
            recall[row] = held
    present = [condition for condition in Condition if any(condition in one for one in rows.values())]

    def reading(ids: Sequence[str]) -> Reading | None:
        def column(values: Floats, condition: Condition) -> Floats:
            places = np.array([rows[id_].get(condition, -1) for id_ in ids], np.int64)
            return np.where(places >= 0, values[places], np.nan)

        return read(
            {condition: column(scored.values[metric], condition) for condition in present},
            held=column(recall, Condition.ORACLE) if "context_recall" in scored.values else None,
            good=good,
            matters=matters,
            enough=enough,
        )

    whole = reading(list(rows))
    if whole is None:
        raise UsageError(
            f"No sample has {metric} in every condition.", f"See the states: gpueval report {scored.folder}"
        )
    names = sorted({one for one in group_of.values() if one is not None})
    groups = {name: reading([id_ for id_ in rows if group_of[id_] == name]) for name in names}
    return whole, {name: one for name, one in groups.items() if one is not None}
