"""How good is this judge at the checks? It is asked about labelled items first, and every check gets its threshold.

108 items over eight short documents, written and labelled by hand for this, lie beside the code. A small judge may be
right in its ranking and wrong at 0.5; and a check at which it only guesses must not drop anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from gpueval.judge.parse import verdict
from gpueval.judge.plan import Keys
from gpueval.records import Completion, Request
from gpueval.stats import agreement, mapping
from gpueval.testset.checks import Check, Questions, closed_support, questions_about
from gpueval.testset.items import Item

GUESSING = 0.65
"""Balanced accuracy, cross-fitted, below which a check is not used."""

FEWEST = 8
"""Labels of either kind below which a threshold is an accident."""


@dataclass(frozen=True, slots=True)
class Trust:
    """One check by one judge.

    Attributes:
        threshold: Probability from which its verdict counts as yes.
        balanced_accuracy: Mean share of right verdicts over labels that say yes and that say no, cross-fitted: no item
            had a part in the threshold it was held against.
        n_yes, n_no: Labels.
        used: It is better than guessing; else the check drops nothing.
    """

    threshold: float
    balanced_accuracy: float
    n_yes: int
    n_no: int
    used: bool


class Labelled(msgspec.Struct, frozen=True):
    """What people say of one item, per check; ``parts`` per chunk."""

    alone: bool
    supported: bool | None = None
    responds: bool | None = None
    whole: bool | None = None
    known: bool | None = None
    leaks: bool = False
    parts: tuple[bool, ...] = ()


def labelled() -> list[tuple[Item, Labelled]]:
    """Read the labelled items."""
    content = files("gpueval.testset").joinpath("assets/labelled.jsonl").read_bytes()
    rows: list[dict[str, Any]] = [msgspec.json.decode(line) for line in content.splitlines()]
    return [(msgspec.convert(row, Item), msgspec.convert(row["labels"], Labelled)) for row in rows]


def measure(ask: Callable[[Sequence[Request], str], dict[bytes, Completion]], keys: Keys) -> dict[Check, Trust]:
    """Ask the judge about the labelled items and fit a threshold per check.

    The threshold is that of :mod:`gpueval.stats.mapping`: the mapping's 0.5 over a logistic fit (Platt), as for
    ``gpueval calibrate``.

    Args:
        ask: Answers requests, under a name for progress.
        keys: Makes content keys.
    """
    found = pairs_of(ask, keys, labelled())
    return {check: fit(found[check]) for check in Check}


def pairs_of(
    ask: Callable[[Sequence[Request], str], dict[bytes, Completion]], keys: Keys, rows: Sequence[tuple[Item, Labelled]]
) -> dict[Check, list[tuple[float, bool]]]:
    """Return per check the judge's probabilities beside the labels; a reply that failed is a probability of 0."""
    asked = [questions_about(item, (), keys) for item, _ in rows]
    replies = ask([one for some in asked for one in (*some.first(), *some.second())], "checking the checks")
    closed = [closed_support(some, replies, keys) for some in asked]
    replies |= ask([one for some in closed for one in some], "checking the checks, without documents")

    def p(request: Request) -> float:
        return verdict([replies.get(request.key)]).p or 0.0

    found: defaultdict[Check, list[tuple[float, bool]]] = defaultdict(list)
    for (_, label), some, known in zip(rows, asked, closed, strict=True):
        for check, value, says in _pairs(some, known, label, p):
            found[check].append((value, says))
    return found


def _pairs(
    some: Questions, known: Sequence[Request], label: Labelled, p: Callable[[Request], float]
) -> list[tuple[Check, float, bool]]:
    found: list[tuple[Check, float, bool]] = []
    if some.alone:
        found.append((Check.ALONE, p(some.alone), label.alone))
    if some.supported and label.supported is not None:
        found.append((Check.SUPPORTED, min(map(p, some.supported)), label.supported))
    if some.responds and label.responds is not None:
        found.append((Check.RESPONDS, p(some.responds), label.responds))
    if some.whole and label.whole is not None:
        found.append((Check.ANSWERED, p(some.whole), label.whole))
    if label.known is not None:
        found.append((Check.KNOWN, min(map(p, known), default=0.0), label.known))
    found += [(Check.ANSWERED, p(one), says) for one, says in zip(some.parts, label.parts, strict=False)]
    return found


def fit(pairs: Sequence[tuple[float, bool]]) -> Trust:
    """Fit a threshold to probabilities and labels of one check, and measure it cross-fitted."""
    scores = np.array([score for score, _ in pairs])
    right = np.array([says for _, says in pairs])
    weights, clusters = np.ones(len(pairs)), np.arange(len(pairs))
    crossed = mapping.cross_fit(scores, right, weights, clusters, seed=0)
    balanced = float(agreement.balanced_accuracy(agreement.confusion(crossed.decisions, right, weights[None]))[0])
    fitted = mapping.fit(scores, right, weights, mapping.method_for(len(right)))
    threshold = mapping.threshold(fitted, scores, weights)
    n_yes = int(right.sum())
    used = balanced >= GUESSING and FEWEST <= n_yes <= len(pairs) - FEWEST
    return Trust(float(threshold), balanced, n_yes, len(pairs) - n_yes, used)
