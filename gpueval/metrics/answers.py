"""Metrics of the answer as such: does it meet the question, does it say what the reference says?"""

from __future__ import annotations

import re
import unicodedata

from gpueval.metrics.base import (
    Metric,
    claim_rows,
    is_blank,
    share,
    unanswerable,
    worst_state,
    yes,
)
from gpueval.records import FAILURES, Cell, Judgments, Need, Sample, State

CORRECTNESS_WEIGHTS = (0.75, 0.25)
"""Weights of claim F1 and of semantic similarity in answer correctness (Ragas' default)."""


class _PunctuationToSpace(dict[int, str]):
    """A translation table that learns each character's Unicode category once."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = found = " " if unicodedata.category(character)[0] in "PS" else character
        return found


_SPACES = _PunctuationToSpace()
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise(text: str) -> str:
    """Lower-case, apply NFKC, drop punctuation and English articles, collapse white space (SQuAD's rule, made
    Unicode-aware). A text of punctuation only keeps it.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = folded.translate(_SPACES)
    words = _ARTICLES.sub(" ", kept).split()
    return " ".join(words) or folded.strip()


def _relevancy(sample: Sample, judgments: Judgments) -> Cell:
    if is_blank(sample.answer):
        return Cell(0.0, State.NO_CLAIMS)
    if judgments.claims["answer"].abstains:
        return Cell(1.0 if unanswerable(sample) else 0.0, State.ABSTAINED)
    (responds,) = judgments.verdicts[Need.RESPONDS]
    similar = judgments.verdicts[Need.SIMILAR_QUESTIONS]
    if responds.p is None:
        return Cell(None, responds.state)
    detail = {"p_responds": responds.p, "evasive": responds.p < judgments.threshold}
    if detail["evasive"]:
        return Cell(0.0, State.OK, detail=detail)
    known = [verdict.p for verdict in similar if verdict.p is not None]
    if not known:
        return Cell(None, worst_state(similar), detail=detail)
    value = sum(known) / len(similar)
    n_missing = len(similar) - len(known)
    if n_missing:
        detail |= {"n_asked": len(similar), "n_missing": n_missing}
        return Cell(value, State.PARTIAL, value, value + n_missing / len(similar), detail=detail)
    return Cell(value, State.OK, detail=detail)


ANSWER_RELEVANCY = Metric(
    "answer_relevancy", ("question", "answer"), (Need.RESPONDS, Need.SIMILAR_QUESTIONS), _relevancy
)
"""Mean cosine of the question with three questions that the judge writes from the answer alone, clipped to [0, 1]; 0
where the judge finds that the answer does not respond (one verdict, ``detail.p_responds``), and 0 for a blank or
declining answer unless the question is known to be unanswerable."""


def is_equal(sample: Sample) -> bool:
    """Tell whether answer and reference are the same text after :func:`normalise`."""
    return normalise(sample.answer or "") == normalise(sample.reference or "")


def _correctness(sample: Sample, judgments: Judgments) -> Cell:
    answer, reference = judgments.claims["answer"], judgments.claims["reference"]
    if is_blank(sample.answer):
        return Cell(0.0, State.NO_CLAIMS)
    if is_equal(sample):
        return Cell(1.0, State.OK, detail={"equal": True})
    if answer.abstains:
        right = unanswerable(sample) or reference.abstains
        return Cell(1.0 if right else 0.0, State.ABSTAINED)
    if reference.abstains:
        return Cell(0.0, State.OK, detail={"reference_declines": True})
    for claims in (answer, reference):
        if claims.state in FAILURES:
            return Cell(None, claims.state)
    if not answer.texts or not reference.texts:
        return Cell(None, State.NO_CLAIMS, detail={"side": "reference" if answer.texts else "answer"})

    right_values = [yes(verdict, judgments.threshold) for verdict in judgments.verdicts[Need.ANSWER_BY_REFERENCE]]
    rows = claim_rows(judgments, "answer", Need.ANSWER_BY_REFERENCE, right_values, sample)
    precision = share(right_values, judgments.verdicts[Need.ANSWER_BY_REFERENCE], rows)
    stated = judgments.verdicts[Need.REFERENCE_BY_ANSWER]
    recall = share([yes(verdict, judgments.threshold) for verdict in stated], stated)
    (similarity,) = judgments.verdicts[Need.SIMILAR_REFERENCE]
    for part in (precision, recall):
        if part.value is None:
            return Cell(None, part.state, claims=rows)
    if similarity.p is None:
        return Cell(None, similarity.state, claims=rows)

    def combine(p: float | None, r: float | None) -> float:
        assert p is not None
        assert r is not None
        assert similarity.p is not None
        f1 = 2 * p * r / (p + r) if p + r else 0.0
        return (CORRECTNESS_WEIGHTS[0] * f1 + CORRECTNESS_WEIGHTS[1] * similarity.p) / sum(CORRECTNESS_WEIGHTS)

    value = combine(precision.value, recall.value)
    detail = {"precision": precision.value, "recall": recall.value, "similarity": similarity.p}
    if State.PARTIAL not in (precision.state, recall.state):
        return Cell(value, State.OK, claims=rows, detail=detail)
    high = combine(
        precision.value if precision.high is None else precision.high,
        recall.value if recall.high is None else recall.high,
    )
    return Cell(value, State.PARTIAL, value, high, rows, detail)


ANSWER_CORRECTNESS = Metric(
    "answer_correctness",
    ("question", "answer", "reference"),
    (Need.ANSWER_BY_REFERENCE, Need.REFERENCE_BY_ANSWER, Need.SIMILAR_REFERENCE),
    _correctness,
    decided=is_equal,
)
"""``0.75 F1 + 0.25 s``: precision = share of answer claims supported by the reference, recall = share of reference
claims supported by the answer (two different sets), F1 = 2 P R / (P + R), s = semantic similarity. 1 without a call
where answer and reference are equal after :func:`normalise`. A declining answer is 1 where the question is known to
be unanswerable or the reference declines too, else 0."""


def _similarity(sample: Sample, judgments: Judgments) -> Cell:
    if is_blank(sample.answer):
        return Cell(0.0, State.NO_CLAIMS)
    (verdict,) = judgments.verdicts[Need.SIMILAR_REFERENCE]
    return Cell(verdict.p, verdict.state)


SEMANTIC_SIMILARITY = Metric("semantic_similarity", ("answer", "reference"), (Need.SIMILAR_REFERENCE,), _similarity)
"""Cosine of the embeddings of answer and reference, clipped to [0, 1]; 0 where the answer is blank."""
