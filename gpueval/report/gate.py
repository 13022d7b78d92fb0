"""Pass or block: a policy held against a summary.

A policy is a TOML file::

    min_coverage = 0.95            # share of samples a metric must have dealt with; default 0.95

    [metrics.faithfulness]
    block = 0.90                   # the mean below this blocks (above, where lower is better)

    [metrics.context_precision]
    warn = 0.85                    # ... warns
    min_coverage = 0.80            # its own limit

Coverage is looked at first, and the gate fails closed: a metric that the run lacks, that has no score, or that lost
too many samples blocks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpueval.errors import DataError
from gpueval.metrics import METRICS
from gpueval.records import Summary
from gpueval.stats.aggregate import coverage
from gpueval.units import score

_DEFAULT_COVERAGE = 0.95


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one metric on its mean, and on its coverage."""

    block: float | None = None
    warn: float | None = None
    min_coverage: float | None = None


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a gate demands."""

    metrics: dict[str, Rule]
    min_coverage: float = _DEFAULT_COVERAGE


class Check(msgspec.Struct, frozen=True):
    """One thing looked at."""

    name: str
    found: str
    wanted: str
    result: Literal["pass", "warn", "block"]


def read_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        DataError: The file cannot be read, is not TOML, names an unknown key or metric, or has a limit outside [0, 1].
    """
    name = str(path)
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=name) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not TOML: {error}", file=name) from error
    try:
        policy = msgspec.convert(content, Policy)
    except msgspec.ValidationError as error:
        raise DataError(
            str(error), file=name, remedy="Keys: min_coverage, [metrics.NAME] block, warn, min_coverage"
        ) from error
    if not policy.metrics:
        raise DataError("demands nothing: it has no [metrics.NAME] section", file=name)
    for metric, rule in policy.metrics.items():
        if metric not in METRICS:
            raise DataError(f"unknown metric '{metric}'", file=name, field=f"metrics.{metric}")
        if rule.block is None and rule.warn is None:
            raise DataError("has neither block nor warn", file=name, field=f"metrics.{metric}")
        for key in ("block", "warn", "min_coverage"):
            value = getattr(rule, key)
            if value is not None and not 0 <= value <= 1:
                raise DataError(f"{value} is outside 0 to 1", file=name, field=f"metrics.{metric}.{key}")
    if not 0 <= policy.min_coverage <= 1:
        raise DataError(f"{policy.min_coverage} is outside 0 to 1", file=name, field="min_coverage")
    return policy


def check(policy: Policy, metrics: Mapping[str, Summary]) -> list[Check]:
    """Hold a policy against the summaries of a run; pure.

    Returns:
        The checks in the policy's order; the gate passes when none of them blocks.
    """
    found: list[Check] = []
    for name, rule in policy.metrics.items():
        summary = metrics.get(name)
        if summary is None:
            found.append(Check(name, "not in this run", "a score", "block"))
            continue
        wanted = policy.min_coverage if rule.min_coverage is None else rule.min_coverage
        reached = coverage(summary)
        if reached < wanted:
            found.append(Check(f"{name} coverage", score(reached), f">= {score(wanted)}", "block"))
            continue
        if summary.mean is None:
            found.append(Check(name, "no scored sample", "a score", "block"))
            continue
        found.append(_level(name, summary.mean, rule))
    return found


def _level(name: str, mean: float, rule: Rule) -> Check:
    higher = METRICS[name].higher_is_better
    sign = ">=" if higher else "<="
    result: Literal["pass", "warn", "block"]
    for result, limit in (("block", rule.block), ("warn", rule.warn)):
        if limit is not None and (mean < limit if higher else mean > limit):
            return Check(name, score(mean), f"{sign} {score(limit)}", result)
    limit = rule.block if rule.block is not None else rule.warn
    return Check(name, score(mean), f"{sign} {score(limit)}", "pass")
