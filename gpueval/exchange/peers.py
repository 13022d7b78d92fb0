"""How Ragas, DeepEval and TruLens name what they measure, and how their result files are laid out. Pure.

Names map to the metric that asks the same question; what a tool computes for it differs. Layouts: Ragas,
``EvaluationResult.to_pandas()`` as CSV or JSON lines (0.1 to 0.4); DeepEval, the test run it keeps as JSON (2 to 4);
TruLens, ``get_records_and_feedback()`` as CSV (1 and 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

Tool = Literal["ragas", "deepeval", "trulens"]
TOOLS: tuple[Tool, ...] = ("ragas", "deepeval", "trulens")

NAMES: dict[Tool, dict[str, str]] = {
    "ragas": {
        "faithfulness": "faithfulness",
        "answer_relevancy": "answer_relevancy",
        "response_relevancy": "answer_relevancy",
        "context_precision": "context_precision",
        "llm_context_precision_with_reference": "context_precision",
        "llm_context_precision_without_reference": "context_precision_answer",
        "context_recall": "context_recall",
        "context_relevance": "context_relevance",
        "nv_context_relevance": "context_relevance",
        "answer_correctness": "answer_correctness",
        "semantic_similarity": "semantic_similarity",
        "answer_similarity": "semantic_similarity",
        "noise_sensitivity": "noise_sensitivity",
        "noise_sensitivity_relevant": "noise_sensitivity_relevant",
        "noise_sensitivity_irrelevant": "noise_sensitivity_irrelevant",
        "exact_match": "exact_match",
        "bleu_score": "bleu",
        "rouge_score": "rouge_l",
    },
    "deepeval": {
        "faithfulness": "faithfulness",
        "answer relevancy": "answer_relevancy",
        "contextual precision": "context_precision",
        "contextual recall": "context_recall",
        "contextual relevancy": "context_relevance",
        "hallucination": "hallucination",
        "exact match": "exact_match",
    },
    "trulens": {
        "groundedness": "faithfulness",
        "answer relevance": "answer_relevancy",
        "context relevance": "context_relevance_chunk",
        "correctness": "answer_correctness",
    },
}
"""Per tool its names, in lower case and without what stands in brackets, and the metric of the same question."""

_BRACKETS = re.compile(r"\s*[(\[].*$")
_MODE = re.compile(r"^noise_sensitivity\(mode=(relevant|irrelevant)\)$")


def metric_of(tool: Tool, name: str) -> str | None:
    """Return our metric for a tool's name; None for one that we do not have."""
    if found := _MODE.match(name.strip().lower()):
        return f"noise_sensitivity_{found[1]}"
    return NAMES[tool].get(_BRACKETS.sub("", name.strip().lower()))


def name_for(tool: Tool, metric: str) -> str | None:
    """Return the name that a tool gives to the question of one of our metrics; None where it has none."""
    name = next((name for name, own in NAMES[tool].items() if own == metric), None)
    return name if name is None or tool == "ragas" else name.title()


def rows_of(tool: Tool, rows: Iterator[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Bring a tool's rows into one form: the fields of a sample, and a column per metric.

    Args:
        tool: Whose.
        rows: Line and row; for DeepEval the test cases of a test run.
    """
    for line, row in rows:
        if tool == "deepeval":
            scores = {one.get("name", ""): one.get("score") for one in row.get("metricsData") or ()}
            own = {key: value for key, value in row.items() if key not in ("metricsData", "context", "name", "tags")}
            yield line, {"id": row.get("name") or f"case {row.get('order', line)}"} | own | scores
        else:
            yield line, row


def tool_of(columns: Mapping[str, Any]) -> Tool | None:
    """Tell whose row this is by its columns; None where they do not say."""
    if "user_input" in columns or "ground_truth" in columns:
        return "ragas"
    if "metricsData" in columns:
        return "deepeval"
    if "record_id" in columns:
        return "trulens"
    return None
