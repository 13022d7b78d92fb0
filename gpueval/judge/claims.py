"""Claims of a text without a model: its sentences, less those that say nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpueval.metrics.abstention import says_nothing

_PARTICLE = (
    r"(?:oh |ah |well |and )?(?:yes|yeah|yea|yep|yup|no|nope|nah|ok|okay|right|true|correct|exactly|absolutely|"
    r"definitely|certainly|sure|indeed|of course|that['’]s (?:right|true|correct)|you(?: are|['’]re) right|"
    r"ja|nein|doch|genau|stimmt|richtig|oui|non|si|exactement|bien sûr|sí|claro|por supuesto|sim|não|certo|sì|esatto|"
    r"nee|klopt|да|нет|конечно|是的?|对|不是|はい|いいえ|そうです)"
)
_SUBJECT = r"(?:it|that|this|there|he|she|they|we|you|i)"
_AUXILIARY = r"(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must)"
_LONGEST_LEANING = 60
_LEANS = re.compile(
    rf"(?:{_PARTICLE}[\s,.!]*)?(?:{_SUBJECT} (?:really |certainly |sure |also |indeed )?{_AUXILIARY}"
    rf"(?: not|n['’]t)?|{_SUBJECT} (?:think|believe|guess) (?:so|not|{_SUBJECT} {_AUXILIARY}))?[\s.!,。！]*",
    re.IGNORECASE,
)


def from_sentences(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the claims of a text: every sentence that says something.

    A bare "Yes." or "It does." has no content of its own: it leans on the question, and is read together with the
    sentence that follows it. Where none follows it stays a claim, judged with its question.

    Args:
        parts: The text's sentences.
    """
    found: list[str] = []
    leaning = ""
    for part in (part for part in parts if not says_nothing(part)):
        whole = f"{leaning} {part}".strip()
        if len(part) <= _LONGEST_LEANING and _LEANS.fullmatch(part.strip()):
            leaning = whole
        else:
            found.append(whole)
            leaning = ""
    return (*found, leaning) if leaning else tuple(found)
