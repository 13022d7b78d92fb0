"""The same verdicts through Ragas' formulas, re-derived from its source (0.4.3), and through ours.

Equal where the definitions are meant to be equal; where ours differs on purpose, the difference is stated.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpueval.metrics import METRICS, score
from gpueval.metrics.retrieved import average_precision
from gpueval.records import Claims, Judgments, Need, Passage, Sample, Verdict

verdicts = st.lists(st.booleans(), min_size=1, max_size=8)


def p(values):
    return tuple(Verdict(0.9 if value else 0.1) for value in values)


def judged(name, *, n_chunks=1, claims=None, **needs):
    side = {"answer": claims or 1, "reference": claims or 1} if not isinstance(claims, dict) else claims
    made = {key: Claims(tuple(f"{key} {i}" for i in range(n))) for key, n in side.items()}
    sample = Sample(
        id="1",
        question="q",
        answer="some answer",
        reference="another reference",
        contexts=tuple(Passage(f"c{k}") for k in range(n_chunks)),
    )
    return score(METRICS[name], sample, Judgments(made, {Need[key]: p(value) for key, value in needs.items()}))


@given(verdicts)
def test_faithfulness_and_recall_equal_ragas_when_every_verdict_came(v) -> None:
    # Ragas: sum(v) / len(v returned). Ours divides by the number asked, the same when all came.
    assert judged("faithfulness", claims=len(v), ANSWER_BY_ALL=v).value == pytest.approx(np.mean(v))
    assert judged("context_recall", claims=len(v), REFERENCE_BY_ALL=v).value == pytest.approx(np.mean(v))


@given(verdicts)
def test_context_precision_equals_ragas_up_to_its_epsilon(v) -> None:
    # Ragas: sum_i v_i * (sum_{j<=i} v_j) / i / (sum v + 1e-10): a perfect ranking shows as 0.9999999999, ours as 1.
    theirs = sum(v[i] * sum(v[: i + 1]) / (i + 1) for i in range(len(v))) / (sum(v) + 1e-10)
    ours = judged("context_precision", n_chunks=len(v), USEFUL_FOR_REFERENCE=v).value
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert ours == average_precision(v)
    if all(v):
        assert ours == 1.0


@given(st.data())
def test_noise_sensitivity_equals_ragas(data) -> None:
    n_chunks, n_answer, n_reference = (data.draw(st.integers(1, 4)) for _ in range(3))
    grid = st.lists(st.booleans(), min_size=n_answer * n_chunks, max_size=n_answer * n_chunks)
    a = np.array(data.draw(grid)).reshape(n_chunks, n_answer)
    g = np.array(
        data.draw(st.lists(st.booleans(), min_size=n_reference * n_chunks, max_size=n_reference * n_chunks))
    ).reshape(n_chunks, n_reference)
    right = np.array(data.draw(st.lists(st.booleans(), min_size=n_answer, max_size=n_answer)))
    # Ragas: a chunk is relevant when it supports a reference claim; relevant = mean(any relevant chunk supports and
    # wrong); irrelevant = mean(an irrelevant chunk supports, no relevant one does, and wrong).
    relevant = g.any(axis=1)
    from_relevant = (a & relevant[:, None]).any(axis=0)
    from_irrelevant = (a & ~relevant[:, None]).any(axis=0) & ~from_relevant
    made = {"answer": n_answer, "reference": n_reference}
    needs = {"ANSWER_BY_CHUNK": a.ravel(), "REFERENCE_BY_CHUNK": g.ravel(), "ANSWER_BY_REFERENCE": right}
    ours = {
        part: judged(f"noise_sensitivity{part}", n_chunks=n_chunks, claims=made, **needs).value
        for part in ("", "_relevant", "_irrelevant")
    }
    assert ours["_relevant"] == pytest.approx((from_relevant & ~right).mean())
    assert ours["_irrelevant"] == pytest.approx((from_irrelevant & ~right).mean())
    assert ours[""] == pytest.approx(ours["_relevant"] + ours["_irrelevant"])


@given(verdicts, verdicts, st.floats(0, 1))
def test_answer_correctness_is_ragas_weighting_over_a_true_recall(v, w, s) -> None:
    # Ragas: 0.75 F1 + 0.25 cosine. Its recall mixes counts over two sets of claims; ours is the share of reference
    # claims that the answer states, so only the weighting and F1 of the two shares are compared.
    precision, recall = np.mean(v), np.mean(w)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    made = {"answer": Claims(tuple(map(str, v))), "reference": Claims(tuple(map(str, w)))}
    needs = {
        Need.ANSWER_BY_REFERENCE: p(v),
        Need.REFERENCE_BY_ANSWER: p(w),
        Need.SIMILAR_REFERENCE: (Verdict(s),),
    }
    sample = Sample(id="1", question="q", answer="x", reference="y")
    ours = score(METRICS["answer_correctness"], sample, Judgments(made, needs))
    assert ours.value == pytest.approx(0.75 * f1 + 0.25 * s)


def test_answer_relevancy_equals_ragas() -> None:
    # Ragas: mean cosine of three questions, times 0 when the answer is noncommittal. (0.9 + 0.6 + 0.3) / 3 = 0.6
    needs = {Need.RESPONDS: (Verdict(0.9),), Need.SIMILAR_QUESTIONS: tuple(map(Verdict, (0.9, 0.6, 0.3)))}
    sample = Sample(id="1", question="q", answer="x")
    judgments = Judgments({"answer": Claims(("x",))}, needs)
    assert score(METRICS["answer_relevancy"], sample, judgments).value == pytest.approx(0.6)


def test_ragchecker_shares_sum_to_one() -> None:
    # RAGChecker: faithfulness + self-knowledge + hallucination = 1 over the claims of the answer.
    needs = {"ANSWER_BY_ALL": [1, 0, 0, 1, 0], "ANSWER_BY_REFERENCE": [1, 1, 0, 0, 0]}
    values = [judged(name, claims=5, **needs).value for name in ("faithfulness", "self_knowledge", "hallucination")]
    assert values == pytest.approx([0.4, 0.2, 0.4])


def test_context_utilization_by_hand() -> None:
    # Three of four reference claims are in the chunks; the answer states two of those: 2/3.
    cell = judged("context_utilization", claims=4, REFERENCE_BY_ALL=[1, 1, 1, 0], REFERENCE_BY_ANSWER=[1, 1, 0, 1])
    assert cell.value == pytest.approx(2 / 3)
