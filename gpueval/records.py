"""The records that travel through the house. All are immutable.

A :class:`Sample` comes in; :class:`Request` and :class:`Completion` go to and from an engine; :class:`Judgments` is
what a metric reads; a :class:`Cell` is what it returns; a :class:`Summary` is what a column of cells comes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec


class State(StrEnum):
    """How a cell (one sample, one metric) came out. Every cell has exactly one."""

    OK = "ok"
    PARTIAL = "partial"
    """Some verdicts are missing after they were asked again: a value with bounds."""
    NO_CLAIMS = "no_claims"
    NO_CONTEXT = "no_context"
    ABSTAINED = "abstained"
    NOT_APPLICABLE = "not_applicable"
    """The sample lacks a field that the metric needs."""
    PARSE_FAILED = "parse_failed"
    TRUNCATED = "truncated"
    INVALID_VERDICT = "invalid_verdict"
    """The judge gave its labels too little probability for a verdict to mean something."""
    CONTEXT_OVERFLOW = "context_overflow"
    NOT_SAMPLED = "not_sampled"
    """Left out because the samples drawn before it, at random, made the metric's interval narrow enough."""
    TIMEOUT = "timeout"
    ENGINE_ERROR = "engine_error"


FAILURES = frozenset(
    {
        State.PARSE_FAILED,
        State.TRUNCATED,
        State.INVALID_VERDICT,
        State.CONTEXT_OVERFLOW,
        State.TIMEOUT,
        State.ENGINE_ERROR,
    }
)
"""States in which the evaluator, not the system under test, came up short."""


class Need(StrEnum):
    """The judgments a metric can ask for.

    The first seven are columns of the support matrix ``p(claim is supported by passage)``.
    """

    ANSWER_BY_ALL = "answer/all"
    """Every answer claim against all retrieved chunks together."""
    ANSWER_BY_CHUNK = "answer/chunk"
    """Every answer claim against each retrieved chunk alone."""
    ANSWER_BY_SOURCE = "answer/source"
    """Every answer claim against each source document alone (its retrieved chunks together)."""
    ANSWER_BY_REFERENCE = "answer/reference"
    REFERENCE_BY_ALL = "reference/all"
    REFERENCE_BY_CHUNK = "reference/chunk"
    REFERENCE_BY_ANSWER = "reference/answer"
    USEFUL_FOR_REFERENCE = "useful/reference"
    """Each chunk: useful for reaching the reference answer."""
    USEFUL_FOR_ANSWER = "useful/answer"
    RELEVANT_SENTENCE = "relevant/sentence"
    """Each sentence of each chunk: helps to answer the question."""
    RELEVANT_CHUNK = "relevant/chunk"
    RESPONDS = "responds"
    """The answer gives, right or wrong, what the question asks for; else it is evasive."""
    SIMILAR_QUESTIONS = "similar/questions"
    """Cosine of the question with each of three questions written from the answer alone."""
    SIMILAR_REFERENCE = "similar/reference"
    """Cosine of answer and reference."""
    TOKENS_REFERENCE = "similar/tokens"
    """Token by token: each one's most similar token on the other side, answer against reference."""


SUPPORT_NEEDS = frozenset(need for need in Need if need.startswith(("answer/", "reference/")))
"""Columns of the support matrix: verdicts on claims."""

BY_EMBEDDER_ALONE = frozenset({Need.SIMILAR_REFERENCE, Need.TOKENS_REFERENCE})
"""What the embedding model answers about texts that are given: no judge has a part in it."""


class Passage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One retrieved chunk. ``source`` names the document it was cut from."""

    text: str
    id: str | None = None
    source: str | None = None


class Sample(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One question with what a RAG system made of it. None means the field was not given; ``()`` means empty."""

    id: str
    question: str | None = None
    answer: str | None = None
    contexts: tuple[Passage, ...] | None = None
    reference: str | None = None
    answerable: bool | None = None
    group: str | None = None
    retrieved_ids: tuple[str, ...] | None = None
    relevant_ids: tuple[str, ...] | None = None
    extra: dict[str, Any] = {}


class Ask(msgspec.Struct, frozen=True):
    """What is asked of an engine, apart from the data: one object for all requests of a kind.

    Attributes:
        kind: Name of the judgment, also used by scripted engines.
        system: The system text, the same for every request of the kind.
        labels: For a one-token verdict: per label its surface forms; the first label is the positive one.
        schema: For generation: the JSON schema of the reply, as text.
    """

    kind: str
    system: str
    labels: tuple[tuple[str, ...], ...] = ()
    schema: str = ""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One question to an engine.

    Attributes:
        key: 16-byte content hash of everything that decides the reply, the model included.
        ask: What is asked.
        parts: The user text in pieces, those shared with other requests first. For similarity: the two texts.
        max_tokens: Limit of the reply in tokens.
    """

    key: bytes
    ask: Ask
    parts: tuple[str, ...]
    max_tokens: int = 1


class Completion(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """An engine's reply to the request with the same ``key``; packed as an array in the store.

    Attributes:
        text: Generated text.
        labels: Probability of each label of the request, summed over its surface forms.
        value: A number computed by the engine (cosine similarity).
        finish: ``"stop"`` or ``"length"``.
        failure: A failure state's name, or empty.
        message: What the engine said about the failure.
        fatal: The request killed the engine; it is not asked again.
        prompt_tokens, cached_tokens, output_tokens: Counts of tokens.
    """

    key: bytes
    text: str = ""
    labels: tuple[float, ...] = ()
    value: float | None = None
    finish: str = "stop"
    failure: str = ""
    message: str = ""
    fatal: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """One judged cell. ``p`` is None exactly when ``state`` is a failure.

    Attributes:
        p: Probability of the positive label, or a cosine clipped to [0, 1].
        state: ``State.OK`` or a failure.
        mass: Probability that the judge gave to all labels together.
        unsure: The judge's strongest label was "cannot tell".
        windows: Number of windows the passage was read in; ``p`` is their maximum.
        p_checker: Probability that the checker gave, where there is one.
        tier: Who decided: the judge, or the checker alone.
    """

    p: float | None
    state: State = State.OK
    mass: float = 1.0
    unsure: bool = False
    windows: int = 1
    p_checker: float | None = None
    tier: Literal["judge", "checker"] = "judge"


class Claims(msgspec.Struct, frozen=True):
    """The claims of one text. ``n_dropped`` counts generated claims that their own sentence does not entail."""

    texts: tuple[str, ...] = ()
    state: State = State.OK
    abstains: bool = False
    n_dropped: int = 0


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The sentence of one chunk that says most of a claim.

    Attributes:
        chunk: Position of the chunk, from 0.
        sentence: Its text.
        share: How much of the claim it holds, 0 to 1.
    """

    chunk: int
    sentence: str
    share: float


class Judgments(msgspec.Struct, frozen=True):
    """Everything judged about one sample.

    Attributes:
        claims: Per side (``"answer"``, ``"reference"``) its claims.
        verdicts: Per need its verdicts. A matrix is stored flat, passage after passage: the verdict of claim ``i``
            on passage ``k`` stands at ``k * n_claims + i``.
        threshold: A verdict counts as yes when ``p >= threshold``.
        evidence: Per side and claim the best sentence of every chunk that holds text; empty where no claim was held
            against the chunks.
    """

    claims: Mapping[str, Claims]
    verdicts: Mapping[Need, tuple[Verdict, ...]]
    threshold: float = 0.5
    evidence: Mapping[str, tuple[tuple[Evidence, ...], ...]] = {}


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One metric of one sample: a value, or the named state that says why there is none.

    Attributes:
        value: The score, or None.
        state: See :class:`State`.
        low, high: Bounds of the value when verdicts are missing (missing as 0 and as 1).
        claims: Per claim ``{"text", "p", "supported", "evidence"}``.
        detail: Further numbers of the metric.
    """

    value: float | None
    state: State = State.OK
    low: float | None = None
    high: float | None = None
    claims: tuple[dict[str, Any], ...] = ()
    detail: dict[str, Any] = {}


class Summary(msgspec.Struct, frozen=True):
    """A column of cells.

    Attributes:
        mean: Mean over the scored cells; None when there is none.
        ci_low, ci_high: 95 % bootstrap interval of the mean; None below two scored cells.
        n_scored, n_total: Cells with a value, and all cells.
        lower_bound, upper_bound: The mean with every failed cell as 0 and as 1.
        states: Count per state.
    """

    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_scored: int
    n_total: int
    lower_bound: float | None
    upper_bound: float | None
    states: dict[str, int]
