"""Recognise answers that decline ("I don't know", "the documents do not say") without asking a judge.

An answer abstains when every sentence of it that says anything declines. The patterns are narrow on purpose: "The
handbook does not cover water damage" is a fact, "The handbook does not mention water damage" declines. They know
English, German, French, Spanish, Italian, Portuguese, Dutch, Chinese and Japanese; an answer that declines in other
words or in another language is judged like any other.
"""

from __future__ import annotations

import re

_SUBJECT = (
    r"(?:(?:the|these|this|my|any|your) )?(?:(?:provided|given|supplied|retrieved|available) )*"
    r"(?:documents?|contexts?|passages?|texts?|sources?|excerpts?|information|materials?|handbook|knowledge base)"
)
_NEGATED = r"(?:do not|does not|don[’']?t|doesn[’']?t|did not|didn[’']?t)"
_KNOWLEDGE = r"(?:information|details?|data|answer|mention)"
_DECLINES = re.compile(
    "|".join(
        (
            r"\bi (?:really |just |simply )?(?:do not|don[’']?t) "
            rf"(?:know|have (?:enough |any |that |the |this |sufficient )?{_KNOWLEDGE})\b",
            r"\bi (?:cannot|can[’']?t|could not|couldn[’']?t|am (?:not able|unable) to|['’]m (?:not able|unable) to) "
            rf"(?:say|tell|answer|determine|help with|find (?:any |the |that |this |enough )?{_KNOWLEDGE})\b",
            rf"\b{_SUBJECT} {_NEGATED} (?:say|state|mention|specify)\b",
            rf"\b{_SUBJECT} {_NEGATED} (?:contain|provide|include|give|have) "
            rf"(?:any |enough |the |such |sufficient |relevant |specific |an? )*{_KNOWLEDGE}\b",
            r"\b(?:it|that|this) is not (?:stated|mentioned|specified)(?: in [^.,]{1,60})?\W*$",
            rf"\b(?:is|are|was) not (?:stated|mentioned|specified) in {_SUBJECT}\b",
            rf"\bno (?:relevant |such |further |specific )?{_KNOWLEDGE}\b[^.,]{{0,60}} in {_SUBJECT}\b",
            rf"\bno (?:relevant |such |further |specific )?{_KNOWLEDGE}\b"
            r"[^.,]{0,60} (?:available|found|provided)\W*$",
            r"^not (?:stated|mentioned|specified|answerable)(?: in [^.,]{1,60})?\W*$",
            r"^(?:unknown|unanswerable|no answer|n/a)\W*$",
            r"\bquestion cannot be answered\b",
            rf"\bcannot be (?:answered|determined) (?:from|with|using|based on) {_SUBJECT}\b",
            r"\bich (?:weiß|weiss) (?:es |das )?nicht\b|\bkann ich nicht (?:sagen|beantworten)\b",
            r"\b(?:dokumente?|kontext|text|unterlagen|handbuch) (?:sag(?:t|en)|nenn(?:t|en)|erwähn(?:t|en)) "
            r"(?:\w+ ){0,3}nicht\b",
            r"\b(?:dokumente?|kontext|text|unterlagen|handbuch) enth(?:ält|alten) (?:\w+ ){0,2}keine? "
            r"(?:informationen|angaben?|hinweise?)\b",
            r"\bje ne sais pas\b|\bles documents ne (?:disent|mentionnent|précisent)\b",
            r"\bno lo sé\b|^no sé\b|\blos documentos no (?:dicen|mencionan|especifican)\b",
            r"\bnon lo so\b|\bi documenti non (?:dicono|menzionano|specificano)\b",
            r"\b(?:eu )?não sei\b|\bos documentos não (?:dizem|mencionam|especificam)\b",
            r"\bik weet het niet\b|\bde documenten (?:zeggen|vermelden) (?:\w+ ){0,2}niet\b",
            r"我不知道|无法回答|文档(?:中)?(?:没有|未)(?:提到|提及|说明)",
            r"(?:^|、|。)(?:わかりません|分かりません)|(?:文書|資料)に(?:は)?(?:記載|書かれ)(?:されて|て)?いません",
        )
    ),
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\b(?:but|however|although|though|nevertheless|aber|jedoch|mais|cependant|pero|però|tuttavia|mas|porém|maar|echter)\b"
    r"|但|不过|しかし|ただし",
    re.IGNORECASE,
)
_APOLOGY = re.compile(
    r"^(?:(?:i['’]m|i am|we are) )?(?:very |so )?(?:sorry|afraid|unfortunately|leider)(?: that)?,?(?: but)?\s+",
    re.IGNORECASE,
)
_PLEASANTRY = re.compile(
    r"^(?:hi|hello|hey|dear \w+|good (?:morning|afternoon|evening|question)|great question|(?:i['’]m |i am )?sorry|"
    r"thanks?(?: you)?(?: (?:for (?:asking|your (?:question|interest|patience))|so much|very much))?|"
    r"(?:i )?hope (?:this|that) helps|let me know (?:if|when|should) .{0,80}|"
    r"(?:please )?feel free to (?:ask|reach out|contact).{0,60}|you['’]re welcome|happy to help|"
    r"hallo|guten tag|gern geschehen|bonjour|de rien|hola|de nada|ciao|prego|你好|您好|谢谢|こんにちは|"
    r"ありがとうございます)[\s!.,;:！。、，]*$",
    re.IGNORECASE,
)


def declines(sentence: str) -> bool:
    """Tell whether one sentence declines to answer and leaves it at that: "I don't know, but it costs 30 euros" does
    not decline, "I'm sorry, but I don't know" does.
    """
    text = _APOLOGY.sub("", sentence.strip())
    found = _DECLINES.search(text)
    return found is not None and _GOES_ON.search(text, found.end()) is None


def says_nothing(sentence: str) -> bool:
    """Tell whether a sentence holds no claim at all: a greeting, a courtesy, a question, or no letter or digit."""
    text = sentence.strip()
    return (
        text.endswith(("?", "？", "؟"))
        or _PLEASANTRY.match(text) is not None
        or not any(character.isalnum() for character in text)
    )


def abstains(sentences: tuple[str, ...] | list[str]) -> bool:
    """Tell whether a text declines as a whole.

    Args:
        sentences: The text's sentences.

    Returns:
        True when at least one sentence declines and all others say nothing.
    """
    telling = [sentence for sentence in sentences if not says_nothing(sentence)]
    return bool(telling) and all(declines(sentence) for sentence in telling)
