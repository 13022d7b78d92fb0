"""The function behind ``gpueval testset check``: hold a set, made by hand or here, against every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpueval.engines.base import Engine
from gpueval.engines.text_encoder import TextEncoder
from gpueval.errors import DataError
from gpueval.retrieval.corpus import texts
from gpueval.run_folder import locked, write_json
from gpueval.testset.bench import Progress, check, opened
from gpueval.testset.card import Card, mean_recall, rows_of, spread
from gpueval.testset.checks import Problem
from gpueval.testset.chunks import CHUNK_CHARACTERS, Chunk, cut
from gpueval.testset.documents import read_corpus
from gpueval.testset.folder import read_items, write_lines
from gpueval.testset.items import Checked, Item, proof_of
from gpueval.testset.sift import Kept
from gpueval.testset.trust import measure


def check_testset(
    file: Path | str,
    corpus: Path | str,
    *,
    judge: str | Engine,
    embedder: str | Path | TextEncoder,
    out: Path | str,
    chunk_characters: int = CHUNK_CHARACTERS,
    engine: str | None = None,
    engine_options: Mapping[str, Any] | None = None,
    device: str | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Card, list[Checked]]:
    """Check a set item by item, as a made one is; nothing is dropped from it.

    Evidence is what an item's ``relevant_ids`` name in the corpus, or its own ``evidence``. Leaves ``checked.jsonl``
    (the items with their problems, rank and difficulty) and ``card.json``.

    Args:
        file: JSON lines with question, reference or ``"answerable": false``, relevant_ids; group is the kind.
        corpus: ``.jsonl`` with id and text, or a folder of documents.
        judge: Model folder, server URL or an engine.
        embedder: Sentence-transformers folder or an encoder.
        out: Folder for what is found.
        chunk_characters: Longest chunk of a folder's documents.
        engine: For a model folder, ``vllm`` or ``transformers``.
        engine_options: Arguments of the engine.
        device: Of the embedding model.
        progress: Called with stage, done and total.

    Raises:
        DataError: The file or the corpus is wrong, or an item names evidence that the corpus lacks.
    """
    folder = Path(out)
    items = read_items(Path(file))
    chunks = _chunks(Path(corpus), chunk_characters)
    held = {chunk.id: chunk for chunk in chunks}
    items = [_with_evidence(item, held, str(file)) for item in items]
    with (
        locked(folder),
        opened(
            folder,
            chunks,
            judge,
            embedder,
            engine=engine,
            engine_options=engine_options,
            device=device,
            progress=progress,
        ) as bench,
    ):
        bench.trust = measure(bench.ask, bench.keys)
        found = _with_repeats(check(items, bench, lambda wording: True))
        good = [one for one in found if not one.item.problems]
        bad = [one for one in found if one.item.problems]
        used, largest = spread(found)
        card = Card(
            rows=rows_of({}, good, bad),
            solvability=mean_recall(found),
            solvability_written=mean_recall(found),
            n_documents=len({chunk.document for chunk in chunks}),
            n_chunks=len(chunks),
            n_documents_used=used,
            largest_share=largest,
            trust=bench.trust,
        )
        write_lines(folder / "checked.jsonl", [one.item for one in found])
        write_json(folder / "card.json", card.to_dict())
    return card, found


def _chunks(corpus: Path, longest: int) -> Sequence[Chunk]:
    if corpus.is_dir() and not (corpus / "corpus.jsonl").is_file():
        return cut(read_corpus(corpus).documents, longest)
    file = corpus / "corpus.jsonl" if corpus.is_dir() else corpus
    return [Chunk(name, name.rpartition("#")[0] or name, 0, len(text), text) for name, text in texts(file)]


def _with_evidence(item: Item, held: Mapping[str, Chunk], file: str) -> Item:
    if not item.answerable:
        return item
    if lacking := [name for name in item.relevant_ids if name not in held]:
        raise DataError(f"item '{item.id}': '{lacking[0]}' is not in the corpus", file=file, field="relevant_ids")
    if item.evidence:
        return item
    if not item.relevant_ids:
        raise DataError(
            f"item '{item.id}' has none",
            file=file,
            field="relevant_ids",
            remedy="Name the ids of its evidence in the corpus, or give its evidence.",
        )
    return msgspec.structs.replace(item, evidence=tuple(proof_of(held[name]) for name in item.relevant_ids))


def _with_repeats(checked: Sequence[Checked]) -> list[Checked]:
    kept, found = Kept(), list[Checked]()
    for one in checked:
        if kept.repeats(one):
            item = msgspec.structs.replace(one.item, problems=(*one.item.problems, Problem.REPEATED))
            found.append(Checked(item, one.recall, one.vector))
        else:
            kept.add(one)
            found.append(one)
    return found
