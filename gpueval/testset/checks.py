"""Is an item worth keeping? What is asked of the judge about it, and how the replies are read. Pure.

Rules of words come first and cost nothing; only what passes them is asked of the judge, all items at once: first what
most fail at, then the rest of those that pass. A last, short round holds what the judge knows by itself against the
reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpueval.judge import prompts
from gpueval.judge.claims import from_sentences
from gpueval.judge.parse import verdict
from gpueval.judge.plan import Keys
from gpueval.judge.sentences import sentences
from gpueval.metrics.abstention import abstains
from gpueval.records import Ask, Completion, Request
from gpueval.testset import asks
from gpueval.testset.items import Item
from gpueval.testset.kinds import Kind

NEAR_CHUNKS = 5
"""Chunks nearest to an unanswerable question that must not answer it."""


class Check(StrEnum):
    """What the judge is asked; each has a threshold of its own (:mod:`gpueval.testset.trust`)."""

    ALONE = "alone"
    """The question can be understood alone."""
    SUPPORTED = "supported"
    """The evidence holds the reference."""
    RESPONDS = "responds"
    """The reference gives what is asked for."""
    ANSWERED = "answered"
    """Meant to be unanswerable, and a chunk of the corpus answers it."""
    """A chunk answers the question."""
    KNOWN = "known"
    """The judge gives the reference without seeing anything."""
    """What the judge says without a document holds the reference."""


Thresholds = Mapping[Check, float | None]
"""Per check the probability from which a verdict counts as yes; None where this judge only guesses."""


class Problem(StrEnum):
    """Why an item is dropped; an item has all that apply, and is counted under the first."""

    UNREADABLE = "unreadable"
    """The writer's reply could not be read, or a field was empty."""
    LEANS = "not self-contained"
    """It speaks of 'the document', or does not say whom or what it is about."""
    LEAKS = "answer in the question"
    """The question already holds what the reference says."""
    NO_FOLLOW_UP = "follow-up does not lean on the first question"
    """The last question can be understood without the first."""
    COPIED = "question copied from the chunk"
    """The question is a sentence of the chunk, or no question at all."""
    UNSUPPORTED = "reference not supported by its evidence"
    """The judge finds a claim of the reference that the evidence does not hold."""
    OFF = "reference does not answer the question"
    """The judge finds that the reference does not give what is asked for."""
    NOT_ANSWERED = "evidence does not answer the question"
    """The judge does not find the answer in the evidence."""
    ONE_IS_ENOUGH = "one chunk is enough"
    """Asked over two chunks, and one of them alone answers it."""
    ANSWERED = "answered in the corpus after all"
    KNOWN = "known without any document"
    REPEATED = "same or nearly the same as another"
    """A question kept before asks the same."""
    NOT_JUDGED = "the judge failed"
    """A verdict is missing; the same command asks again."""
    SPARE = "more than were asked for"
    """Good, and the number of its kind was reached."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The judge's questions about one item.

    Attributes:
        item: The item.
        supported: Per claim of the reference: does the evidence hold it?
        responds: Does the reference give what is asked for?
        whole: Does the evidence, all together, answer the question?
        parts: Does each chunk alone? Of an unanswerable question: the chunks nearest to it.
        alone: Can the question be understood alone?
        closed: What the judge says without a document.
    """

    item: Item
    supported: tuple[Request, ...] = ()
    responds: Request | None = None
    whole: Request | None = None
    parts: tuple[Request, ...] = ()
    alone: Request | None = None
    closed: Request | None = None

    def first(self) -> Iterator[Request]:
        """What most items fail at."""
        yield from self.supported
        yield from (one for one in (self.responds, self.alone) if one is not None)

    def second(self) -> Iterator[Request]:
        """What is asked of those that pass."""
        yield from (one for one in (self.whole, self.closed) if one is not None)
        yield from self.parts


def questions_about(item: Item, near: Sequence[str], keys: Keys) -> Questions:
    """Plan the first two rounds.

    Args:
        item: The item.
        near: Texts of the chunks nearest to an unanswerable question, over the whole corpus.
        keys: Makes content keys.
    """
    texts = tuple(one.text for one in item.evidence)
    asked = item.standalone

    def answerable(some: Sequence[str]) -> Request:
        return _request(asks.ANSWERABLE, asks.answerable_parts(some, asked), keys)

    alone = _request(asks.ALONE, asks.alone_parts(asked), keys)
    if item.kind is Kind.UNANSWERABLE:
        return Questions(item, parts=tuple(answerable([text]) for text in dict.fromkeys((*texts, *near))), alone=alone)
    reference = item.reference or ""
    return Questions(
        item,
        supported=tuple(_supports(texts, asked, claim, keys) for claim in claims_of(reference)),
        responds=_request(prompts.RESPONDS, (prompts.question(asked), prompts.responds_tail(reference)), keys),
        whole=answerable(texts),
        parts=tuple(answerable([text]) for text in texts) if len(texts) > 1 else (),
        alone=alone,
        closed=_request(asks.CLOSED, (prompts.fenced("question", asked),), keys, asks.CLOSED_TOKENS),
    )


def closed_support(questions: Questions, replies: Mapping[bytes, Completion], keys: Keys) -> tuple[Request, ...]:
    """Plan the third round: does what the judge says without a document hold every claim of the reference?"""
    if questions.closed is None:
        return ()
    said = replies.get(questions.closed.key)
    text = said.text.strip() if said is not None and not said.failure else ""
    if not text or abstains(sentences(text)):
        return ()
    claims = claims_of(questions.item.reference or "")
    return tuple(_supports((text,), questions.item.standalone, claim, keys) for claim in claims)


def problems_of_substance(
    questions: Questions,
    closed: Sequence[Request],
    replies: Mapping[bytes, Completion],
    thresholds: Thresholds,
    *,
    whole: bool = False,
) -> tuple[Problem, ...]:
    """Read the replies.

    Args:
        questions: What was asked.
        closed: The third round's requests.
        replies: Every reply so far.
        thresholds: Per check; a check without one finds nothing.
        whole: The second round was asked, too.
    """

    def says_yes(check: Check, requests: Iterable[Request | None]) -> list[bool | None]:
        threshold = thresholds[check]
        if threshold is None:
            return []
        found = [verdict([replies.get(one.key)]).p for one in requests if one is not None]
        return [None if p is None else p >= threshold for p in found]

    unanswerable = questions.item.kind is Kind.UNANSWERABLE
    alone = says_yes(Check.ALONE, [questions.alone])
    supported = says_yes(Check.SUPPORTED, questions.supported)
    responds = says_yes(Check.RESPONDS, [questions.responds])
    answered = says_yes(Check.ANSWERED, [questions.whole]) if whole else []
    parts = says_yes(Check.ANSWERED, questions.parts) if whole else []
    known = says_yes(Check.KNOWN, closed)
    said = replies.get(questions.closed.key) if questions.closed else None
    asked_closed = whole and questions.closed is not None and thresholds[Check.KNOWN] is not None
    lost = asked_closed and (said is None or bool(said.failure))
    found = {
        Problem.LEANS: False in alone,
        Problem.UNSUPPORTED: False in supported or not (questions.supported or unanswerable),
        Problem.OFF: False in responds,
        Problem.NOT_ANSWERED: False in answered,
        Problem.ANSWERED if unanswerable else Problem.ONE_IS_ENOUGH: True in parts,
        Problem.KNOWN: bool(known) and all(known),
        Problem.NOT_JUDGED: lost or None in (*alone, *supported, *responds, *answered, *parts, *known),
    }
    return tuple(problem for problem, there in found.items() if there)


def share_supported(questions: Questions, replies: Mapping[bytes, Completion], thresholds: Thresholds) -> float | None:
    """Share of the reference's claims that the evidence holds: context recall with the true evidence.

    None for an unanswerable question, where a verdict is missing, and where the judge only guesses.
    """
    found, threshold = [verdict([replies.get(one.key)]).p for one in questions.supported], thresholds[Check.SUPPORTED]
    if not found or None in found or threshold is None:
        return None
    return sum(p is not None and p >= threshold for p in found) / len(found)


def claims_of(reference: str) -> tuple[str, ...]:
    """The claims of a reference: its sentences that say something."""
    return from_sentences(sentences(reference))


def _supports(texts: Sequence[str], question: str, claim: str, keys: Keys) -> Request:
    parts = (prompts.documents(texts), prompts.question(question), prompts.support_tail(claim))
    return _request(prompts.SUPPORT, parts, keys)


def _request(ask: Ask, parts: tuple[str, ...], keys: Keys, max_tokens: int = 1) -> Request:
    return Request(keys.of(ask, parts), ask, parts, max_tokens)
