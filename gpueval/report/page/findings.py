"""What is worth a look: named kinds of samples, each with the rule that finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpueval.metrics import METRICS
from gpueval.records import FAILURES, Sample, State

Line = Mapping[str, Any]
"""A line of ``scores.jsonl``."""

GOOD = 0.5
"""Score from which a sample counts as good."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sample to look at.

    Attributes:
        key: Short name.
        title: For people.
        words: What it means, and the rule.
    """

    key: str
    title: str
    words: str


@dataclass(frozen=True, slots=True)
class Finding(Kind):
    """A kind with its rule.

    Attributes:
        holds: Whether a sample is of this kind.
        metric: Its worst values are listed first, where the run has it.
    """

    holds: Callable[[Sample, Line], bool]
    metric: str = ""


def _value(line: Line, metric: str) -> float | None:
    value: float | None = line["scores"].get(metric, {}).get("value")
    return value


def _bad(line: Line, metric: str) -> bool:
    value = _value(line, metric)
    return value is not None and (value < GOOD if METRICS[metric].higher_is_better else value >= GOOD)


def _is(line: Line, metric: str, state: State) -> bool:
    return bool(line["scores"].get(metric, {}).get("state") == state)


def _unsupported(_: Sample, line: Line) -> bool:
    return any(claim.get("supported") is False for claim in line["scores"].get("faithfulness", {}).get("claims", ()))


def _blended(_: Sample, line: Line) -> bool:
    return (_value(line, "blending") or 0.0) > 0


def _evasive(_: Sample, line: Line) -> bool:
    return bool(line["scores"].get("answer_relevancy", {}).get("evasive"))


def _declined(sample: Sample, line: Line) -> bool:
    answered = [name for name in ("faithfulness", "answer_relevancy", "answer_correctness") if name in line["scores"]]
    return sample.answerable is not False and any(_is(line, name, State.ABSTAINED) for name in answered)


def _missed(sample: Sample, line: Line) -> bool:
    if sample.answerable is False:  # there is nothing to retrieve
        return False
    if sample.relevant_ids and sample.retrieved_ids is not None:
        return not set(sample.relevant_ids) & set(sample.retrieved_ids)
    return _bad(line, "context_recall") or _value(line, "context_precision") == 0.0


def _grounded_but_wrong(_: Sample, line: Line) -> bool:
    supported = _value(line, "faithfulness")
    return supported is not None and supported >= GOOD and _bad(line, "answer_correctness")


def _failed(_: Sample, line: Line) -> bool:
    return any(cell["state"] in FAILURES or cell["state"] == State.PARTIAL for cell in line["scores"].values())


FINDINGS: Sequence[Finding] = (
    Finding(
        "unsupported",
        "Claims without support",
        "A claim of the answer is in no retrieved document.",
        _unsupported,
        "faithfulness",
    ),
    Finding(
        "blended",
        "Documents mixed up",
        "A claim joins what different documents say of different things.",
        _blended,
        "blending",
    ),
    Finding(
        "wrong",
        "Supported, yet wrong",
        f"Faithfulness {GOOD} or more, answer correctness below {GOOD}: often facts mixed from two documents, or a "
        "document about something else.",
        _grounded_but_wrong,
        "answer_correctness",
    ),
    Finding(
        "evasive",
        "Evasive answers",
        "The answer does not give what the question asks for.",
        _evasive,
        "answer_relevancy",
    ),
    Finding(
        "declined", "Declined", "The answer declines, and the question is not known to be unanswerable.", _declined
    ),
    Finding(
        "missed",
        "Retrieval misses",
        "None of the relevant documents was retrieved; where they are not named, what was retrieved holds less than "
        "half of the reference, or nothing useful.",
        _missed,
        "context_recall",
    ),
    Finding(
        "suspicious",
        "Text that speaks to the judge",
        "A text holds instructions.",
        lambda _, line: "suspicious" in line,
    ),
    Finding(
        "unstable",
        "Close calls",
        "A verdict lies so near the threshold that another machine may turn it.",
        lambda _, line: "unstable" in line,
    ),
    Finding("failed", "Lost verdicts", "The evaluator came up short: a verdict is missing.", _failed),
)
"""In the order in which they are shown."""


def found_in(sample: Sample, line: Line) -> int:
    """Return the findings that hold for a sample, as a bit mask over :data:`FINDINGS`."""
    return sum(1 << k for k, finding in enumerate(FINDINGS) if finding.holds(sample, line))
