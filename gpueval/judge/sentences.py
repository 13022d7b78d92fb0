"""Sentences of a text, in any language.

Splitting is done by sentencex (Wikimedia), which knows abbreviations and the sentence ends of some 240 languages.
English rules also end sentences at CJK, Arabic and Devanagari marks, so no language has to be named. Lines of lists and
tables are sentences of their own.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TABLE_RULE = re.compile(r"^[\s|:+=-]+$")
_BULLET = re.compile(r"^\s*(?:[-*•‣◦·]|\d{1,3}[.)])\s+")
_CUT_SHORT = re.compile(r"^\d{1,3}\.$|(?:^|\s)(?:approx|ca|bzw|nr|fig)\.$", re.IGNORECASE)
_DAY = re.compile(r"(?:^|\s)\d{1,2}\.$")
_MONTH = re.compile(r"(?:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|okt|nov|dez|dec|des)[a-zä]*\b", re.IGNORECASE)
_BEFORE_STOP = re.compile(r"[^\S\x00-\x7f](?=\s*\.)")
_NO_BREAK = re.compile(r"[\w\s,;:'\"()%€$/-]*")


@lru_cache(maxsize=4096)
def sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences without their surrounding white space; rules of tables are left out.

    Args:
        text: Any text; a blank one has no sentences.
    """
    stripped = text.strip()
    if not stripped:
        return ()
    if "\n" not in stripped and _NO_BREAK.fullmatch(stripped[:-1]):
        return (stripped,)
    from sentencex import segment

    found: list[str] = []
    for piece in segment("en", segmentable(stripped)):
        lines = piece.split("\n")
        rows = sum(line.lstrip().startswith("|") for line in lines)
        for part in lines if rows > 1 else [" ".join(lines)]:
            part = part.strip()
            if not part or _TABLE_RULE.match(part):
                continue
            if found and _goes_on(found[-1], part):
                found[-1] = f"{found[-1]} {part}"
            else:
                found.append(part)
    if sum(_BULLET.match(part) is not None for part in found) > 1:  # one mark alone may be a minus sign
        found = [_BULLET.sub("", part, count=1).strip() or part for part in found]
    return tuple(found) or (stripped,)


def segmentable(text: str) -> str:
    """Return the text, as long as before, with plain blanks for others before a full stop: sentencex 1.0 panics at a
    single letter, a no-break space and a full stop.
    """
    return _BEFORE_STOP.sub(" ", text)


def _goes_on(before: str, after: str) -> bool:
    """Tell whether a split was none: "approx. | 5 kg", "am 3. | Mai"."""
    if _CUT_SHORT.search(before):
        return True
    return _DAY.search(before) is not None and _MONTH.match(after) is not None
