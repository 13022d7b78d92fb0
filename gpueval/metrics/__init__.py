"""Metrics: pure functions over a sample and its judgments, by name."""

from __future__ import annotations

from collections.abc import Iterable

from gpueval.errors import UsageError
from gpueval.metrics import answers, baselines, grounding, retrieved
from gpueval.metrics.base import Metric, score

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        grounding.FAITHFULNESS,
        answers.ANSWER_RELEVANCY,
        retrieved.CONTEXT_PRECISION,
        retrieved.CONTEXT_PRECISION_ANSWER,
        grounding.CONTEXT_RECALL,
        retrieved.CONTEXT_RELEVANCE,
        retrieved.CONTEXT_RELEVANCE_CHUNK,
        answers.ANSWER_CORRECTNESS,
        answers.SEMANTIC_SIMILARITY,
        grounding.HALLUCINATION,
        grounding.NOISE_SENSITIVITY,
        grounding.NOISE_SENSITIVITY_RELEVANT,
        grounding.NOISE_SENSITIVITY_IRRELEVANT,
        grounding.CONTEXT_UTILIZATION,
        grounding.SELF_KNOWLEDGE,
        grounding.BLENDING,
        baselines.EXACT_MATCH,
        baselines.TOKEN_F1,
        baselines.BLEU,
        baselines.ROUGE_L,
        baselines.BERTSCORE,
    )
}

DEFAULT = ("faithfulness", "answer_relevancy", "context_precision", "context_recall", "answer_correctness")


def choose(names: Iterable[str]) -> tuple[Metric, ...]:
    """Return metrics by name, each once, in the order given; ``all`` stands for every metric.

    Raises:
        UsageError: A name is unknown.
    """
    chosen: dict[str, Metric] = {}
    for name in names:
        if name == "all":
            chosen |= METRICS
        elif name in METRICS:
            chosen[name] = METRICS[name]
        else:
            raise UsageError(f"Unknown metric '{name}'.", f"Known metrics: {', '.join(METRICS)}, all")
    return tuple(chosen.values())


__all__ = ["DEFAULT", "METRICS", "Metric", "choose", "score"]
