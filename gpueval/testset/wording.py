"""What the words of an item alone tell: no model is asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpueval.judge.sentences import sentences
from gpueval.metrics.wording import is_number, named_places, telling, tokens_of, words
from gpueval.testset.checks import Problem
from gpueval.testset.graph import entities
from gpueval.testset.items import Item
from gpueval.testset.kinds import Kind

_STEM = 3
"""Letters of a word that another one may continue."""

_TEXTS = r"(?:documents?|texts?|passages?|sentences?|excerpts?|paragraphs?|snippets?|articles?|sections?)"
_WHICH = r"(?:above|given|provided|following|first|second|whole|entire|two)"
_SPEAKS_OF_TEXT = re.compile(
    rf"\b(?:the|these|both|each) (?:{_WHICH} )*{_TEXTS}\b(?! of\b)|\bthis (?:\w+ )?{_TEXTS}\b"
    r"|\b(?:mentioned|described|stated|discussed) (?:above|below|here|earlier)\b"
    r"|\b(?:das dokument|textabschnitt|im text|im dokument|laut text|dans le texte|le document|el documento|el texto|"
    r"il documento|nel testo)\b|文档|本文中|この文書",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:did|does|do|is|was|were|are|has|had|can|will|must|may) "
    r"(?:he|she|they|this|these|those|that(?= \w+\W*$)|it(?! (?:cost|take)\b| \w+ (?:that|to|for|if)\b))\b"
    r"|^(?:who|what|when|where|why|how|which) (?:\w+ )?(?:he|she|they)\b"
    r"|\bthe (?:author|speaker|narrator|writer)s?\b(?! of\b)",
    re.IGNORECASE,
)


def problems_of_wording(item: Item) -> tuple[Problem, ...]:
    """Find what can be told from the words alone; a question without a name passes where the plain retriever puts its
    evidence first: it says enough to be found.
    """
    return tuple(_wording(item))


def _wording(item: Item) -> Iterator[Problem]:
    question = item.standalone
    lost = item.rank != 1 and names_nothing(question, [one.text for one in item.evidence])
    if lost or leans(question):
        yield Problem.LEANS
    if item.reference is not None and holds(question, item.reference):
        yield Problem.LEAKS
    if item.kind is Kind.FOLLOW_UP and item.history and not _is_shorter(item.question, question):
        yield Problem.NO_FOLLOW_UP
    bare = question.strip().rstrip("?").casefold()
    if any(bare == part.strip().rstrip(".?").casefold() for one in item.evidence for part in sentences(one.text)):
        yield Problem.COPIED


def holds(question: str, reference: str) -> bool:
    """Whether a question holds every telling word of a reference, endings apart: "found" and "founded" are one."""
    asked, told = words(question), telling(reference)
    return bool(told) and all(any(_same(one, other) for other in asked) for one in told)


def _same(one: str, other: str) -> bool:
    if is_number(one) or min(len(one), len(other)) < _STEM:
        return one == other
    return one.startswith(other) or other.startswith(one)


def leans(question: str) -> bool:
    """Whether a question speaks of a text, points at something outside it, or says nothing."""
    return _SPEAKS_OF_TEXT.search(question) is not None or _POINTS.search(question) is not None or not telling(question)


def names_nothing(question: str, evidence: Iterable[str]) -> bool:
    """Whether a question holds no name although the texts that it is asked about do.

    A name in small letters counts where the texts have it; in a text without names, such as a rule for everybody, none
    is missed.
    """
    held = {word for text in evidence for name in entities(text) for word in name.split()}
    return bool(held) and not _named(question) and not held & words(question)


def _is_shorter(follow_up: str, alone: str) -> bool:
    """Whether a follow-up leaves out a name or a telling word that the question alone has."""
    return bool(_named(alone) - _named(follow_up)) or bool(telling(alone) - telling(follow_up))


def _named(text: str) -> set[str]:
    tokens = tokens_of(text)
    return {tokens[i] for i in named_places(tokens) if not is_number(tokens[i])}
