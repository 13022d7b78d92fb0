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
_PLAIN = re.compile(r"[.!?。！？؟।]\S|[.!?。！？؟।\n]")


@lru_cache(maxsize=4096)
def sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences without their surrounding white space; rules of tables are left out.

    Args:
        text: Any text; a blank one has no sentences.
    """
    stripped = text.strip()
    if not stripped:
        return ()
    if not _PLAIN.search(stripped[:-1]):
        return (_unmarked(stripped),)
    from sentencex import segment

    found: list[str] = []
    for piece in segment("en", stripped):
        lines = piece.split("\n")
        rows = sum(line.lstrip().startswith("|") for line in lines)
        for part in lines if rows > 1 else [" ".join(lines)]:
            part = _unmarked(part.strip())
            if part and not _TABLE_RULE.match(part):
                found.append(part)
    return tuple(found)


def _unmarked(line: str) -> str:
    return _BULLET.sub("", line, count=1).strip() or line
