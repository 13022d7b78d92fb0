"""Recall and nDCG as the list grows longer: how deep a reader, or a prompt, has to go."""

from __future__ import annotations

from gpueval.retrieval.measures import parse, score
from gpueval.retrieval.trec import Judgments, Run

_DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_CURVES = ("recall", "ndcg")


def names(deepest: int) -> list[str]:
    """Return the measures of both curves down to a depth, such as ``recall@5``."""
    depths = [depth for depth in _DEPTHS if depth < deepest] + [deepest]
    return [f"{name}@{depth}" for name in _CURVES for depth in depths]


def at_depths(run: Run, judgments: Judgments, deepest: int) -> dict[str, dict[int, float]]:
    """Return the mean of each measure at growing depth.

    Args:
        run: Ranked lists.
        judgments: Relevance.
        deepest: The last depth.

    Returns:
        ``{"recall": {1: 0.42, ...}, "ndcg": {...}}``; empty where no query is judged.
    """
    found = score(run, judgments, [parse(name) for name in names(deepest)], 1.0)
    if not found.queries:
        return {}
    return by_depth({name: float(values.mean()) for name, values in found.values.items()})


def by_depth(means: dict[str, float]) -> dict[str, dict[int, float]]:
    """Sort means such as ``recall@5`` by measure and depth."""
    curves: dict[str, dict[int, float]] = {}
    for name, mean in means.items():
        measure, depth = name.split("@")
        curves.setdefault(measure, {})[int(depth)] = mean
    return curves
