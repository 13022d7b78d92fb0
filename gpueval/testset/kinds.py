"""Kinds of questions, and how many of each are wanted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gpueval.errors import UsageError


class Kind(StrEnum):
    """What a question asks of a RAG system."""

    FACTUAL = "factual"
    """One fact of one chunk."""
    REASONING = "reasoning"
    """Takes a step beyond one sentence: a comparison, a sum, a cause."""
    MULTI_HOP = "multi_hop"
    """Needs two chunks; neither alone answers it."""
    CONDITIONAL = "conditional"
    """Asks what holds under a condition that the chunk names."""
    ADVERSARIAL = "adversarial"
    """One fact, asked without the words of the chunk."""
    OPEN_ENDED = "open_ended"
    """How or why, answered in a few sentences."""
    FOLLOW_UP = "follow_up"
    """The second question of a conversation, which leans on the first."""
    UNANSWERABLE = "unanswerable"
    """On the subject of a chunk, and answered nowhere in the corpus."""


DEFAULT_MIX: Mapping[Kind, float] = {
    Kind.FACTUAL: 0.25,
    Kind.REASONING: 0.1,
    Kind.MULTI_HOP: 0.15,
    Kind.CONDITIONAL: 0.1,
    Kind.ADVERSARIAL: 0.1,
    Kind.OPEN_ENDED: 0.1,
    Kind.FOLLOW_UP: 0.1,
    Kind.UNANSWERABLE: 0.1,
}


def parse_mix(text: str) -> dict[Kind, float]:
    """Read ``factual=0.5,multi_hop=2``: weights, which need not sum to 1; a kind that is not named is not asked.

    Raises:
        UsageError: A kind is unknown, or a weight is no number above 0.
    """
    if not text.strip():
        return dict(DEFAULT_MIX)
    found: dict[Kind, float] = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        try:
            kind, value = Kind(name.strip()), float(weight or 1)
        except ValueError as error:
            raise UsageError(f"--mix: '{part.strip()}' is not KIND=WEIGHT.", f"Kinds: {', '.join(Kind)}.") from error
        if not 0 < value < float("inf"):
            raise UsageError(f"--mix: the weight of {kind} is {weight}; it must be above 0.")
        found[kind] = value
    return found


def quotas(n: int, mix: Mapping[Kind, float]) -> dict[Kind, int]:
    """Share ``n`` items among the kinds by largest remainder; ties go to the kind named first in :class:`Kind`."""
    total = sum(mix.values())
    exact = {kind: n * mix[kind] / total for kind in Kind if kind in mix}
    found = {kind: int(value) for kind, value in exact.items()}
    left = sorted(exact, key=lambda kind: found[kind] - exact[kind])
    for kind in left[: n - sum(found.values())]:
        found[kind] += 1
    return found
