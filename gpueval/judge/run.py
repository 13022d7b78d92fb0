"""The judge's two rounds over a window of samples: plan, ask what is not stored, parse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from gpueval.engines.base import Embedder, Engine
from gpueval.fingerprint import digest, text_digest
from gpueval.judge import parse, prompts, windows
from gpueval.judge.plan import Draft, Keys, Slot, batches, first_round, needs_of, ordered, second_round
from gpueval.judge.store import Store
from gpueval.metrics import Metric
from gpueval.records import Claims, Completion, Judgments, Need, Request, Sample, State, Verdict

Progress = Callable[[str, int, int], None]
"""Called with the round's name, requests done and requests in all."""

_SIMILAR = (Need.SIMILAR_QUESTIONS, Need.SIMILAR_REFERENCE)


@dataclass(slots=True)
class Tally:
    """What a run asked of its engines."""

    n_requests: int = 0
    n_reused: int = 0
    n_asked_again: int = 0
    n_failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    n_verdicts: int = 0
    label_mass: float = 0.0

    @property
    def mean_label_mass(self) -> float | None:
        """Mean probability that the judge gave to its labels; None without verdicts."""
        return self.label_mass / self.n_verdicts if self.n_verdicts else None


class PlainReader:
    """The judge's limits as the engine gives them.

    Args:
        max_prompt_tokens: The judge's limit.
        count: The engine's token counter; None bounds a text by its bytes.
    """

    def __init__(self, max_prompt_tokens: int, count: Callable[[str], int] | None) -> None:
        self.max_prompt_tokens = max_prompt_tokens
        self._count = count

    def count_tokens(self, text: str) -> int:
        """Count tokens, or bytes without a counter."""
        return self._count(text) if self._count else len(text.encode("utf-8", "surrogatepass"))

    def windows(self, texts: tuple[str, ...], budget_tokens: int) -> tuple[str, ...]:
        """Lay out a passage; see :func:`gpueval.judge.windows.windows`."""
        return windows.windows(texts, budget_tokens, self)


class StoredReader:
    """The judge's limits, with token counts and window layouts remembered in the store, so that a rescore without a
    model lays passages out the same way.

    Args:
        store: The run's store.
        max_prompt_tokens: The judge's limit.
        count: The engine's token counter; None without an engine.
    """

    def __init__(self, store: Store, max_prompt_tokens: int, count: Callable[[str], int] | None) -> None:
        self.max_prompt_tokens = max_prompt_tokens
        self._store, self._engine = store, PlainReader(max_prompt_tokens, count)
        self._remembers = count is not None
        self._salt = max_prompt_tokens.to_bytes(8, "little")

    def count_tokens(self, text: str) -> int:
        """Count tokens, once per text."""
        key = digest(b"count", text_digest(text))
        known = self._store.fact(key)
        if known is not None:
            return int.from_bytes(known, "little")
        counted = self._engine.count_tokens(text)
        if self._remembers:
            self._store.remember(key, counted.to_bytes(8, "little"))
        return counted

    def windows(self, texts: tuple[str, ...], budget_tokens: int) -> tuple[str, ...]:
        """Lay out a passage, once per passage and budget."""
        if sum(map(len, texts)) * 4 + 128 * len(texts) <= budget_tokens:
            return self._engine.windows(texts, budget_tokens)
        key = digest(b"windows", self._salt, str(budget_tokens).encode(), *(text_digest(text) for text in texts))
        known = self._store.fact(key)
        if known is not None:
            return msgspec.msgpack.decode(known, type=tuple[str, ...])
        found = self._engine.windows(texts, budget_tokens)
        if self._remembers:
            self._store.remember(key, msgspec.msgpack.encode(found))
        return found


@dataclass(slots=True)
class Bench:
    """What the rounds work with.

    Attributes:
        store: Holds every reply.
        reader: The judge's limits.
        keys: Makes content keys.
        judge: Answers verdicts and generations; None to read from the store only.
        embedder: Answers similarities; None to read from the store only.
        extract: Claims by the judge (True) or by sentence (False).
        threshold: A verdict counts as yes at or above it.
        progress: Called as replies come.
    """

    store: Store
    reader: StoredReader
    keys: Keys
    judge: Engine | None
    embedder: Embedder | None
    extract: bool = False
    threshold: float = 0.5
    progress: Progress = lambda stage, done, total: None
    tally: Tally = field(default_factory=Tally)


def judge_window(samples: Sequence[Sample], metrics: Sequence[Metric], bench: Bench) -> list[Judgments]:
    """Judge a window of samples for all metrics.

    Returns:
        One record per sample, in order.

    Raises:
        EngineDied: The engine cannot be kept alive. Everything answered is in the store.
    """
    drafts = [Draft(sample, needs_of(sample, metrics)) for sample in samples]
    first = [
        request for draft in drafts for request in first_round(draft, bench.keys, bench.reader, extract=bench.extract)
    ]
    replies = _round("claims and questions", first, bench)
    for draft in drafts:
        _take_generated(draft, replies)
    second = [request for draft in drafts for request in second_round(draft, bench.keys, bench.reader)]
    verdicts = _round("verdicts", [request for request in second if request.ask is not prompts.SIMILAR], bench)
    masses = [sum(completion.labels) for completion in verdicts.values() if completion.labels]
    bench.tally.n_verdicts += len(masses)
    bench.tally.label_mass += sum(masses)
    similar = _round("similarities", [request for request in second if request.ask is prompts.SIMILAR], bench)
    bench.keys.forget()
    return [_judgments(draft, verdicts, similar, bench.threshold) for draft in drafts]


def _round(stage: str, requests: Iterable[Request], bench: Bench) -> dict[bytes, Completion]:
    """Ask what the store does not hold, then once more what failed."""
    asked = ordered(requests)
    if not asked:
        return {}
    engine = bench.embedder if asked[0].ask is prompts.SIMILAR else bench.judge
    found = bench.store.get([request.key for request in asked], with_failed=engine is None)
    bench.tally.n_requests += len(asked)
    bench.tally.n_reused += len(found)
    missing = [request for request in asked if request.key not in found]
    if engine is None or not missing:
        bench.progress(stage, len(asked), len(asked))
        return found
    _send(stage, engine, missing, found, bench, len(asked))
    again = [retry for request in missing if (retry := _retry(request, found.get(request.key), bench)) is not None]
    if again:
        bench.tally.n_asked_again += len(again)
        second: dict[bytes, Completion] = {}
        _send(f"{stage}, again", engine, [request for request, _ in again], second, bench, len(again))
        for request, original in again:
            reply = second.get(request.key)
            if reply is not None and not (_unusable(request, reply) and request.key != original):
                found[original] = msgspec.structs.replace(reply, key=original)
                bench.store.put(found[original], request.ask.kind)
    bench.store.commit()
    bench.tally.n_failed += sum(bool(found[request.key].failure) for request in missing if request.key in found)
    return found


def _send(
    stage: str,
    engine: Engine | Embedder,
    requests: Sequence[Request],
    found: dict[bytes, Completion],
    bench: Bench,
    total: int,
) -> None:
    kinds = {request.key: request.ask.kind for request in requests}
    done, tally = total - len(requests), bench.tally
    step = max(1, min(256, total // 100))
    for completion in engine.run(requests):
        found[completion.key] = completion
        bench.store.put(completion, kinds[completion.key])
        tally.prompt_tokens += completion.prompt_tokens
        tally.cached_tokens += completion.cached_tokens
        tally.output_tokens += completion.output_tokens
        done += 1
        if done % step == 0 or done == total:
            bench.progress(stage, done, total)
    bench.store.commit()


def _unusable(request: Request, completion: Completion) -> bool:
    if completion.failure:
        return True
    return bool(request.ask.schema) and parse.json_object(completion.text) is None


def _retry(request: Request, completion: Completion | None, bench: Bench) -> tuple[Request, bytes] | None:
    """Return the request to send once more and the key its reply stands for, or None.

    A generation that did not parse is asked with a cue and twice the room; a timeout or a transient error as it was;
    a reply that no repetition can change (overflow, a low label mass at temperature 0, a killer) not at all.
    """
    if completion is None:
        return request, request.key
    if completion.failure:
        transient = completion.failure in (State.TIMEOUT, State.ENGINE_ERROR) and not completion.fatal
        return (request, request.key) if transient else None
    short = request.ask is prompts.QUESTIONS and parse.questions(completion, prompts.N_QUESTIONS)[1] is not State.OK
    bad = request.ask is prompts.CLAIMS and parse.claims(completion, 99)[1] is not State.OK
    if not short and not bad:
        return None
    parts = (*request.parts, prompts.RETRY_CUE)
    room = request.max_tokens * 2
    return Request(bench.keys.of(request.ask, parts), request.ask, parts, room), request.key


def _take_generated(draft: Draft, replies: dict[bytes, Completion]) -> None:
    for side in ("answer", "reference"):
        if side not in draft.generated:
            continue
        telling = draft.sentences[side]
        pieces = batches(telling)
        read = [
            parse.claims(replies.get(key), len(batch)) for key, batch in zip(draft.generated[side], pieces, strict=True)
        ]
        bad = next((state for _, state in read if state is not State.OK), None)
        if bad is not None:
            draft.claims[side] = Claims((), bad)
            continue
        offset, found = 0, []
        for (items, _), batch in zip(read, pieces, strict=True):
            found += [(offset + i, text) for i, text in items]
            offset += len(batch)
        if found:
            draft.extracted[side] = tuple(found)
            draft.claims[side] = Claims(tuple(text for _, text in found))
        else:  # it cannot be taken apart: as a whole it is one claim
            draft.claims[side] = Claims((" ".join(telling),))
    if "questions" in draft.generated:
        reply = replies.get(draft.generated["questions"][0])
        draft.questions, draft.questions_state = parse.questions(reply, prompts.N_QUESTIONS)


def _judgments(
    draft: Draft, verdicts: dict[bytes, Completion], similar: dict[bytes, Completion], threshold: float
) -> Judgments:
    read: dict[Need, tuple[Verdict, ...]] = {}
    for need, slots in draft.slots.items():
        if need in _SIMILAR:
            read[need] = tuple(
                parse.similarity(similar.get(slot[0])) if isinstance(slot, tuple) else slot for slot in slots
            )
        else:
            read[need] = tuple(_read(slot, verdicts) for slot in slots)
    claims = dict(draft.claims)
    for side, entailed in draft.entailed.items():
        kept = [i for i, slot in enumerate(entailed) if _holds(_read(slot, verdicts), threshold)]
        n = len(entailed)
        if len(kept) == n:
            continue
        texts = claims[side].texts
        claims[side] = Claims(tuple(texts[i] for i in kept), n_dropped=n - len(kept))
        for need, row in read.items():
            if need.startswith(f"{side}/"):
                read[need] = tuple(row[k * n + i] for k in range(len(row) // n) for i in kept)
    return Judgments(claims, read, threshold)


def _holds(verdict: Verdict, threshold: float) -> bool:
    """Keep a claim unless its own sentence clearly does not say it; an unanswered check keeps it."""
    return verdict.p is None or verdict.p >= threshold


def _read(slot: Slot, verdicts: dict[bytes, Completion]) -> Verdict:
    if isinstance(slot, tuple):
        return parse.verdict([verdicts.get(key) for key in slot])
    return slot
