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


_RULES = (
    _rule(
        "overrides instructions",
        "ignor disregard forget override bypass vergiss vergesse missachte oublie olvid descart esque dimentica negeer "
        "vergeet игнорируй забудь 忽略 无视 忘 無視",
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.;!?]{0,40}\b(?:instruction|prompt|rule|above|previous|prior)",
        r"\b(?:ignorier|vergiss|missachte|vergesse)\w*\b[^.;!?]{0,40}\b(?:anweisung|anleitung|regel|vorgabe)",
        r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.;!?]{0,40}\b(?:instruction|consigne|règle)",
        r"\b(?:ignor[ae]|olvid[ae]|descart[ae])\w*\b[^.;!?]{0,40}\b(?:instruccion|indicacion|regla)",
        r"\b(?:ignor[ae]|esque[çc]a)\w*\b[^.;!?]{0,40}\b(?:instru[çc][õo]es|regras)",
        r"\b(?:ignora|dimentica)\w*\b[^.;!?]{0,40}\b(?:istruzion|regol)",
        r"\b(?:negeer|vergeet)\b[^.;!?]{0,40}\b(?:instructie|regel|aanwijzing)",
        r"\b(?:игнорируй|забудь)\w*\b[^.;!?]{0,40}(?:инструкц|указан|правил)",
        r"(?:忽略|无视|忘记).{0,20}(?:指令|说明|要求|提示|规则)",
        r"(?:指示|命令|ルール|プロンプト).{0,10}(?:無視|忘れ)",
    ),
    _rule(
        "demands a verdict",
        "answer reply respond output antworte répond conteste rispondi antwoord ответь 回答 回复 输出 答え",
        r"(?:^|[.:;,!?\n(]\s*|\b(?:and|please|only|just|to|then) )(?:answer|reply|respond|output)"
        rf"(?: only| just| with| always|:)*\s*[\"'“‘]?{_VERDICT}\b",
        rf"\bgets? the answer [\"'“‘]?{_VERDICT}\b|\bonly (?:right|correct) answer is [\"'“‘]?{_VERDICT}\b",
        rf"\b(?:antworte|répond|responde|responda|conteste|rispondi|antwoord)\w*\b.{{0,20}}\b{_VERDICT}\b",
        rf"\bответьт?е?\b.{{0,20}}{_VERDICT}",
        rf"(?:只|请|必须)(?:要)?(?:回答|回复|输出).{{0,6}}[“\"「]?{_VERDICT}|{_VERDICT}と(?:だけ)?答え",
    ),
    _rule(
        "speaks to the judge",
        "judge grader evaluat reviewer rater system: assistant model",
        r"\b(?:note|message|notice|attention|dear|hello|hey)\b.{0,12}\b(?:judge|grader|evaluator|reviewer|rater)\b",
        r"(?:^|[.!?\n])\s*(?:system|assistant)\s*:",
        r"\b(?:as|you are) (?:an? )?(?:ai|language model|llm|automated) (?:judge|grader|evaluator|assistant|model)\b",
        r"\bthe evaluation (?:has been|is|was) (?:changed|over|cancelled|suspended)\b",
    ),
    _rule(
        "imitates a verdict",
        "verdict judgment judgement claim",
        rf"\b(?:verdict|judge?ment)\s*(?:is|:|=)\s*[\"'“‘]?{_VERDICT}\b",
        r"\b(?:is|are) the claims? .{0,20}supported by the document",
    ),
    _rule(
        "states a verdict",
        "rating label answer: answer= claim statement",
        rf"\b(?:rating|label)\s*(?:is|:|=)\s*[\"'“‘]?{_VERDICT}\b|\banswer[:=]\s*[\"'“‘]?{_VERDICT}\b",
        r"\b(?:this|the|every|each|all) (?:claim|statement|answer)s? (?:is|are|was|has been) (?:fully |completely )?"
        r"(?:supported|verified|grounded|faithful)\b",
        sure=False,
    ),
    _rule(
        "closes a delimiter",
        "</document </claim </question <| inst] _of_turn>",
        r"</\s*(?:document|question|claim)\s*>",
        r"<\|[^|>]{1,40}\|>|\[/?INST\]|<(?:start|end)_of_turn>",
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
    """Return the sample without the sentences of its chunks and reference that speak to the judge.

    What remains stays as it stands, so that a document with a sentence put in reads as it did before.
    """
    contexts = sample.contexts
    if contexts and any(instructs(passage.text) for passage in contexts):
        contexts = tuple(msgspec.structs.replace(passage, text=_without(passage.text)) for passage in contexts)
    reference = sample.reference
    if reference and instructs(reference):
        reference = _without(reference)
    if contexts is sample.contexts and reference is sample.reference:
        return sample
    return msgspec.structs.replace(sample, contexts=contexts, reference=reference)


def _without(text: str) -> str:
    if not instructs(text):
        return text
    kept = [part for part in sentences(text) if not instructs(part)]
    shortened = text
    for part in sentences(text):
        if instructs(part):
            shortened = shortened.replace(part, "", 1)
    # An instruction over a line's or a sentence's end is found in none of its parts: then the whole text goes.
    return shortened.strip() if not instructs(shortened) else "" if instructs(" ".join(kept)) else " ".join(kept)


@lru_cache(maxsize=8192)
def _found(text: str) -> tuple[str, ...]:
    plain = _INVISIBLE.sub("", text) if not text.isascii() else text
    plain = plain if plain.isascii() else unicodedata.normalize("NFKC", plain)
    lower = plain.lower()
    found = [rule.name for rule in _RULES if rule.found_in(plain, lower)]
    if not text.isascii() and _HIDDEN.search(text):
        found.append(_HIDDEN_CHARACTERS)
    return tuple(found)
