"""Pass, warn, review or block: a policy held against a run, and against a baseline.

Coverage is looked at first, and the gate fails closed: a metric that the run lacks, that has no score, or that lost too
many samples blocks. A level that is missed within the noise (its limit lies in the 95 % interval of what it looks at)
counts one step less, block as review, review as warn: an unchanged system must not turn red by chance. So does the
block of a judge that was never held against labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from gpueval.decisions.compare import Difference, compare
from gpueval.decisions.policy import STATISTICS, Level, Policy, Rule, Statistic
from gpueval.decisions.scored import Scored
from gpueval.errors import UsageError
from gpueval.metrics import METRICS
from gpueval.records import State
from gpueval.stats.aggregate import coverage
from gpueval.stats.intervals import Interval, bootstrap_means, wilson
from gpueval.units import score

Outcome = Literal["pass", "warn", "review", "block"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "warn", "review", "block")
"""From good to bad."""

FEWEST = 20
"""Scores from which an interval is believed; fewer have no noise to hide in, and cannot show a bound."""

_STEP_LESS: dict[Level, Outcome] = {"block": "review", "review": "warn", "warn": "warn"}


class Check(msgspec.Struct, frozen=True):
    """One thing looked at; ``why`` says what made a missed level count less, or what is lacking."""

    name: str
    found: str
    wanted: str
    result: Outcome
    why: str = ""


class _Seen(msgspec.Struct, frozen=True):
    """A statistic of a run. ``interval`` is None where the value is taken as it is; a lacking value misses all."""

    value: float | None
    interval: Interval | None
    what: str


def check(policy: Policy, run: Scored, baseline: Scored | None = None) -> list[Check]:
    """Hold a policy against a run.

    Args:
        policy: What is demanded.
        run: A finished run.
        baseline: An earlier run of the same samples, for ``max_loss``.

    Returns:
        The checks in the policy's order; the gate passes when none of them blocks.

    Raises:
        UsageError: The policy limits losses and there is no baseline, or the other way round.
    """
    limited = [name for name, rule in policy.metrics.items() if rule.max_loss is not None]
    if limited and baseline is None:
        raise UsageError(
            f"The policy limits the loss of {', '.join(limited)} against a baseline.",
            "Give an earlier run with --baseline, or leave max_loss out.",
        )
    if baseline and not limited:
        raise UsageError("There is a baseline, but the policy has no max_loss.", "Set max_loss = 0.02 for a metric.")
    both = [name for name in limited if baseline and name in run.metrics and name in baseline.metrics]
    tolerated = {name: rule.max_loss for name, rule in policy.metrics.items() if rule.max_loss is not None}
    losses = compare(baseline, [run], both, tolerated=tolerated)[0] if baseline and both else {}
    found: list[Check] = []
    for name, rule in policy.metrics.items():
        found += _of_metric(name, rule, policy, run)
        if rule.max_loss is not None and name in run.metrics:
            n_before = baseline.metrics[name].n_scored if baseline and name in losses else 0
            found.append(_loss(name, rule, policy, run, losses.get(name), n_before))
    return found


def worst(checks: Sequence[Check]) -> Outcome:
    """Return the worst outcome."""
    return max((item.result for item in checks), key=OUTCOMES.index, default="pass")


def _of_metric(name: str, rule: Rule, policy: Policy, run: Scored) -> list[Check]:
    summary = run.metrics.get(name)
    if summary is None:
        return [Check(name, "not in this run", "a score", "block", f"score it: gpueval run ... --metrics {name}")]
    wanted = policy.min_coverage if rule.min_coverage is None else rule.min_coverage
    reached = coverage(summary)
    if reached < wanted:
        return [Check(f"{name} coverage", score(reached), f">= {score(wanted)}", "block")]
    if summary.mean is None:
        return [Check(name, "no scored sample", "a score", "block")]
    found = []
    for statistic in STATISTICS:
        levels = [_held(name, statistic, *level, policy, run) for level in rule.limits(statistic).items()]
        if levels:  # of equals, one that is missed beyond the noise
            found.append(max(levels, key=lambda item: (OUTCOMES.index(item.result), not item.why)))
    return found


def _held(name: str, statistic: Statistic, level: Level, limit: float, policy: Policy, run: Scored) -> Check:
    """Hold one statistic against one level."""
    seen = _seen(name, policy.metrics[name], statistic, run, limit)
    higher = METRICS[name].higher_is_better or statistic == "share"  # many good samples are always better
    interval = "" if seen.interval is None else f" ({score(seen.interval[0])} – {score(seen.interval[1])})"
    found = Check(seen.what, score(seen.value) + interval, f"{'>=' if higher else '<='} {score(limit)}", "pass")
    if seen.value is not None and (seen.value >= limit if higher else seen.value <= limit):
        return msgspec.structs.replace(found, why=_thin(name, run))
    inside = seen.interval is not None and seen.interval[0] <= limit <= seen.interval[1]
    result, why = _outcome(level, inside, name, policy, run)
    return msgspec.structs.replace(found, result=result, why=why)


def _thin(name: str, run: Scored) -> str:
    """Say so where a level is reached by few of the samples: the others decline, or say nothing."""
    summary = run.metrics[name]
    n_asked = summary.n_total - summary.states.get(State.NOT_SAMPLED, 0)
    return f"only {summary.n_scored:,} of {n_asked:,} samples have a score" if 2 * summary.n_scored < n_asked else ""


def _outcome(level: Level, within_noise: bool, name: str, policy: Policy, run: Scored) -> tuple[Outcome, str]:
    """Return what a missed level comes to, and why it comes to less."""
    if within_noise and policy.noise_aware:
        return _STEP_LESS[level], "within the noise of so few samples"
    ruling, own = run.ruling(name), policy.metrics[name].uncalibrated_may_block
    may_block = ruling in ("deterministic", "may gate") or (policy.uncalibrated_may_block if own is None else own)
    if level == "block" and not may_block:
        told = "not calibrated" if ruling == "uncalibrated" else f"calibrated as '{ruling}'"
        return "review", f"would block, but the judge is {told}: it only advises"
    return level, ""


def _seen(name: str, rule: Rule, statistic: Statistic, run: Scored, limit: float) -> _Seen:
    summary, higher = run.metrics[name], METRICS[name].higher_is_better
    enough = summary.n_scored >= FEWEST
    ends = (summary.ci_low, summary.ci_high) if summary.ci_low is not None and summary.ci_high is not None else None
    if statistic == "mean":
        return _Seen(summary.mean, ends if enough else None, name)
    if statistic == "bound":
        what = f"{name} at the worse end" + ("" if enough else f", which needs {FEWEST} scores")
        return _Seen(ends[0 if higher else 1] if ends and enough else None, None, what)
    values = run.values[name]
    if statistic == "worst_group":
        return _worst_group(name, run, limit)
    scored = values[~np.isnan(values)]
    good = int((scored >= rule.good).sum() if higher else (scored <= rule.good).sum())
    return _Seen(good / len(scored), wilson(good, len(scored)) if enough else None, f"{name} share of good samples")


def _worst_group(name: str, run: Scored, limit: float) -> _Seen:
    """Find the group that is furthest on the wrong side of the limit; the whole run where there are no groups.

    The intervals are wider, 1 - 0.05 / k for k groups (Bonferroni): the worst of many is low by chance. A group with
    fewer than :data:`FEWEST` scores among several can be anything.
    """
    higher = METRICS[name].higher_is_better
    groups, values = np.array(run.group_of, object), run.values[name]
    names = sorted({group for group in run.group_of if group is not None})
    columns = [values[groups == one] for one in names] or [values]
    columns = [column[~np.isnan(column)] for column in columns]
    level = 1 - 0.05 / len(columns)
    found = []
    for group, column, interval in zip(names or ["all"], columns, bootstrap_means(columns, level=level), strict=True):
        what = f"{name} in group {group}"
        if not len(column):
            return _Seen(None, None, f"{what}, which has no score")
        few = len(names) > 1 and len(column) < FEWEST
        found.append(_Seen(float(column.mean()), (0.0, 1.0) if few else interval, what))
    sign = 1 if higher else -1

    def badness(seen: _Seen) -> tuple[bool, float]:
        outside = seen.interval is None or not seen.interval[0] <= limit <= seen.interval[1]
        missed = sign * (seen.value or 0.0) < sign * limit
        return (missed and outside, -sign * (seen.value or 0.0))

    return max(found, key=badness)


def _loss(name: str, rule: Rule, policy: Policy, run: Scored, found: Difference | None, n_before: int) -> Check:
    """Hold the paired difference against the tolerated loss; ``n_before`` scores stand in the baseline."""
    what = f"{name} against the baseline"
    tolerated = rule.max_loss or 0.0
    wanted = f"a loss of at most {score(tolerated)}"
    if found is None or found.difference is None:
        return Check(what, "no pair of scores", wanted, "block", "the baseline lacks the metric, or its samples")
    limit = policy.min_coverage if rule.min_coverage is None else rule.min_coverage
    n_most = max(n_before, run.metrics[name].n_scored)
    if found.n < limit * n_most:
        return Check(what, f"{found.n:,} of {n_most:,} scores have a partner", wanted, "block")
    loss = -found.difference if METRICS[name].higher_is_better else found.difference
    p = found.p_value if found.p_value is not None else 1.0
    ends = "" if found.low is None else f" ({found.low:+.3f} – {found.high:+.3f})"
    told = f"{found.difference:+.3f}{ends}, p {f'{p:.3f}' if p >= 0.001 else '< 0.001'}"
    if loss <= tolerated:
        why = ""
        if found.detectable is not None and found.detectable > max(tolerated, 0.005):
            why = f"{found.n:,} samples show a loss from about {score(found.detectable)} on"
        return Check(what, told, wanted, "pass", why)
    result, why = _outcome("block", p >= policy.significance, name, policy, run)
    return Check(what, told, wanted, result, why)
