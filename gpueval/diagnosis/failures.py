"""What is wrong with a claim that no document supports, told from its words and its closest sentence. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from gpueval.metrics.wording import is_number, key, named_places, telling, tokens_of, words

ALIKE = 0.5
"""Share of a claim's telling words from which its closest sentence speaks of the same."""

_MONTH_WORDS = (
    "january february march april may june july august september october november december monday tuesday wednesday "
    "thursday friday saturday sunday januar februar märz mai juni juli oktober dezember montag dienstag mittwoch "
    "donnerstag freitag samstag sonntag janvier février mars avril juin juillet août septembre octobre novembre "
    "décembre enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
)
_DAYS_AND_MONTHS = frozenset(map(key, _MONTH_WORDS.split()))
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|without|cannot|\w+n[’']t|kein\w*|nicht|nie|niemals|ohne|ne|pas|"
    r"jamais|sans|nunca|sin|non|mai|senza|não|nem|sem|niet|geen|zonder)\b|[不没沒無未]|ない|ません",
    re.IGNORECASE,
)


class Failure(StrEnum):
    """Kinds of failing claims."""

    MIXED = "mixed sources"
    NEGATION = "negation"
    DATE = "date"
    NUMBER = "number"
    NAME = "name"
    ADDED = "added detail"
    UNRELATED = "nothing like it"
    SAME = "same words"
    """Every word stands in the sentence: their order differs, or the judge errs."""


FAILURE_WORDS = {
    Failure.MIXED: "It joins what different documents say of different things.",
    Failure.NEGATION: "The document says the opposite: one of the two is negated.",
    Failure.DATE: "The document has another date, or none.",
    Failure.NUMBER: "The document has another number, or none.",
    Failure.NAME: "The document names someone or something else.",
    Failure.ADDED: "The document speaks of it, and does not say this much.",
    Failure.UNRELATED: "No retrieved sentence speaks of it.",
    Failure.SAME: "One sentence holds all its words: their order differs, or the judge errs.",
}


def kind_of(claim: str, sentence: str | None, *, blended: bool = False) -> Failure:
    """Say what kind of failure an unsupported claim is.

    The words of the claim are held against those of the sentence that says most of it. A sentence that holds less than
    :data:`ALIKE` of the claim's telling words speaks of something else. A rule of words in the languages of
    :mod:`gpueval.metrics.abstention`; it does not read.

    Args:
        claim: The claim.
        sentence: Its closest sentence; None where there is none.
        blended: The claim is known to mix documents.
    """
    if blended:
        return Failure.MIXED
    wanted, held = telling(claim) or words(claim), words(sentence or "")
    lacking = wanted - held
    if not wanted or len(wanted & held) < ALIKE * len(wanted):
        return Failure.UNRELATED
    if says_no(claim) != says_no(sentence or ""):
        return Failure.NEGATION
    if any(_YEAR.fullmatch(word) or word in _DAYS_AND_MONTHS for word in lacking):
        return Failure.DATE
    if any(is_number(word) for word in lacking):
        return Failure.NUMBER
    tokens = tokens_of(claim)
    if lacking & {key(tokens[i]) for i in named_places(tokens)}:
        return Failure.NAME
    return Failure.ADDED if lacking else Failure.SAME


def says_no(text: str) -> bool:
    """Tell whether a text holds a negation."""
    return _NEGATION.search(text) is not None


@lru_cache(maxsize=1024)  # the rules of a sample ask about the same claims several times
def says_it_all(claim: str, sentence: str | None) -> bool:
    """Tell whether a sentence holds every word of a claim, and as much of a negation."""
    wanted = words(claim)
    return (
        bool(sentence)
        and len(wanted) > 2
        and wanted <= words(sentence or "")
        and says_no(claim) == says_no(sentence or "")
    )
