"""Replies read as judgments. Pure; never raises on model text: failure is a named state."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import isfinite
from typing import Any

from gpueval.records import Completion, State, Verdict

MIN_LABEL_MASS = 0.2
"""Below this share of probability on the labels a verdict says nothing: the judge wanted to say something else."""

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>|^.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def verdict(windows: Sequence[Completion | None], sure_from: float = 0.5) -> Verdict:
    """Read a one-token verdict: ``p = P(yes) / P(labels)`` with the label mass kept; the maximum over windows.

    A window that failed makes the verdict fail, unless another window already says yes: a missing window could only
    raise p. A reply that is missing altogether is an ``engine_error``.

    Args:
        windows: One reply per window of the passage, at least one.
        sure_from: From this probability on a window says yes.
    """
    best: Verdict | None = None
    failed: Verdict | None = None
    for completion in windows:
        one = _one(completion)
        if one.p is None:
            failed = failed or one
        elif best is None or best.p is None or one.p > best.p:
            best = one
    if best is None or (failed is not None and (best.p is None or best.p < sure_from)):
        assert failed is not None
        return failed
    return best if len(windows) == 1 else Verdict(best.p, best.state, best.mass, best.unsure, len(windows))


def _one(completion: Completion | None) -> Verdict:
    if completion is None:
        return Verdict(None, State.ENGINE_ERROR, 0.0)
    if completion.failure:
        return Verdict(None, State(completion.failure), 0.0)
    labels = completion.labels
    mass = sum(labels)
    if not labels or not mass >= MIN_LABEL_MASS:
        return Verdict(None, State.INVALID_VERDICT, mass)
    unsure = len(labels) > 2 and labels[2] > labels[0] and labels[2] >= labels[1]
    return Verdict(labels[0] / mass, State.OK, min(mass, 1.0), unsure)


def similarity(completion: Completion | None) -> Verdict:
    """Read a cosine, clipped to [0, 1]."""
    if completion is None or completion.value is None or not isfinite(completion.value):
        state = State(completion.failure) if completion and completion.failure else State.ENGINE_ERROR
        return Verdict(None, state, 0.0)
    return Verdict(min(1.0, max(0.0, completion.value)))


def json_object(text: str) -> dict[str, Any] | None:
    """Find the JSON object in a reply.

    Thinking sections are removed; a code fence, prose around the object and trailing commas are tolerated. The last
    complete object at the top level wins. None when there is none.
    """
    body = _THINKING.sub("", text).strip()
    whole = _loaded(body)
    if whole is not None:
        return whole
    return next((found for text in reversed(_top_level_objects(body)) if (found := _loaded(text)) is not None), None)


def _loaded(text: str) -> dict[str, Any] | None:
    if text.startswith("{"):
        for attempt in (text, _TRAILING_COMMA.sub(r"\1", text)):
            try:
                value = json.loads(attempt)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
    return None


def _top_level_objects(text: str) -> list[str]:
    found: list[str] = []
    depth, start, in_string, escaped = 0, 0, False, False
    for i, character in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"' and depth:
            in_string = True
        elif character == "{":
            if depth == 0:
                start = i
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                found.append(text[start : i + 1])
    return found


def questions(completion: Completion | None, n: int) -> tuple[tuple[str, ...], State]:
    """Read ``n`` reverse questions.

    Returns:
        The questions that came (blank ones left out, at most n) and the state: ``ok``, ``partial`` when fewer came,
        or a failure when none did.
    """
    value, state = _object(completion)
    if value is None:
        return (), state
    items = value.get("questions")
    if not isinstance(items, list):
        return (), State.PARSE_FAILED
    texts = tuple(clean(item) for item in items if isinstance(item, str) and item.strip())[:n]
    if not texts:
        return (), State.PARSE_FAILED
    return texts, State.OK if len(texts) == n else State.PARTIAL


def claims(completion: Completion | None, n_sentences: int) -> tuple[tuple[tuple[int, str], ...], State]:
    """Read claims with the 0-based index of their sentence.

    A claim that points to a sentence which does not exist is kept out of the result: it is not the answer's.
    """
    value, state = _object(completion)
    if value is None:
        return (), state
    items = value.get("claims")
    if not isinstance(items, list):
        return (), State.PARSE_FAILED
    found: list[tuple[int, str]] = []
    for item in items:
        if not isinstance(item, dict):
            return (), State.PARSE_FAILED
        number, text = item.get("sentence"), item.get("claim")
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(text, str):
            return (), State.PARSE_FAILED
        if text.strip() and 1 <= number <= n_sentences:
            found.append((number - 1, clean(text)))
    return tuple(dict.fromkeys(found)), State.OK


def clean(text: str) -> str:
    """Strip, and replace lone surrogates, which JSON can spell but no encoding can hold."""
    return text.strip().encode("utf-8", "replace").decode()


def _object(completion: Completion | None) -> tuple[dict[str, Any] | None, State]:
    if completion is None:
        return None, State.ENGINE_ERROR
    if completion.failure:
        return None, State(completion.failure)
    value = json_object(completion.text)
    if value is not None:
        return value, State.OK
    return None, State.TRUNCATED if completion.finish == "length" else State.PARSE_FAILED
