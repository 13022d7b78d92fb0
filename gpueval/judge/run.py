"""The judge's rounds over a window of samples: plan, ask what is not stored, parse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields

import msgspec

from gpueval.engines.base import Embedder, Engine
from gpueval.judge import parse, prompts
from gpueval.judge.assemble import Limits, Replies, judgments, settled_keys
from gpueval.judge.plan import (
    CLAIM_BATCH_SENTENCES,
    Draft,
    Keys,
    batches,
    first_round,
    needs_of,
    ordered,
    second_round,
    similar_questions,
)
from gpueval.judge.reader import StoredReader
from gpueval.judge.store import Store
from gpueval.metrics import Metric
from gpueval.records import Claims, Completion, Judgments, Request, Sample, State

Progress = Callable[[str, int, int], None]
"""Called with the round's name, requests done and requests in all."""


@dataclass(slots=True)
class Tally:
    """What a run asked of its engines; ``n_settled`` verdicts the checker spared the judge."""

    n_requests: int = 0
    n_reused: int = 0
    n_asked_again: int = 0
    n_failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    n_verdicts: int = 0
    label_mass: float = 0.0
    judge_s: float = 0.0
    n_checked: int = 0
    n_settled: int = 0
    checker_s: float = 0.0

    @property
    def mean_label_mass(self) -> float | None:
        """Mean probability that the judge gave to its labels; None without verdicts."""
        return self.label_mass / self.n_verdicts if self.n_verdicts else None

    def add(self, other: Tally) -> None:
        """Count another window's requests in."""
        for one in fields(Tally):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class Bench:
    """What the rounds work with.

    Attributes:
        store: Holds every reply.
        reader: The judge's limits.
        keys: Makes content keys.
        judge: Answers verdicts and generations; None to read from the store only.
        embedder: Answers similarities; None to read from the store only.
        checker: Answers checks; None to read from the store only.
        check: There is a checker: it sees every claim first.
        band: The judge is asked where the checker's probability lies within; None leaves all to the checker.
        extract: Claims by the judge (True) or by sentence (False).
        threshold: A verdict counts as yes at or above it.
        align: Find the evidence of claims with the embedding model; else by words.
        guard: Keep from the judge what speaks to it in answers; see :class:`gpueval.judge.plan.Draft`.
        sure_from: A window that says yes at this probability decides although another window failed.
        progress: Called as replies come.
    """

    store: Store
    reader: StoredReader
    keys: Keys
    judge: Engine | Embedder | None
    embedder: Embedder | None
    checker: Embedder | None = None
    check: bool = False
    band: tuple[float, float] | None = None
    extract: bool = False
    threshold: float = 0.5
    align: bool = False
    guard: bool = True
    sure_from: float = 0.5
    progress: Progress = lambda stage, done, total: None
    tally: Tally = field(default_factory=Tally)


def judge_window(samples: Sequence[Sample], metrics: Sequence[Metric], bench: Bench) -> list[Judgments]:
    """Judge a window of samples for all metrics.

    The judge is called once with everything, verdicts and reverse questions together: while one request writes, others
    are read. Only claims that it extracts itself are asked before, as the verdicts are about them.

    Returns:
        One record per sample, in order.

    Raises:
        EngineDied: The engine cannot be kept alive. Everything answered is in the store.
    """
    drafts = [Draft(sample, needs_of(sample, metrics), bench.guard) for sample in samples]
    first = [
        request for draft in drafts for request in first_round(draft, bench.keys, bench.reader, extract=bench.extract)
    ]
    generated: dict[bytes, Completion] = {}
    if bench.extract:
        generated = _round("claims and questions", first, bench)
        for draft in drafts:
            _take_claims(draft, generated)
        first = []
    second = [
        request
        for draft in drafts
        for request in second_round(draft, bench.keys, bench.reader, align=bench.align, check=bench.check)
    ]
    checks = _round("checks", [request for request in second if request.ask.kind == prompts.CHECK.kind], bench)
    others = prompts.BY_EMBEDDER | {prompts.CHECK.kind}
    judged = [request for request in second if request.ask.kind not in others]
    if bench.check:
        spared = settled_keys(drafts, checks, bench.band)
        bench.tally.n_checked += len(checks)
        judged = [request for request in judged if request.key not in spared]
        bench.tally.n_settled += len(spared)
    verdicts = _round("questions and verdicts" if first else "verdicts", [*first, *judged], bench)
    similar_asked = [request for request in second if request.ask.kind in prompts.BY_EMBEDDER]
    for draft in drafts:
        _take_questions(draft, generated if bench.extract else verdicts)
        similar_asked += similar_questions(draft, bench.keys)
    masses = [sum(completion.labels) for completion in verdicts.values() if completion.labels]
    bench.tally.n_verdicts += len(masses)
    bench.tally.label_mass += sum(masses)
    similar = _round("similarities", similar_asked, bench)
    bench.keys.forget()
    replies = Replies(verdicts, checks, similar)
    limits = Limits(bench.threshold, bench.sure_from, bench.band)
    return [judgments(draft, replies, limits) for draft in drafts]


def _round(stage: str, requests: Iterable[Request], bench: Bench) -> dict[bytes, Completion]:
    """Ask what the store does not hold, then once more what failed."""
    asked = ordered(requests)
    if not asked:
        return {}
    kind = asked[0].ask.kind
    engine: Engine | Embedder | None = bench.judge
    if kind in prompts.BY_EMBEDDER:
        engine = bench.embedder
    elif kind == prompts.CHECK.kind:
        engine = bench.checker
    found = bench.store.get([request.key for request in asked], with_failed=engine is None)
    bench.tally.n_requests += len(asked)
    bench.tally.n_reused += len(found)
    if engine is None:
        bench.progress(stage, len(asked), len(asked))
        return found
    missing = [request for request in asked if request.key not in found]
    to_look_at = [request for request in asked if request.ask.schema or request.key not in found]
    if missing:
        _send(stage, engine, missing, found, bench, len(asked))
    else:
        bench.progress(stage, len(asked), len(asked))
    again = [
        (retry, request)
        for request in to_look_at
        if (retry := _retry(request, found.get(request.key), bench)) is not None
    ]
    if again:
        _ask_again(stage, engine, again, found, bench)
    bench.tally.n_failed += sum(bool(found[request.key].failure) for request in missing if request.key in found)
    return found


def _ask_again(
    stage: str,
    engine: Engine | Embedder,
    again: Sequence[tuple[Request, Request]],
    found: dict[bytes, Completion],
    bench: Bench,
) -> None:
    """Send each retry that no earlier run has sent, and keep its reply where it is the better one."""
    second = bench.store.get([retry.key for retry, request in again if retry.key != request.key])
    open_retries = [retry for retry, _ in again if retry.key not in second]
    bench.tally.n_asked_again += len(open_retries)
    if open_retries:
        _send(f"{stage}, again", engine, open_retries, second, bench, len(open_retries))
    for retry, request in again:
        reply, first = second.get(retry.key), found.get(request.key)
        if reply is not None and (first is None or _worth(request, reply) > _worth(request, first)):
            found[request.key] = msgspec.structs.replace(reply, key=request.key)
            bench.store.put(found[request.key], request.ask.kind)
    bench.store.commit()


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


def _worth(request: Request, completion: Completion) -> int:
    """Rank replies to one request: a failure, then by how much of a generation can be read."""
    if completion.failure:
        return -1
    if request.ask is prompts.QUESTIONS:
        return len(parse.questions(completion, prompts.N_QUESTIONS)[0])
    if request.ask is prompts.CLAIMS:
        return int(parse.claims(completion, CLAIM_BATCH_SENTENCES)[1] is State.OK)
    return 0


def _retry(request: Request, completion: Completion | None, bench: Bench) -> Request | None:
    """Return the request to send once more, or None.

    A generation that did not parse is asked with a cue and twice the room; a timeout or a transient error as it was;
    a reply that no repetition can change (overflow, a low label mass at temperature 0, a killer) not at all.
    """
    if completion is None:
        return request
    if completion.failure:
        transient = completion.failure in (State.TIMEOUT, State.ENGINE_ERROR) and not completion.fatal
        return request if transient else None
    whole = {prompts.QUESTIONS.kind: prompts.N_QUESTIONS, prompts.CLAIMS.kind: 1}.get(request.ask.kind, 0)
    if _worth(request, completion) >= whole:
        return None
    parts = (*request.parts, prompts.RETRY_CUE)
    return Request(bench.keys.of(request.ask, parts), request.ask, parts, request.max_tokens * 2)


def _take_claims(draft: Draft, replies: dict[bytes, Completion]) -> None:
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


def _take_questions(draft: Draft, replies: dict[bytes, Completion]) -> None:
    if "questions" in draft.generated:
        reply = replies.get(draft.generated["questions"][0])
        draft.questions, draft.questions_state = parse.questions(reply, prompts.N_QUESTIONS)
