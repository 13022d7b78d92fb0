"""Summaries and gates."""

from __future__ import annotations

import numpy as np
import pytest

from gpueval.errors import DataError
from gpueval.records import Cell, State, Summary
from gpueval.report.gate import check, read_policy
from gpueval.stats.aggregate import Column, coverage
from gpueval.stats.intervals import bootstrap_means


def summary(mean=0.9, states=None, **fields):
    states = states or {"ok": 10}
    total = sum(states.values())
    body = {
        "ci_low": None,
        "ci_high": None,
        "n_scored": total,
        "n_total": total,
        "lower_bound": None,
        "upper_bound": None,
    }
    return Summary(mean=mean, states=states, **body | fields)


@pytest.fixture
def policy(tmp_path):
    def make(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return read_policy(path)

    return make


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (summary(0.95), "pass"),
        (summary(0.90), "pass"),
        (summary(0.89), "block"),
        (summary(None, {"no_claims": 10}, n_scored=0), "block"),
        (summary(0.95, {"ok": 9, "timeout": 1}), "block"),
        (summary(0.95, {"ok": 9, "not_applicable": 1}), "block"),
        (summary(0.95, {"ok": 9, "abstained": 1}), "pass"),
        # 9 of 10 verdicts of the one sample are missing: the value 0.95 stands on a tenth of it.
        (summary(0.95, {"ok": 0, "partial": 1}, lower_bound=0.05, upper_bound=0.95), "block"),
        (None, "block"),
    ],
)
def test_gate_fails_closed(policy, found, result) -> None:
    rules = policy("[metrics.faithfulness]\nblock = 0.90\n")
    (outcome,) = check(rules, {} if found is None else {"faithfulness": found})
    assert outcome.result == result


def test_gate_warns_and_knows_which_way_is_better(policy) -> None:
    rules = policy("[metrics.context_precision]\nwarn = 0.85\n[metrics.hallucination]\nblock = 0.1\n")
    outcomes = check(rules, {"context_precision": summary(0.8), "hallucination": summary(0.2)})
    assert [outcome.result for outcome in outcomes] == ["warn", "block"]
    assert outcomes[1].wanted == "<= 0.100"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "metrics"),
        ("[metrics]\n", "demands nothing"),
        ("[metrics.faith]\nblock=0.9\n", "unknown metric 'faith'"),
        ("[metrics.faithfulness]\nblok=0.9\n", "blok"),
        ("[metrics.faithfulness]\nblock=90\n", "outside 0 to 1"),
        ("[metrics.faithfulness]\n", "neither block nor warn"),
        ("min_coverage = 2\n[metrics.faithfulness]\nblock=0.9\n", "min_coverage"),
        ("not toml", "not TOML"),
    ],
)
def test_policy_errors(policy, text, part) -> None:
    with pytest.raises(DataError, match=part):
        policy(text)


def test_column_bounds_by_hand() -> None:
    column = Column()
    for cell in (
        Cell(1.0),
        Cell(0.5, State.PARTIAL, 0.5, 0.75),
        Cell(None, State.TIMEOUT),
        Cell(None, State.NO_CLAIMS),
    ):
        column.add(cell)
    found = column.summary(None)
    # Scored: 1 and 0.5. Bounds over the two scored and the one failed: (1 + 0.5 + 0)/3 and (1 + 0.75 + 1)/3.
    assert (found.mean, found.n_scored, found.n_total) == (0.75, 2, 4)
    assert found.lower_bound == pytest.approx(1.5 / 3)
    assert found.upper_bound == pytest.approx(2.75 / 3)
    # One of four failed, and the partial cell is open by a quarter: (4 - 1 - 0.25) / 4.
    assert coverage(found) == pytest.approx(0.6875)


def test_bootstrap_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the interval is compared with SciPy's")
    values = np.random.default_rng(1).beta(4, 2, size=200)
    ((low, high),) = bootstrap_means([values])
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2))
    # Monte-Carlo error of a 2.5 % quantile from 2,000 resamples: about 0.06 standard errors; 4 of those.
    error = 4 * 0.06 * values.std(ddof=1) / len(values) ** 0.5
    assert low == pytest.approx(theirs.confidence_interval.low, abs=error)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=error)


def test_interval_of_a_large_column_joins_the_bootstrap_of_a_small_one() -> None:
    values = np.random.default_rng(3).random(5_000)
    small, large = bootstrap_means([values, np.append(values, values.mean())])
    assert small != large
    assert small == pytest.approx(large, abs=0.15 * values.std() / 5_000**0.5)


def test_interval_edges() -> None:
    found = bootstrap_means([np.array([0.5]), np.array([0.5, 0.5]), np.empty(0), np.arange(5.0)])
    assert found[:3] == [None, (0.5, 0.5), None]
    assert found[3] == bootstrap_means([np.arange(5.0)])[0]


def test_columns_of_any_length_keep_their_places() -> None:
    rng = np.random.default_rng(4)
    columns = [rng.random(n) for n in (7, 30, 7, 2, 30, 6_000)]
    alone = [bootstrap_means([column])[0] for column in columns]
    np.testing.assert_allclose(bootstrap_means(columns), alone, rtol=1e-12)
