"""What the rounds of a test set work with, and the rounds themselves: write, check, find the evidence again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpueval import engines
from gpueval.engines.base import Engine
from gpueval.engines.text_encoder import TextEncoder, Vectors
from gpueval.judge.answers import answers
from gpueval.judge.plan import Keys
from gpueval.judge.store import Store
from gpueval.records import Completion, Request
from gpueval.retrieval.nearest import encoded
from gpueval.testset import asks
from gpueval.testset.checks import (
    NEAR_CHUNKS,
    Check,
    Problem,
    Questions,
    closed_support,
    problems_of_substance,
    questions_about,
    share_supported,
)
from gpueval.testset.chunks import Chunk
from gpueval.testset.items import Checked, Item, Order, written
from gpueval.testset.kinds import Kind
from gpueval.testset.trust import Trust
from gpueval.testset.wording import problems_of_wording
from gpueval_kernels import cosine_topk

Progress = Callable[[str, int, int], None]

PLACES = 100
"""Places of the plain retriever's list in which the evidence is looked for."""

_EASY, _MEDIUM, _HARD = 1, 5, 20
_WRITER_TOKENS = 320


@dataclass(slots=True)
class Bench:
    """Models, store and corpus.

    Attributes:
        engine: Writes and judges.
        encoder: Embeds questions and chunks.
        store: Keeps every reply.
        chunks: The corpus.
        vectors: (chunks, dimensions) of length 1.
        progress: Called with stage, done and total.
        keys: Makes content keys.
        trust: Per check how good the judge is at it (:func:`~gpueval.testset.trust.measure`), and from where it counts.
    """

    engine: Engine
    encoder: TextEncoder
    store: Store
    chunks: Sequence[Chunk]
    vectors: Vectors
    progress: Progress = lambda stage, done, total: None
    keys: Keys = field(init=False)
    trust: Mapping[Check, Trust] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = Keys(self.engine.fingerprint, self.encoder.fingerprint)

    def ask(self, requests: Sequence[Request], stage: str) -> dict[bytes, Completion]:
        """Answer requests from the store or by the engine."""
        return answers(requests, self.engine, self.store, stage, self.progress)

    @property
    def thresholds(self) -> dict[Check, float | None]:
        """Of the checks that are used."""
        return {check: one.threshold if one.used else None for check, one in self.trust.items()}

    def nearest(self, questions: Vectors, k: int) -> list[list[int]]:
        """Positions of the k chunks nearest to each question, best first."""
        if not len(questions):
            return []
        found = cosine_topk(questions, self.vectors, min(k, len(self.chunks)))
        return [[i for i in row if i >= 0] for row in found.ids.tolist()]


@contextmanager
def opened(
    folder: Path,
    chunks: Sequence[Chunk],
    judge: str | Engine,
    embedder: str | Path | TextEncoder,
    *,
    engine: str | None,
    engine_options: Mapping[str, Any] | None,
    device: str | None,
    progress: Progress,
) -> Iterator[Bench]:
    """Encode the corpus, open the folder's store and start the judge; what the caller started stays the caller's.

    Raises:
        PrerequisiteError: A model or a package is missing.
        EngineError: The judge does not start.
    """
    log = folder / "engine.log"
    with ExitStack() as stack:
        if isinstance(embedder, str | Path):
            embedder = TextEncoder(engines.model_folder(str(embedder)), device=device, log=log)
        vectors = encoded([chunk.text for chunk in chunks], embedder, progress=progress)
        store = stack.enter_context(Store(folder / "judgments.sqlite"))
        if isinstance(judge, str):
            judge = engines.start(judge, engine=engine, options=dict(engine_options or {}), log=log)
            stack.callback(judge.close)
        yield Bench(judge, embedder, store, chunks, vectors, progress)


def write(orders: Sequence[Order], first: int, bench: Bench) -> list[Item | None]:
    """Have questions written; None where the reply could not be read.

    Args:
        orders: What to write.
        first: Number of the first, for ids.
        bench: Models and store.
    """
    requests = []
    for order in orders:
        ask = asks.writer(order.kind, order.manner)
        parts = asks.writer_parts(order.kind, [bench.chunks[i].text for i in order.chunks], order.focus)
        requests.append(Request(bench.keys.of(ask, parts), ask, parts, _WRITER_TOKENS))
    replies = bench.ask(requests, "questions")
    return [
        written(order, bench.chunks, replies.get(request.key), f"{order.kind}-{number:04}")
        for number, (order, request) in enumerate(zip(orders, requests, strict=True), start=first)
    ]


def check(items: Sequence[Item], bench: Bench, about: Callable[[Sequence[Problem]], bool]) -> list[Checked]:
    """Check items, in three rounds of the judge, and find the place of their evidence.

    Args:
        items: Items.
        bench: Models and store.
        about: Given the problems found so far: is the judge asked further about the item?
    """
    vectors = bench.encoder.encode([item.standalone for item in items], "query")
    lists = bench.nearest(vectors, PLACES)
    ranks = [rank_of(item, places, bench.chunks) for item, places in zip(items, lists, strict=True)]
    items = [msgspec.structs.replace(item, rank=rank) for item, rank in zip(items, ranks, strict=True)]
    wording = [problems_of_wording(item) for item in items]
    planned: dict[int, Questions] = {}
    for i, item in enumerate(items):
        if about(wording[i]):
            near = [bench.chunks[k].text for k in lists[i][:NEAR_CHUNKS]] if item.kind is Kind.UNANSWERABLE else []
            planned[i] = questions_about(item, near, bench.keys)
    replies = bench.ask([one for questions in planned.values() for one in questions.first()], "checks")
    passed = {i: one for i, one in planned.items() if about(problems_of_substance(one, (), replies, bench.thresholds))}
    replies |= bench.ask([one for questions in passed.values() for one in questions.second()], "checks of what passed")
    closed = {i: closed_support(questions, replies, bench.keys) for i, questions in passed.items()}
    replies |= bench.ask([one for some in closed.values() for one in some], "checks, without documents")
    found = []
    for i, item in enumerate(items):
        problems, recall = wording[i], None
        if i in planned:
            substance = problems_of_substance(
                planned[i], closed.get(i, ()), replies, bench.thresholds, whole=i in passed
            )
            problems = tuple(dict.fromkeys((*problems, *substance)))
            recall = share_supported(planned[i], replies, bench.thresholds)
        done = msgspec.structs.replace(
            item, difficulty=difficulty(item.rank) if item.answerable else "", problems=problems
        )
        found.append(Checked(done, recall, vectors[i]))
    return found


def rank_of(item: Item, places: Sequence[int], chunks: Sequence[Chunk]) -> int | None:
    """Place, from 1, of the item's evidence in a list of chunks: the last of several; None where one is not there."""
    at = {chunks[i].id: place for place, i in enumerate(places, start=1)}
    wanted = [at.get(name) for name in item.relevant_ids]
    if not wanted or None in wanted:
        return None
    return max(place for place in wanted if place is not None)


def difficulty(rank: int | None) -> str:
    """Name a rank: first place is easy, up to 5 medium, up to 20 hard, beyond that very hard."""
    if rank is None or rank > _HARD:
        return "very hard"
    return "easy" if rank <= _EASY else "medium" if rank <= _MEDIUM else "hard"
