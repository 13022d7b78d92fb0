"""Gates and comparisons: what blocks, what only advises, what is noise, and which runs may be held together."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import gpueval
from gpueval.cli.main import main
from gpueval.decisions.compare import compare, unlike
from gpueval.decisions.gate import check, worst
from gpueval.decisions.policy import PRESETS, Limits, Policy, Rule, read_policy
from gpueval.decisions.scored import Scored, read_scored
from gpueval.errors import DataError, UsageError
from gpueval.metrics import METRICS
from gpueval.records import Cell, State
from gpueval.report.gate import junit
from gpueval.stats.aggregate import Table
from gpueval.stats.intervals import bootstrap_means
from gpueval.stats.paired import detectable, effect_size, holm, needed_pairs, sign_flip_p

FACTS = {
    "judge": {"fingerprint": "judge", "model": "judge"},
    "prompts_version": "1",
    "settings": {"claims": "sentences", "threshold": 0.5},
    "calibration": None,
}
DETERMINISTIC = "token_f1"


def scored(groups=None, facts=FACTS, name="run", **columns) -> Scored:
    """Make a run of cells: a number is a value, a text a state without one."""
    n = len(next(iter(columns.values())))
    groups = groups or [None] * n
    table = Table()
    for i in range(n):
        cells = {
            metric: Cell(None, State(column[i])) if isinstance(column[i], str) else Cell(float(column[i]))
            for metric, column in columns.items()
        }
        table.add(cells, groups[i])
    found = table.result([])
    values = {
        metric: np.array([np.nan if isinstance(x, str) else float(x) for x in column])
        for metric, column in columns.items()
    }
    ids = [f"s{i}" for i in range(n)]
    return Scored(Path(name), facts, found["metrics"], found["groups"], ids, groups, [b"same"] * n, values)


def outcome(policy: Policy | Rule, run: Scored, baseline: Scored | None = None):
    if isinstance(policy, Rule):
        policy = Policy({next(iter(run.metrics)): policy})
    return [(item.result, item.why) for item in check(policy, run, baseline)]


def ratios(mean, n, seed=0):
    """Scores of n samples, of 0, 0.5 and 1, with about this mean."""
    chance = np.random.default_rng(seed)
    return (chance.binomial(2, mean, n) / 2).tolist()


@pytest.mark.parametrize(
    ("column", "result"),
    [
        ([0.95] * 10, "pass"),
        ([0.90] * 10, "pass"),
        ([0.89] * 10, "block"),
        ([0.5], "block"),  # one value has no noise to hide in
        (["no_claims"] * 10, "block"),
        ([0.95] * 9 + ["timeout"], "block"),
        ([0.95] * 9 + ["not_applicable"], "block"),
        ([0.95] * 9 + ["abstained"], "pass"),
        (["engine_error"] * 10, "block"),
    ],
)
def test_gate_fails_closed(column, result) -> None:
    assert worst(check(Policy({DETERMINISTIC: Rule(block=0.9)}), scored(**{DETERMINISTIC: column}))) == result


def test_a_metric_that_the_run_lacks_blocks() -> None:
    (item,) = check(Policy({"faithfulness": Rule(warn=0.1)}), scored(token_f1=[1, 1]))
    assert (item.result, item.found) == ("block", "not in this run")


def test_a_level_missed_within_the_noise_counts_one_step_less() -> None:
    few, many = scored(token_f1=[1.0] * 30 + [0.5] * 10), scored(token_f1=ratios(0.85, 2000))
    assert few.metrics["token_f1"].mean < 0.9 < few.metrics["token_f1"].ci_high
    assert outcome(Rule(block=0.9), few) == [("review", "within the noise of so few samples")]
    assert outcome(Rule(review=0.9), few)[0][0] == "warn"
    assert outcome(Policy({"token_f1": Rule(block=0.9)}, noise_aware=False), few) == [("block", "")]
    assert outcome(Rule(block=0.9), many) == [("block", "")]


def test_the_worse_end_of_the_interval_must_reach_a_bound() -> None:
    run = scored(token_f1=ratios(0.92, 60, seed=1))
    assert run.metrics["token_f1"].ci_low < 0.9 < run.metrics["token_f1"].mean
    policy = Policy({"token_f1": Rule(block=Limits(bound=0.9))})
    assert [item.result for item in check(policy, run)] == ["block"]
    high = scored(hallucination=[1 - value for value in ratios(0.92, 60, seed=1)])
    upside = Policy({"hallucination": Rule(block=Limits(bound=0.1))})
    (item,) = check(upside, high)
    assert item.found == f"{high.metrics['hallucination'].ci_high:.3f}"
    assert item.result == "review"  # an uncalibrated judge advises


def test_the_worst_group_decides_and_a_group_without_scores_blocks(tmp_path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("min_coverage = 0.5\n[metrics.token_f1]\nblock = { worst_group = 0.8 }\n")
    policy = read_policy(str(path))
    groups = ["a", "b"] * 100
    good_and_bad = [0.95, 0.4] * 100
    (item,) = check(policy, scored(groups, token_f1=good_and_bad))
    assert (item.name, item.result) == ("token_f1 in group b", "block")
    (item,) = check(policy, scored(token_f1=[0.9] * 5))
    assert (item.name, item.result) == ("token_f1 in group all", "pass")
    (item,) = check(policy, scored(["a", "b"] * 2, token_f1=[1, "timeout", 1, "timeout"]))
    assert item.result == "block"
    assert "which has no score" in item.name


def test_the_worst_of_many_groups_is_low_by_chance() -> None:
    """200 unchanged systems of 40 groups of 30: the worst group's mean is far below, and the gate stays green."""
    groups = [f"g{i % 40}" for i in range(1200)]
    policy = Policy({"token_f1": Rule(block=Limits(worst_group=0.8))})
    outcomes = [worst(check(policy, scored(groups, token_f1=ratios(0.8, 1200, seed)))) for seed in range(20)]
    assert outcomes.count("block") <= 2
    assert outcomes.count("review") >= 18


@pytest.mark.parametrize(("metric", "limit", "result"), [("token_f1", 0.7, "pass"), ("hallucination", 0.7, "pass")])
def test_the_share_of_good_samples_is_better_high_for_every_metric(metric, limit, result) -> None:
    good, bad = (1.0, 0.0) if METRICS[metric].higher_is_better else (0.0, 1.0)
    limits = Limits(share=limit)
    policy = Policy({metric: Rule(block=limits)}, uncalibrated_may_block=True)
    assert worst(check(policy, scored(**{metric: [good] * 90 + [bad] * 10}))) == result
    assert worst(check(policy, scored(**{metric: [good] * 40 + [bad] * 60}))) == "block"


def test_an_uncalibrated_judge_advises_and_a_calibrated_one_may_block() -> None:
    column = [0.5] * 100
    (found,) = outcome(Rule(block=0.9), scored(faithfulness=column))
    assert found[0] == "review"
    assert "not calibrated" in found[1]
    assert outcome(Rule(block=0.9, uncalibrated_may_block=True), scored(faithfulness=column)) == [("block", "")]
    forced = Policy({"faithfulness": Rule(block=0.9)}, uncalibrated_may_block=True)
    assert outcome(forced, scored(faithfulness=column)) == [("block", "")]
    for ruling, result in (("may gate", "block"), ("advisory", "review"), ("not usable", "review")):
        facts = FACTS | {"calibration": {"metrics": {"faithfulness": {"ruling": ruling}}}}
        assert outcome(Rule(block=0.9), scored(facts=facts, faithfulness=column))[0][0] == result
    for name, metric in METRICS.items():
        judged = scored(**{name: [0.5] * 10}).ruling(name) == "uncalibrated"
        assert judged == bool({need for need in metric.needs if need not in ("similar/reference", "similar/tokens")})


def test_a_loss_blocks_when_it_is_more_than_noise_and_more_than_is_tolerated() -> None:
    base = scored(token_f1=ratios(0.8, 400))
    rule = Rule(max_loss=0.02)
    same = np.array(base.values["token_f1"])
    chance = np.random.default_rng(1)
    noise = scored(token_f1=chance.permutation(same).tolist())  # the same mean, other samples
    much = scored(token_f1=np.where(chance.random(400) < 0.1, 0.0, same).tolist())
    little = scored(token_f1=np.where(np.arange(400) < 8, np.maximum(same - 0.5, 0), same).tolist())
    few = scored(token_f1=ratios(0.8, 20))
    few_less = scored(token_f1=[*[max(0.0, x - 0.5) for x in few.values["token_f1"][:2]], *few.values["token_f1"][2:]])
    assert outcome(rule, noise, base)[0][0] == "pass"
    assert outcome(rule, much, base) == [("block", "")]
    assert outcome(rule, little, base)[0][0] == "pass"  # significant, but tolerated
    assert outcome(rule, few_less, few) == [("review", "within the noise of so few samples")]
    assert outcome(rule, base, much)[0][0] == "pass"  # a gain is no loss
    with pytest.raises(UsageError, match="--baseline") as caught:
        check(Policy({"token_f1": rule}), base)
    assert "max_loss" in (caught.value.remedy or "")
    with pytest.raises(UsageError, match="no max_loss"):
        check(Policy({"token_f1": Rule(block=0.5)}), base, base)
    lost = scored(token_f1=[*same[:200].tolist(), *["timeout"] * 200])
    assert outcome(Rule(max_loss=0.5), base, lost)[0][0] == "block"  # half of the samples have no partner


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "metrics"),
        ("[metrics]\n", "demands nothing"),
        ("[metrics.faith]\nblock=0.9\n", "unknown metric 'faith'"),
        ("[metrics.faithfulness]\nblok=0.9\n", "blok"),
        ("[metrics.faithfulness]\nblock=90\n", "outside 0 to 1"),
        ("[metrics.faithfulness]\nblock={bound=2}\n", "block.bound"),
        ("[metrics.faithfulness]\nblock={median=0.2}\n", "median"),
        ("[metrics.faithfulness]\n", "neither block"),
        ("[metrics.faithfulness]\nblock={}\nwarn=0.2\n", "holds no limit"),
        ("min_coverage = 2\n[metrics.faithfulness]\nblock=0.9\n", "min_coverage"),
        ("significance = 0\n[metrics.faithfulness]\nblock=0.9\n", "significance"),
        ("not toml", "not TOML"),
        (None, "cannot be read"),
    ],
)
def test_policy_errors(tmp_path, text, part) -> None:
    path = tmp_path / "policy.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=part):
        read_policy(str(path))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_read(name) -> None:
    assert read_policy(name).metrics["faithfulness"].block is not None


def test_paired_statistics_against_scipy_and_by_hand() -> None:
    chance = np.random.default_rng(0)
    difference = chance.normal(0.03, 0.2, 300)
    assert sign_flip_p(difference) == pytest.approx(stats.ttest_1samp(difference, 0).pvalue, rel=0.05)
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    deviation = difference.std(ddof=1)
    # (1.9600 + 0.8416)^2 = 7.849
    assert needed_pairs(difference, 0.05) == pytest.approx(7.849 * (deviation / 0.05) ** 2, abs=1)
    assert detectable(difference) == pytest.approx(2.8016 * deviation / 300**0.5, rel=1e-4)
    assert needed_pairs(np.zeros(5), 0.05) is None
    assert detectable(np.array([0.2])) is None


def test_the_number_of_pairs_finds_the_difference_four_times_in_five() -> None:
    chance = np.random.default_rng(0)
    pilot = chance.normal(0, 0.3, 5000)
    n = needed_pairs(pilot, 0.05)
    found = [stats.ttest_1samp(chance.normal(0.05, 0.3, n), 0).pvalue < 0.05 for _ in range(1000)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)


def test_comparison_by_hand() -> None:
    base = scored(["x", "x", "y", "y"], name="a", faithfulness=[1.0, 0.4, 0.6, "timeout"])
    other = scored(["x", "x", "y", "y"], name="b", faithfulness=[0.2, 0.8, 0.6, 1.0])
    found = compare(base, [other], ["faithfulness"], wanted=0.1)[0]["faithfulness"]
    assert (found.n, found.n_unpaired, found.n_better, found.n_worse) == (3, 1, 1, 1)
    assert (found.base, found.other) == pytest.approx((2 / 3, 1.6 / 3))
    assert found.difference == pytest.approx(-0.4 / 3)
    assert (found.turned_bad, found.turned_good) == (("s0",), ("s1",))
    assert [id_ for id_, _, _ in found.moved] == ["s0", "s1"]
    assert found.groups["x"].difference == pytest.approx(-0.2)
    assert (found.groups["y"].n, found.groups["y"].difference, found.groups["y"].low) == (1, 0.0, None)
    (interval,) = bootstrap_means([np.array([-0.8, 0.4, 0.0])])
    assert (found.low, found.high) == pytest.approx(interval)
    lower = compare(scored(hallucination=[0.0]), [scored(hallucination=[1.0])], ["hallucination"])[0]["hallucination"]
    assert (lower.n_worse, lower.turned_bad, lower.p_value) == (1, ("s0",), 1.0)
    nothing = compare(scored(token_f1=["timeout"]), [scored(token_f1=[1.0])], ["token_f1"])[0]["token_f1"]
    assert (nothing.n, nothing.difference, nothing.p_value, nothing.low) == (0, None, None, None)


def test_runs_of_another_judge_or_of_other_samples_are_unlike() -> None:
    base = scored(token_f1=[1, 1])
    assert unlike(base, scored(token_f1=[0, 0])) == []
    for change, part in (
        ({"judge": {"fingerprint": "other"}}, "judge"),
        ({"prompts_version": "2"}, "version of the prompts"),
        ({"settings": {"claims": "llm", "threshold": 0.5}}, "kind of claims"),
        ({"settings": {"claims": "sentences", "threshold": 0.6}}, "threshold"),
        ({"calibration": {"metrics": {}}}, "calibration"),
        ({"checker": {"fingerprint": "c", "band": None}}, "checker"),
    ):
        assert unlike(base, scored(facts=FACTS | change, token_f1=[1, 1])) == [f"another {part}"]
    assert unlike(base, scored(token_f1=[1])) == ["1 samples only in run"]


ROWS = [
    {"id": str(i), "question": f"q{i}?", "answer": answer, "reference": "It is red.", "group": "ab"[i % 2]}
    for i, answer in enumerate(["It is red."] * 30 + ["It is."] * 10)
]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Three real runs: a base, one that lost something, one of other questions."""
    monkeypatch.chdir(tmp_path)
    worse = [row | ({"answer": "Blue it was."} if i < 12 else {}) for i, row in enumerate(ROWS)]
    for name, rows in (("base", ROWS), ("worse", worse), ("other", [row | {"question": "?"} for row in ROWS])):
        gpueval.evaluate(rows, metrics=["token_f1", "exact_match"], out=tmp_path / name)
    return tmp_path


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code)


def test_compare_on_the_command_line(runs, capfd) -> None:
    assert code("compare", "base", "worse", "--json", "--detect", "0.05") == 0
    body = json.loads(capfd.readouterr().out)
    found = body["others"]["worse"]["token_f1"]
    assert (found["n"], found["n_worse"], len(found["turned_bad"])) == (40, 12, 12)
    assert found["high"] < 0
    assert found["p_value"] < 0.01
    assert found["needed"] > 0
    assert set(found["groups"]) == {"a", "b"}
    assert code("compare", "base", "worse", "base", "--markdown", "c.md") == 0
    told = capfd.readouterr().out
    assert "turned bad: 0, 1, 2, 3, 4, … (12)" in told
    assert "| token_f1 |" in Path("c.md").read_text()
    assert code("compare", "base", "other") == 2
    assert "another question or reference (0, 1, 2 …)" in capfd.readouterr().err
    assert code("compare", "base", "other", "--anyway") == 0
    assert "note: other against base" in capfd.readouterr().out
    assert code("compare", "base", "worse", "--metrics", "bleu") == 2
    assert code("compare", "base", "none") == 2


def test_gate_on_the_command_line_with_a_baseline_junit_and_markdown(runs, capfd) -> None:
    Path("p.toml").write_text("[metrics.token_f1]\nblock = 0.3\nmax_loss = 0.02\n[metrics.exact_match]\nwarn = 0.9\n")
    arguments = ["gate", "worse", "--policy", "p.toml", "--baseline", "base", "--junit", "j.xml", "--markdown", "g.md"]
    assert code(*arguments, "--json") == 1
    body = json.loads(capfd.readouterr().out)
    assert body["blocked"] == ["token_f1 against the baseline"]
    assert body["warned"] == ["exact_match"]
    suite = ElementTree.parse("j.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert suite.findall("testcase")[1].find("failure") is not None
    assert "⛔ block | token_f1 against the baseline" in Path("g.md").read_text()
    assert code("gate", "base", "--policy", "p.toml", "--baseline", "base") == 0
    assert code("gate", "base", "--policy", "p.toml", "--baseline", "base", "--fail-on", "warn") == 1
    assert code("gate", "base", "--policy", "p.toml") == 2
    assert code("gate", "base", "--policy", "p.toml", "--baseline", "other") == 2
    assert code("gate", "base", "--policy", "p.toml", "--baseline", "other", "--anyway") == 0
    assert "token_f1" in capfd.readouterr().out


def test_a_run_folder_that_is_torn_is_named(runs) -> None:
    lines = Path("base/scores.jsonl").read_text().splitlines(keepends=True)
    Path("base/scores.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(UsageError, match=r"no scores\.jsonl that fits"):
        read_scored(Path("base"))


def test_few_scores_neither_hide_in_noise_nor_show_a_bound() -> None:
    assert outcome(Rule(block=0.9), scored(token_f1=[1.0, 0.0, 1.0])) == [("block", "")]
    (item,) = check(Policy({"token_f1": Rule(block=Limits(bound=0.9))}), scored(token_f1=[1.0] * 5))
    assert (item.result, item.found) == ("block", "–")
    assert "needs 20 scores" in item.name


def test_small_groups_alone_do_not_turn_a_build_red_and_large_ones_are_not_hidden_by_them() -> None:
    groups = ["small"] * 5 + ["large"] * 400 + ["fine"] * 400
    values = [0.6] * 5 + ratios(0.7, 400) + [1.0] * 400
    (item,) = check(Policy({"token_f1": Rule(block=Limits(worst_group=0.9))}), scored(groups, token_f1=values))
    assert (item.name, item.result) == ("token_f1 in group large", "block")
    both = Policy({"token_f1": Rule(block=Limits(worst_group=0.65), review=Limits(worst_group=0.9))})
    (item,) = check(both, scored(groups, token_f1=values))
    assert (item.name, item.result) == ("token_f1 in group large", "review")
    (item,) = check(both, scored(["a"] * 5 + ["b"] * 100, token_f1=[0.0] * 5 + [1.0] * 100))
    assert (item.name, item.result) == ("token_f1 in group a", "review")


def test_a_system_that_declines_where_it_used_to_answer_does_not_pass_as_before() -> None:
    base = scored(token_f1=[1.0] * 60 + [0.6] * 940)
    declines = scored(token_f1=[1.0] * 60 + ["abstained"] * 940)
    results = check(Policy({"token_f1": Rule(block=0.6, max_loss=0.01)}), declines, base)
    assert [item.result for item in results] == ["pass", "block"]
    assert results[0].why == "only 60 of 1,000 samples have a score"
    assert results[1].found == "60 of 1,000 scores have a partner"


def test_a_loss_as_large_as_tolerated_seldom_blocks() -> None:
    chance, blocked = np.random.default_rng(0), 0
    for _ in range(40):
        before = chance.random(400) * 0.5 + 0.4
        after = before - 0.02 + chance.normal(0, 0.1, 400)
        runs = scored(token_f1=np.clip(after, 0, 1).tolist()), scored(token_f1=before.tolist())
        blocked += worst(check(Policy({"token_f1": Rule(max_loss=0.02)}), *runs)) == "block"
    assert blocked <= 4
    lower = scored(hallucination=[0.1] * 100), scored(hallucination=[0.5] * 100)
    policy = Policy({"hallucination": Rule(max_loss=0.3)}, uncalibrated_may_block=True)
    assert worst(check(policy, lower[1], lower[0])) == "block"
    assert worst(check(policy, lower[0], lower[1])) == "pass"


def test_differences_that_vary_by_rounding_alone_have_no_effect_size() -> None:
    before = np.array([0.1, 0.2, 0.3, 0.7])
    assert effect_size((before - 0.1) - before) is None


def test_another_embedding_model_or_handling_of_instructions_is_told() -> None:
    base = scored(facts=FACTS | {"embedder": {"fingerprint": "a"}}, token_f1=[1])
    assert unlike(base, scored(facts=FACTS | {"embedder": {"fingerprint": "b"}}, token_f1=[1])) == [
        "another embedding model"
    ]
    assert unlike(base, scored(facts=FACTS | {"embedder": {}}, token_f1=[1])) == []
    settings = FACTS["settings"] | {"keep_instructions": True}
    assert unlike(scored(token_f1=[1]), scored(facts=FACTS | {"settings": settings}, token_f1=[1])) == [
        "another handling of instructions in documents"
    ]


def test_junit_of_any_group_name_is_xml() -> None:
    groups = ["bad \x00\x1b <&\ud800>", "b"] * 30
    checks = check(Policy({"token_f1": Rule(block=Limits(worst_group=0.8))}), scored(groups, token_f1=[0.1, 1.0] * 30))
    (case,) = ElementTree.fromstring(junit(checks)).iter("testcase")
    assert case.get("name") == "token_f1 in group bad ?? <&?>"
