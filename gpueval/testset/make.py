"""The function behind ``gpueval testset``: read documents, draw, have questions written, check them, write the set."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from gpueval import __version__
from gpueval.engines.base import Engine
from gpueval.engines.text_encoder import TextEncoder
from gpueval.errors import DataError, EngineError, UsageError
from gpueval.judge import prompts
from gpueval.run_folder import locked
from gpueval.testset import asks
from gpueval.testset.asks import Manner
from gpueval.testset.bench import Bench, Progress, check, opened, write
from gpueval.testset.card import Card, mean_recall, rows_of, spread
from gpueval.testset.checks import Problem
from gpueval.testset.chunks import CHUNK_CHARACTERS, cut
from gpueval.testset.documents import read_corpus
from gpueval.testset.draw import orders
from gpueval.testset.folder import write_set
from gpueval.testset.graph import links
from gpueval.testset.items import Checked, Item, Order
from gpueval.testset.kinds import DEFAULT_MIX, Kind, quotas
from gpueval.testset.review import REJECTED
from gpueval.testset.sift import Kept, sift
from gpueval.testset.trust import measure
from gpueval.testset.update import STALE

_FIRST_YIELD, _LEAST_YIELD = 0.5, 0.15
"""Share of questions expected to pass: at first, and at least, so that a round stays bounded."""

MOST_WRITTEN = 8
"""Questions written of a kind per one that is wanted, at most: a writer that cannot do a kind ends there."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted.

    Attributes:
        n: Items.
        mix: Weight per kind.
        manners: Ways of wording, taken in turn.
        seed: Decides what is asked about.
        chunk_characters: Longest chunk.
        check: Drop what fails the checks; False keeps whatever can be read, to see what the checks are worth.
        most_written: Questions written of a kind per one that is wanted, at most.
    """

    n: int
    mix: Mapping[Kind, float] = field(default_factory=lambda: DEFAULT_MIX)
    manners: Sequence[Manner] = (Manner(),)
    seed: int = 0
    chunk_characters: int = CHUNK_CHARACTERS
    check: bool = True
    most_written: int = MOST_WRITTEN


def make_testset(
    corpus: Path | str,
    n: int,
    *,
    judge: str | Engine,
    embedder: str | Path | TextEncoder,
    out: Path | str,
    engine: str | None = None,
    engine_options: Mapping[str, Any] | None = None,
    device: str | None = None,
    progress: Progress = lambda stage, done, total: None,
    **wishes: Any,
) -> Card:
    """Make questions with answers and evidence from a folder of documents; kill it anywhere: the same call goes on.

    Args:
        corpus: Folder of text, Markdown, HTML, PDF and Word documents.
        n: Items wanted.
        judge: Model folder, server URL, ``scripted:RULES.jsonl`` or an engine: writes and checks.
        embedder: Sentence-transformers folder or an encoder: finds neighbours, copies and ranks.
        out: Folder for the set.
        engine: For a model folder, ``vllm`` or ``transformers``.
        engine_options: Arguments of the engine.
        device: Of the embedding model.
        progress: Called with stage, done and total.
        wishes: Further fields of :class:`Wish`.

    Raises:
        DataError: The folder holds nothing to read.
        UsageError: A wish cannot be met.
        PrerequisiteError: A model or a package is missing.
        EngineError: The judge answers nothing.
    """
    wish = Wish(n, **wishes)
    if wish.n < 1:
        raise UsageError(f"{wish.n} items were asked for; at least 1 is needed.")
    folder, began = Path(out), time.monotonic()
    with locked(folder):
        if touched := [name for name in (REJECTED, STALE) if (folder / name).exists()]:
            raise UsageError(
                f"The set in {folder} was reviewed or updated ({touched[0]}); making it anew would undo that.",
                "Choose another --out.",
            )
        read = read_corpus(Path(corpus))
        chunks = cut(read.documents, wish.chunk_characters)
        if not chunks:
            raise DataError("holds no text that can be cut into chunks", file=str(corpus))
        with opened(
            folder,
            chunks,
            judge,
            embedder,
            engine=engine,
            engine_options=engine_options,
            device=device,
            progress=progress,
        ) as bench:
            if wish.check:
                bench.trust = measure(bench.ask, bench.keys)
            wanted = quotas(wish.n, wish.mix)
            pairs = links(chunks, bench.vectors) if Kind.MULTI_HOP in wanted else ()
            sources = {kind: orders(kind, chunks, pairs, wish.manners, wish.seed) for kind in wanted}
            kept, dropped = _rounds(wanted, sources, bench, wish)
            facts = _facts(bench, wish, time.monotonic() - began)
            used, largest = spread(kept)
            card = Card(
                rows=rows_of(wanted, kept, dropped),
                solvability=mean_recall(kept),
                solvability_written=mean_recall([*kept, *dropped]),
                n_documents=len(read.documents),
                n_chunks=len(chunks),
                n_documents_used=used,
                largest_share=largest,
                trust=bench.trust,
                left_out=read.left_out,
                facts=facts,
            )
            write_set(folder, chunks, kept, dropped, card)
    return card


def _rounds(
    wanted: Mapping[Kind, int], sources: Mapping[Kind, Iterator[Order]], bench: Bench, wish: Wish
) -> tuple[list[Checked], list[Checked]]:
    """Write and check until every kind is full, its limit is reached, or nothing is left to ask about."""
    kept, dropped = Kept(), list[Checked]()
    n_written, n_read = dict.fromkeys(wanted, 0), 0
    while True:
        left = {kind: wanted[kind] - sum(one.item.kind is kind for one in kept.items) for kind in wanted}
        asked = [
            order
            for kind, source in sources.items()
            for order in islice(source, _next(left[kind], n_written[kind], wanted[kind], wish))
        ]
        if not asked and not sum(n_written.values()):
            raise DataError(
                "have no sentence that says enough to be asked about", file="the documents", remedy="Try other kinds."
            )
        if not asked:
            return kept.items, dropped
        found = write(asked, sum(n_written.values()) + 1, bench)
        for order in asked:
            n_written[order.kind] += 1
        n_read += sum(item is not None for item in found)
        if not n_read:
            raise EngineError(
                f"None of {len(found):,} questions could be read.",
                "See engine.log; a judge must be able to write JSON.",
            )
        dropped += [_unreadable(order) for order, item in zip(asked, found, strict=True) if item is None]
        items = [item for item in found if item is not None]
        checked = check(items, bench, lambda wording: wish.check and not wording)
        dropped += sift(checked, kept, left, checks=wish.check)


def _next(left: int, n_written: int, wanted: int, wish: Wish) -> int:
    """How many of a kind to write next, from how many of those written passed."""
    if left <= 0:
        return 0
    share = 1.0 if not wish.check else (wanted - left) / n_written if n_written else _FIRST_YIELD
    most = wanted * wish.most_written - n_written
    return max(0, min(ceil(left / max(share, _LEAST_YIELD)), most))


def _unreadable(order: Order) -> Checked:
    item = Item(id="", question="", group=str(order.kind), problems=(Problem.UNREADABLE,))
    return Checked(item, None, np.zeros(0, np.float32))


def _facts(bench: Bench, wish: Wish, took_s: float) -> dict[str, Any]:
    return {
        "gpueval": __version__,
        "prompts_version": {"writing_and_checks": asks.VERSION, "judging": prompts.VERSION},
        "judge": dict(bench.engine.facts()),
        "embedder": bench.encoder.fingerprint,
        "wish": asdict(wish),
        "replies": {kind: good for kind, (good, _) in bench.store.counts().items()},
        "took_s": took_s,
    }
