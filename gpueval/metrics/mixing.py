"""Claims that mix documents: each half stands somewhere, but of different things. Pure.

A rule of words. It looks at the sentence of each chunk that says most of the claim, and asks of two of them: do both
hold words of the claim that the other lacks, and nearly all of it together? And does one of them speak of something
that neither the claim nor the other sentence names? "The Brio headset costs 149 euros" does, beside "The Aria headset
costs 89 euros", for the claim that Aria costs 149 euros. In an honest conclusion it does not: either the claim names
both things ("Brio costs more than Aria"), or one sentence leads to the other ("… are in Bremen", "Bremen lies on …").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from gpueval.metrics.wording import is_empty, is_number, key, names, telling, tokens_of, words
from gpueval.records import Evidence

COVERED = 0.8
"""Share of the claim's telling words that the two sentences must hold together."""


def mixed(
    claim: str, evidence: Sequence[Evidence], document: Callable[[int], object]
) -> tuple[Evidence, Evidence] | None:
    """Return the two sentences that a claim mixes, in the order of their chunks; None where it mixes none.

    Args:
        claim: The claim.
        evidence: The best sentence of each chunk.
        document: Names the document of a chunk; sentences of one document are not mixed.
    """
    wanted = telling(claim)
    if not wanted:
        return None
    held = [(one, words(one.sentence)) for one in evidence]
    named = words(claim)
    best: tuple[float, Evidence, Evidence] | None = None
    for (first, left), (second, right) in combinations(held, 2):
        if document(first.chunk) == document(second.chunk):
            continue
        a, b = wanted & left, wanted & right
        covered = len(a | b) / len(wanted)
        if not (a - b and b - a) or covered < COVERED or (best is not None and covered <= best[0]):
            continue
        if _subject(second.sentence) - named - left or _subject(first.sentence) - named - right:
            best = covered, first, second
    return None if best is None else best[1:]


def _subject(sentence: str) -> frozenset[str]:
    """What a sentence speaks of: its first run of names (a number only where it comes first), else its first word that
    is not an article or the like.
    """
    tokens = tokens_of(sentence)
    first = next((i for i, token in enumerate(tokens) if not is_empty(token)), None)
    if first is None:
        return frozenset()
    run = next(names(tokens), None)
    if is_number(tokens[first]) or run is None:
        return frozenset({key(tokens[first])})
    return frozenset(key(tokens[i]) for i in run)
