"""Recognise answers that decline ("I don't know", "the documents do not say") without asking a judge.

An answer abstains when every sentence of it that says anything declines. The patterns cover English, German, French,
Spanish, Italian, Portuguese, Dutch, Chinese and Japanese; an answer that declines in other words or another language
is judged like any other.
"""

from __future__ import annotations

import re

_SUBJECT = (
    r"(?:the |these |this |my |any )?(?:provided |given |supplied |retrieved |available )?"
    r"(?:documents?|contexts?|passages?|texts?|sources?|information|material|excerpts?|handbook|knowledge base)"
)
_DECLINES = re.compile(
    "|".join(
        (
            r"\bi (?:really |just |simply )?(?:do not|don[’']?t|cannot|can[’']?t|am not able to|['’]m not able to|"
            r"am unable to|['’]m unable to|could not|couldn[’']?t) "
            r"(?:know|say|tell|answer|find|help|determine|"
            r"have (?:enough |any |that |the |this )?(?:information|data|details|access|an answer))\b",
            r"\b(?:it is|it['’]s|that is|this is) not (?:stated|mentioned|specified|given|described|known|covered)\b",
            rf"\b{_SUBJECT} (?:do not|does not|don[’']?t|doesn[’']?t|did not) "
            r"(?:say|state|mention|specify|contain|provide|include|cover|tell|give|answer|describe)\b",
            r"\bno (?:relevant |such |further )?(?:information|answer|details?|mention)\b.{0,60}"
            rf"\b(?:{_SUBJECT}|available|found)\b",
            r"^not (?:stated|mentioned|specified|given|answerable|available|covered)\b.{0,80}$",
            r"^(?:unknown|unanswerable|no answer|n/a)\W*$",
            rf"\bcannot be (?:answered|determined|found)\b(?:.{{0,40}}{_SUBJECT})?",
            r"\bich (?:weiß|weiss) (?:es |das )?nicht\b|\bkann ich nicht (?:sagen|beantworten)\b",
            r"\b(?:dokumente?|kontext|text|unterlagen|handbuch) (?:\w+ )?"
            r"(?:enthält|enthalten|sagt|sagen|nennt|nennen) (?:\w+ ){0,3}(?:nicht|kein)",
            r"\bje ne sais pas\b|\bles? documents? ne (?:dit|disent|mentionnent?|précisent?|contien\w+)\b",
            r"\bno (?:lo )?sé\b|\b(?:los|el) documentos? no (?:dice|dicen|menciona|mencionan|contiene|contienen)\b",
            r"\bnon (?:lo )?so\b|\bi documenti non (?:dicono|menzionano|contengono)\b",
            r"\bnão sei\b|\bos documentos não (?:dizem|mencionam|contêm)\b",
            r"\bik weet het niet\b|\bde documenten (?:zeggen|vermelden|bevatten) (?:\w+ ){0,2}(?:niet|geen)\b",
            r"我不知道|无法回答|没有提到|未提及|没有相关信息|文档中没有",
            r"わかりません|分かりません|記載(?:されて)?(?:いません|がありません)|書かれていません",
        )
    ),
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\b(?:but|however|although|though|nevertheless|aber|jedoch|mais|cependant|pero|però|tuttavia|mas|porém|maar|echter)\b"
    r"|但|不过|しかし|ただし",
    re.IGNORECASE,
)
_PLEASANTRY = re.compile(
    r"^(?:hi|hello|hey|dear \w+|good (?:morning|afternoon|evening|question)|great question|"
    r"thanks?(?: you)?(?: for .{1,60})?|"
    r"(?:i )?hope (?:this|that) helps|let me know .{0,80}|(?:i['’]m |i am )?sorry.{0,20}|(?:please )?feel free .{0,80}|"
    r"you['’]re welcome|sure|of course|certainly|happy to help|hallo|guten tag|gern geschehen|bonjour|de rien|hola|"
    r"de nada|ciao|prego|你好|您好|谢谢|こんにちは|ありがとうございます)[\s!.,;:?！。、，]*$",
    re.IGNORECASE,
)


def declines(sentence: str) -> bool:
    """Tell whether one sentence declines to answer and leaves it at that: "I don't know, but it costs 30 euros" does
    not decline.
    """
    return _DECLINES.search(sentence) is not None and _GOES_ON.search(sentence) is None


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
