"""Which sentence of the retrieved chunks says most of a claim, by words or by the embedding model's tokens. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from gpueval.judge.sentences import sentences
from gpueval.records import Evidence, Sample

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""A word, or a character where words are written without spaces."""

Place = tuple[int, str]
"""Number of a chunk, and a sentence of it."""


def places(sample: Sample) -> list[Place]:
    """Return every sentence of the sample's chunks with its chunk's number."""
    return [(k, part) for k, passage in enumerate(sample.contexts or ()) for part in sentences(passage.text)]


def by_words(claims: Sequence[str], found: Sequence[Place]) -> list[list[float]]:
    """Return per claim and sentence the share of the claim's words that the sentence holds.

    ``share = sum of idf(w) over w in claim and sentence / sum of idf(w) over w in claim``, where ``idf(w) = ln(1 + N /
    (1 + df))`` for N sentences of which df hold w: rare words (names, numbers) count most. 0 for a claim without words.
    """
    held = [_words(text) for _, text in found]
    frequency = Counter(word for words in held for word in words)
    shares = []
    for claim in claims:
        weight = {word: log(1 + len(held) / (1 + frequency[word])) for word in _words(claim)}
        total = sum(weight.values())
        shares.append([sum(weight[w] for w in words & weight.keys()) / total if total else 0.0 for words in held])
    return shares


def best_of_chunks(shares: Sequence[float], found: Sequence[Place]) -> tuple[Evidence, ...]:
    """Keep the best sentence of each chunk, the first of equals, in the order of the chunks."""
    best: dict[int, Evidence] = {}
    for (chunk, text), share in zip(found, shares, strict=True):
        if chunk not in best or share > best[chunk].share:
            best[chunk] = Evidence(chunk, text, share)
    return tuple(best[chunk] for chunk in sorted(best))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
