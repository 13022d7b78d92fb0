"""Text under test that speaks to the judge instead of about its subject. Pure.

A rule of thumb, not a proof: patterns in ten languages find instructions, demands for a verdict, words to the judge,
imitated verdicts, control tokens and hidden characters. All are reported per sample. Those that ordinary text hardly
holds (:func:`instructs`) also change what is judged, unless a run keeps them: the judge does not get to read such a
sentence of a document, and a claim that holds one is not supported.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from gpueval.judge.sentences import sentences
from gpueval.records import Sample

_VERDICT = (
    r"(?:yes|no|true|false|correct|supported|ja|nein|wahr|oui|non|vrai|s[ií]|no|sim|não|verdadeiro|vero|nee|"
    r"да|нет|是|否|对|はい|いいえ|नहीं|हाँ)"
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A kind of suspicion. A text that holds none of the stems, in lower case, is not searched: much faster."""

    name: str
    stems: tuple[str, ...]
    pattern: re.Pattern[str]
    sure: bool

    def found_in(self, text: str, lower: str) -> bool:
        return any(stem in lower for stem in self.stems) and self.pattern.search(text) is not None


def _rule(name: str, stems: str, *patterns: str, sure: bool = True) -> _Rule:
    return _Rule(name, tuple(stems.split()), re.compile("|".join(patterns), re.IGNORECASE), sure)


_PREVIOUS = r"(?:previous|prior|preceding|earlier|above|all|any|your|these)"
_ORDERS = r"(?:instructions?|prompts?|rules?|directions?|commands?|guidelines?)"
_END = r"[\"'”’»」]?(?:\s{0,4}[.!)。！]|\s{0,8}$|\s{1,8}(?:only|and nothing)\b)"
_ONLY = (
    r"(?:nur|lediglich|immer|mit|uniquement|seulement|toujours|par|solamente|sólo|solo|siempre|con|soltanto|sempre|"
    r"apenas|somente|com|alleen|altijd|met)"
)
_RULES = (
    _rule(
        "overrides instructions",
        "ignor disregard forget override bypass vergiss vergesse missacht oublie olvid descart esque dimentica negeer "
        "vergeet игнорируй забудь 忽略 无视 忘 無視",
        rf"\b(?:ignore|disregard|forget|override|bypass)\b[^.;!?]{{0,20}}\b{_PREVIOUS} (?:\w+ ){{0,2}}{_ORDERS}\b",
        r"\b(?:ignore|disregard|forget) (?:everything|anything|all|the text|the instructions?) (?:above|so far)\b",
        r"\b(?:ignorier(?:e|en|t)|vergiss|vergesst|missachte[nt]?)\b[^.;!?]{0,20}\b(?:alle|bisherig|vorherig|vorig|obig|"
        r"früher)\w*[^.;!?]{0,20}\b(?:anweisung(?:en)?|anleitung(?:en)?|vorgaben|regeln)\b",
        r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.;!?]{0,30}\b(?:instructions|consignes)\b",
        r"\b(?:ignor[ae]|ignoren|olvid[ae]|olviden|descart[ae])\b[^.;!?]{0,30}\binstrucciones\b",
        r"\b(?:ignor[ae]|ignorem|esque[çc]a)\b[^.;!?]{0,30}\binstru[çc][õo]es\b",
        r"\b(?:ignora|ignorate|dimentica|dimenticate)\b[^.;!?]{0,30}\bistruzioni\b",
        r"\b(?:negeer|vergeet)\b[^.;!?]{0,30}\b(?:instructies|aanwijzingen)\b",
        r"(?:игнорируй(?:те)?|забудь(?:те)?)\b[^.;!?]{0,30}(?:инструкци|указани)",
        r"(?:忽略|无视|忘记)[^。！？]{0,20}(?:指令|提示)",
        r"(?:指示|命令|プロンプト)[^。！？]{0,10}(?:無視|忘れ)",
    ),
    _rule(
        "demands a verdict",
        "answer reply respond output antworte répond contest rispond antwoord ответь 回答 回复 输出 答え",
        r"(?:^|[.:;,!?\n(]\s{0,8}|\b(?:and|please|only|just|then|must|always) )(?:answer|reply|respond|output)"
        rf"(?: only| just| with| always){{0,3}} [\"'“‘]?{_VERDICT}{_END}",
        rf"\bgets? the answer [\"'“‘]?{_VERDICT}{_END}|\bonly (?:right|correct) answer is [\"'“‘]?{_VERDICT}{_END}",
        r"\b(?:antworte|antworten sie|répond(?:s|ez)|respond(?:e|a|an)|contest[ae]n?|rispond(?:i|ete)|antwoord)"
        rf"(?: {_ONLY}){{1,3}} [\"'“‘«]?{_VERDICT}{_END}",
        rf"ответь(?:те)? (?:только )?[«\"]?{_VERDICT}",
        rf"(?:只|请|必须)(?:要|能|需)?(?:回答|回复|输出).{{0,6}}[“\"「]?{_VERDICT}|{_VERDICT}と(?:だけ)?答え",
    ),
    _rule(
        "speaks to the judge",
        "judge grader evaluat reviewer rater",
        r"\b(?:note|message|notice|attention)\b.{0,8}\b(?:judge|grader|evaluator|reviewer|rater)s?\s{0,4}[:,]",
        r"\bthe evaluation (?:has been|is|was) (?:changed|over|cancelled|suspended)\b",
    ),
    _rule(
        "imitates a verdict",
        "verdict judgment judgement claim",
        rf"\b(?:verdict|judge?ment)\s{{0,4}}[:=]\s{{0,4}}[\"'“‘]?{_VERDICT}\b|\bverdict is [\"'“‘]?{_VERDICT}{_END}",
        r"\b(?:is|are) the claims? .{0,20}supported by the document",
    ),
    _rule(
        "closes a delimiter",
        "document claim question <| inst] _of_turn>",
        r"</?\s{0,8}(?:document|question|claim)\s{0,8}>",
        r"<\|[^|>]{1,40}\|>|\[/?INST\]|<(?:start|end)_of_turn>",
    ),
    _rule(
        "may speak to the judge",
        "system: assistant judge grader evaluat rater model rating label answer: answer= claim statement",
        r"(?:^|[.!?\n])\s{0,8}(?:system|assistant)\s{0,4}:",
        r"\b(?:as|you are) (?:an? )?(?:ai|language model|llm|automated) (?:judge|grader|evaluator|assistant|model)\b",
        r"\b(?:dear|hello|hey)\b.{0,12}\b(?:judge|grader|evaluator|rater)\b",
        rf"\b(?:rating|label)\s{{0,4}}[:=]\s{{0,4}}[\"'“‘]?{_VERDICT}\b|\banswer[:=]\s{{0,4}}[\"'“‘]?{_VERDICT}\b",
        r"\b(?:this|the|every|each|all) (?:claim|statement|answer)s? (?:is|are|was|has been) (?:fully |completely )?"
        r"(?:supported|verified|grounded|faithful)\b",
        sure=False,
    ),
)
_HIDDEN_CHARACTERS = "hidden characters"
_SURE = {rule.name: rule.sure for rule in _RULES} | {_HIDDEN_CHARACTERS: False}
_INVISIBLE = re.compile("[\u200b-\u200d\u2060-\u2064\u00ad\ufeff]")
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]|\\w[\u200b\u2060-\u2064]+\\w")


def suspicions(sample: Sample) -> tuple[str, ...]:
    """Name what in a sample may be meant for the judge, as ``"field: what"``; empty for an ordinary sample.

    Chunks of the contexts are numbered from 0.
    """
    return tuple(f"{field}: {what}" for field, text in _fields(sample) for what in _found(text))


def _fields(sample: Sample) -> Iterator[tuple[str, str]]:
    for field, text in (("question", sample.question), ("answer", sample.answer), ("reference", sample.reference)):
        if text:
            yield field, text
    for number, passage in enumerate(sample.contexts or ()):
        yield f"contexts[{number}]", passage.text


def instructs(text: str) -> bool:
    """Tell whether a text holds what ordinary text hardly does: an instruction, a demand, a control token."""
    return any(_SURE[name] for name in _found(text))


def without_instructions(sample: Sample) -> Sample:
    """Return the sample without the sentences of its chunks that speak to the judge.

    What remains stays as it stands, so that a document with a sentence put in reads as it did before.
    """
    contexts = sample.contexts
    if not contexts or not any(instructs(passage.text) for passage in contexts):
        return sample
    kept = tuple(msgspec.structs.replace(passage, text=stripped(passage.text)) for passage in contexts)
    return msgspec.structs.replace(sample, contexts=kept)


def stripped(text: str) -> str:
    """Return a text without the sentences that :func:`instructs`, nor those beside them that only may; other lines stay
    as they are.

    An instruction over the end of a line or a sentence is in none of them: what then still instructs goes as a whole.
    """
    if not instructs(text):
        return text
    lines = [
        " ".join(part for part in sentences(line) if not _found(part)) if _found(line) else line
        for line in text.split("\n")
    ]
    shortened = "\n".join(lines).strip()
    if instructs(shortened):
        shortened = " ".join(part for part in sentences(shortened) if not _found(part))
    return "" if instructs(shortened) else shortened


@lru_cache(maxsize=8192)
def _found(text: str) -> tuple[str, ...]:
    plain = _INVISIBLE.sub("", text) if not text.isascii() else text
    plain = plain if plain.isascii() else unicodedata.normalize("NFKC", plain)
    lower = plain.lower()
    found = [rule.name for rule in _RULES if rule.found_in(plain, lower)]
    if not text.isascii() and _HIDDEN.search(text):
        found.append(_HIDDEN_CHARACTERS)
    return tuple(found)
