"""What can be wrong with a sample: named causes, each with the rule over metrics that finds it. Pure.

The rules follow the way of an answer: what was retrieved, what the documents say, what the generator made of it, and
how far the judge can be believed. A rule of the generator asks that the evidence was there, so that an answer which had
nothing to go by is put down to retrieval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpueval.diagnosis.ablation import Condition
from gpueval.diagnosis.failures import says_it_all
from gpueval.metrics import METRICS
from gpueval.records import FAILURES, Sample, State

Line = Mapping[str, Any]
"""A line of ``scores.jsonl``."""

GOOD = 0.5
"""Score from which a sample counts as good."""

LATE = 3
"""Rank from which a first useful document stands low."""


class Area(StrEnum):
    """Where a cause lies."""

    RETRIEVAL = "retrieval"
    DOCUMENTS = "documents"
    GENERATION = "generation"
    JUDGE = "judge"


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
class Cause(Kind):
    """A kind with its rule.

    Attributes:
        area: Where it lies.
        try_next: What to try.
        confirm: What measurement would confirm it.
        holds: Whether a sample is of this kind.
        metric: Its worst values are the clearest, where the run has it.
    """

    area: Area
    try_next: str
    confirm: str
    holds: Callable[[Sample, Line], bool]
    metric: str = ""


def _value(line: Line, metric: str) -> float | None:
    value: float | None = line["scores"].get(metric, {}).get("value")
    return value


def _bad(line: Line, metric: str) -> bool:
    value = _value(line, metric)
    return value is not None and (value < GOOD if METRICS[metric].higher_is_better else value >= GOOD)


def _good(line: Line, metric: str) -> bool:
    return _value(line, metric) is not None and not _bad(line, metric)


def _is(line: Line, metric: str, state: State) -> bool:
    return bool(line["scores"].get(metric, {}).get("state") == state)


def _claims(line: Line, metric: str) -> Sequence[Mapping[str, Any]]:
    claims: Sequence[Mapping[str, Any]] = line["scores"].get(metric, {}).get("claims", ())
    return claims


def _ranks(sample: Sample) -> list[bool] | None:
    """Say of each retrieved document, in order, whether it is relevant; None where the sample does not tell."""
    if not sample.relevant_ids:
        return None
    relevant = set(sample.relevant_ids)
    named = [bool({passage.id, passage.source} & relevant) for passage in sample.contexts or ()]
    if any(named):
        return named
    if sample.retrieved_ids is not None:
        return [name in relevant for name in sample.retrieved_ids]
    return named if any(passage.id or passage.source for passage in sample.contexts or ()) else None


def recalled(line: Line) -> float | None:
    """Return context recall with every claim held that one sentence says word by word, whatever the judge says of it.

    A small judge overlooks sentences among look-alikes; a cause must not rest on that. None where there is no value.
    """
    value, claims = _value(line, "context_recall"), _claims(line, "context_recall")
    if value is None or not any(map(_is_denied, claims)):
        return value
    return sum(bool(claim["supported"]) or _is_denied(claim) for claim in claims) / len(claims)


def _recall_is_bad(line: Line) -> bool:
    value = recalled(line)
    return value is not None and value < GOOD


def _is_denied(claim: Mapping[str, Any]) -> bool:
    """The judge finds no support, yet one sentence holds every word."""
    return claim["supported"] is False and says_it_all(claim["text"], claim.get("sentence"))


def _follow_from_reference(line: Line) -> frozenset[str]:
    """Claims that follow from the reference where the documents hold all of that: they hold these, too."""
    if recalled(line) != 1.0:
        return frozenset()
    return frozenset(claim["text"] for claim in _claims(line, "answer_correctness") if claim["supported"])


def _is_overruled(claim: Mapping[str, Any], follows: frozenset[str]) -> bool:
    return _is_denied(claim) or (claim["supported"] is False and claim["text"] in follows)


def _missed(sample: Sample, line: Line) -> bool:
    if sample.answerable is False:  # there is nothing to retrieve
        return False
    ranks = _ranks(sample)
    if ranks is not None:
        return not any(ranks)
    return _recall_is_bad(line) or _value(line, "context_precision") == 0.0


def _ranked_low(sample: Sample, line: Line) -> bool:
    useful = _ranks(sample)
    if useful is None:
        useful = line["scores"].get("context_precision", {}).get("useful") or []
    return any(useful) and useful.index(True) + 1 >= LATE


def _documents_lack_it(sample: Sample, line: Line) -> bool:
    """A relevant document was retrieved, yet what was retrieved does not hold the reference."""
    return sample.answerable is not False and any(_ranks(sample) or ()) and _recall_is_bad(line)


def _evasive_answer(line: Line) -> bool:
    return bool(line["scores"].get("answer_relevancy", {}).get("evasive"))


def _stale(sample: Sample, line: Line) -> bool:
    follows = _good(line, "faithfulness") and _bad(line, "answer_correctness")
    return _documents_lack_it(sample, line) and follows and not _evasive_answer(line)


def _cut(sample: Sample, line: Line) -> bool:
    right = _good(line, "answer_correctness")
    return _documents_lack_it(sample, line) and not right and not _stale(sample, line)


def _had_evidence(sample: Sample, line: Line) -> bool:
    """Nothing says that the evidence was not there."""
    return not _missed(sample, line) and not _documents_lack_it(sample, line)


def _follows_noise(sample: Sample, line: Line) -> bool:
    if not _had_evidence(sample, line):
        return False
    if (_value(line, "noise_sensitivity_irrelevant") or 0.0) > 0:
        return True
    ranks = _ranks(sample)
    wrong = _good(line, "faithfulness") and _bad(line, "answer_correctness")
    if not wrong or ranks is None or len(ranks) != len(sample.contexts or ()):
        return False
    relevant = {passage.id or k for k, passage in enumerate(sample.contexts or ()) if ranks[k]}
    sources = [claim.get("evidence") for claim in _claims(line, "faithfulness") if claim.get("supported")]
    return bool(sources) and all(source is not None and source not in relevant for source in sources)


def _unsupported(sample: Sample, line: Line) -> bool:
    follows = _follow_from_reference(line)
    invented = any(
        claim["supported"] is False and not _is_overruled(claim, follows) for claim in _claims(line, "faithfulness")
    )
    return invented and _had_evidence(sample, line)


def _blended(_: Sample, line: Line) -> bool:
    return (_value(line, "blending") or 0.0) > 0


def _evasive(sample: Sample, line: Line) -> bool:
    return _evasive_answer(line) and _had_evidence(sample, line)


def _declined(sample: Sample, line: Line) -> bool:
    answered = [name for name in ("faithfulness", "answer_relevancy", "answer_correctness") if name in line["scores"]]
    declined = any(_is(line, name, State.ABSTAINED) for name in answered)
    return sample.answerable is not False and declined and _had_evidence(sample, line)


def _wrong(sample: Sample, line: Line) -> bool:
    found = _good(line, "faithfulness") and _bad(line, "answer_correctness") and _had_evidence(sample, line)
    return found and not _follows_noise(sample, line) and not _evasive_answer(line)


def _overruled(_: Sample, line: Line) -> bool:
    follows = _follow_from_reference(line)
    answered = any(_is_overruled(claim, follows) for claim in _claims(line, "faithfulness"))
    return answered or any(map(_is_denied, _claims(line, "context_recall")))


def _failed(_: Sample, line: Line) -> bool:
    return any(cell["state"] in FAILURES or cell["state"] == State.PARTIAL for cell in line["scores"].values())


CAUSES: Sequence[Cause] = (
    Cause(
        "missed",
        "Retrieval misses",
        "None of the relevant documents was retrieved; where they are not named, what was retrieved holds less than "
        "half of the reference, or nothing useful.",
        Area.RETRIEVAL,
        "Retrieve more documents (k), try another embedding model or words beside vectors, and look whether the corpus "
        "holds the document at all.",
        "gpueval retrieve on the corpus: recall at growing depth; gpueval ablate: what the true documents add.",
        _missed,
        "context_recall",
    ),
    Cause(
        "ranked",
        "Useful documents stand low",
        f"The first relevant or useful document comes at rank {LATE} or later.",
        Area.RETRIEVAL,
        "Rerank what is retrieved, and check the order in which documents enter the prompt.",
        "gpueval rank on the retriever's lists: MRR and nDCG before and after.",
        _ranked_low,
        "context_precision",
    ),
    Cause(
        "noise",
        "The answer follows the wrong document",
        "The evidence was retrieved, and the answer repeats what an irrelevant document says.",
        Area.RETRIEVAL,
        "Retrieve fewer documents, rerank, or drop those below a score.",
        "gpueval run --metrics noise_sensitivity_irrelevant, with fewer documents against now.",
        _follows_noise,
        "answer_correctness",
    ),
    Cause(
        "cut",
        "The right document, without the fact",
        "A relevant document was retrieved, what was retrieved of it holds less than half of the reference, and the "
        "answer is not known to be right: the fact is cut in two, lies in another chunk, or the document no longer "
        "has it.",
        Area.DOCUMENTS,
        "Look at the chunk's ends: larger chunks, overlap, or whole sections; else the document has changed.",
        "context_recall with larger chunks; gpueval diagnose against a run from before.",
        _cut,
        "context_recall",
    ),
    Cause(
        "stale",
        "The documents say otherwise",
        f"A relevant document was retrieved and the answer follows the documents (faithfulness {GOOD} or more), but "
        "neither agrees with the reference: a document or the reference is out of date, or documents contradict.",
        Area.DOCUMENTS,
        "Read document and reference side by side and mend the one that is out of date.",
        "Score again with the mended one; gpueval diagnose against a run from before names changed documents.",
        _stale,
        "context_recall",
    ),
    Cause(
        "unsupported",
        "Claims without support",
        "A claim of the answer is in no retrieved document, and nothing says that the evidence was not there.",
        Area.GENERATION,
        "Tell the generator to say only what the documents say, lower its temperature, or try another one.",
        "Faithfulness of the same contexts with the changed prompt; gpueval ablate: it stays with the true documents.",
        _unsupported,
        "faithfulness",
    ),
    Cause(
        "blended",
        "Documents mixed up",
        "A claim joins what different documents say of different things.",
        Area.GENERATION,
        "Name the source before every document in the prompt, and retrieve fewer look-alikes.",
        "blending with documents of one source only.",
        _blended,
        "blending",
    ),
    Cause(
        "wrong",
        "Supported, yet wrong",
        f"Faithfulness {GOOD} or more, answer correctness below {GOOD}, with the evidence there: the answer picks "
        "another fact, mixes two, or says too little.",
        Area.GENERATION,
        "Read question and answer: ambiguous questions need clearer wording, and answers to another question a better "
        "prompt or generator.",
        "answer_correctness with another generator on the same contexts.",
        _wrong,
        "answer_correctness",
    ),
    Cause(
        "evasive",
        "Evasive answers",
        "The answer does not give what the question asks for.",
        Area.GENERATION,
        "Ask for the answer first in the prompt, and cut general advice.",
        "answer_relevancy of the same contexts with the changed prompt.",
        _evasive,
        "answer_relevancy",
    ),
    Cause(
        "declined",
        "Declined",
        "The answer declines; the question is not known to be unanswerable, and nothing says that the evidence was not "
        "there.",
        Area.GENERATION,
        "Soften the prompt's rule for declining, or mark questions that are unanswerable.",
        "Share of declining answers with the true documents: gpueval ablate.",
        _declined,
    ),
    Cause(
        "suspicious",
        "Text that speaks to the judge",
        "A text holds instructions.",
        Area.JUDGE,
        "Read these samples: an injected document can turn a score.",
        "The same run with and without --keep-instructions.",
        lambda _, line: "suspicious" in line,
    ),
    Cause(
        "unstable",
        "Close calls",
        "A verdict lies so near the threshold that another machine may turn it.",
        Area.JUDGE,
        "Take a larger judge, or calibrate this one.",
        "gpueval calibrate with 100 to 300 labels.",
        lambda _, line: "unstable" in line,
    ),
    Cause(
        "overruled",
        "Judge against the words",
        "The judge finds a claim unsupported although one sentence holds every word of it, or although it follows from "
        "the reference and the documents hold that.",
        Area.JUDGE,
        "Read these first: where the judge is wrong, take a larger one or calibrate it.",
        "gpueval calibrate with labels of these samples among them.",
        _overruled,
    ),
    Cause(
        "failed",
        "Lost verdicts",
        "The evaluator came up short: a verdict is missing.",
        Area.JUDGE,
        "Run the same command again: only what is missing is asked. The state says what went wrong.",
        "The count after that.",
        _failed,
    ),
)
"""In the order in which they are looked for and shown."""


def is_control(sample: Sample) -> bool:
    """Tell whether a sample is one of an ablation's conditions that the system never sees."""
    return "ablation_id" in sample.extra and sample.group != Condition.FULL


def causes_of(sample: Sample, line: Line) -> int:
    """Return the causes that hold for a sample, as a bit mask over :data:`CAUSES`; none for an ablation's controls."""
    if is_control(sample):
        return 0
    return sum(1 << k for k, cause in enumerate(CAUSES) if cause.holds(sample, line))
