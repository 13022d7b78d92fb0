"""What a gate demands, from a TOML file or a preset.

A policy is a TOML file::

    min_coverage = 0.95            # share of samples a metric must have dealt with
    noise_aware = true             # a level that is missed within the noise counts one step less
    uncalibrated_may_block = false # a judge that was never held against labels only advises
    significance = 0.05            # of a loss against the baseline

    [metrics.faithfulness]
    block = 0.90                   # on the mean; above instead of below where lower is better
    review = { bound = 0.88, worst_group = 0.80, share = 0.75 }
    warn = 0.93
    good = 0.5                     # a sample with at least this counts in the share
    max_loss = 0.02                # against a baseline run
    min_coverage = 0.80            # its own limit; uncalibrated_may_block, too

``mean`` is the mean over the scored samples, ``bound`` the worse end of its 95 % interval, ``worst_group`` the mean of
the worst group, ``share`` the share of the scored samples that are good.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpueval.errors import DataError
from gpueval.metrics import METRICS

Level = Literal["block", "review", "warn"]
LEVELS: tuple[Level, ...] = ("block", "review", "warn")
Statistic = Literal["mean", "bound", "worst_group", "share"]
STATISTICS: tuple[Statistic, ...] = ("mean", "bound", "worst_group", "share")

PRESETS = ("standard", "strict")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one level; see the module."""

    mean: float | None = None
    bound: float | None = None
    worst_group: float | None = None
    share: float | None = None


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is demanded of one metric; see the module."""

    block: float | Limits | None = None
    review: float | Limits | None = None
    warn: float | Limits | None = None
    good: float = 0.5
    max_loss: float | None = None
    min_coverage: float | None = None
    uncalibrated_may_block: bool | None = None

    def limits(self, statistic: Statistic) -> dict[Level, float]:
        """Return the levels that hold this statistic against a limit, the severest first."""
        found: dict[Level, float] = {}
        for level in LEVELS:
            given: float | Limits | None = getattr(self, level)
            limit = getattr(given, statistic) if isinstance(given, Limits) else given if statistic == "mean" else None
            if limit is not None:
                found[level] = float(limit)
        return found

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield every number with its key."""
        for key in (*LEVELS, "good", "max_loss", "min_coverage"):
            given = getattr(self, key)
            if isinstance(given, Limits):
                yield from (
                    (f"{key}.{name}", value) for name in STATISTICS if (value := getattr(given, name)) is not None
                )
            elif given is not None:
                yield key, given


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a gate demands; see the module."""

    metrics: dict[str, Rule]
    min_coverage: float = 0.95
    noise_aware: bool = True
    uncalibrated_may_block: bool = False
    significance: float = 0.05


def read_policy(name: str) -> Policy:
    """Read a policy: a file, or a preset by its name where no such file exists.

    Raises:
        DataError: The file cannot be read, is not TOML, names an unknown key or metric, or has a limit outside [0, 1].
    """
    path = Path(name)
    try:
        if name in PRESETS and not path.exists():
            text = (files("gpueval.decisions") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
        content: dict[str, Any] = tomllib.loads(text)
    except OSError as error:
        remedy = f"Give a TOML file, or a preset: {', '.join(PRESETS)}."
        raise DataError(f"cannot be read: {error.strerror}", file=name, remedy=remedy) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not TOML: {error}", file=name) from error
    try:
        policy = msgspec.convert(content, Policy)
    except msgspec.ValidationError as error:
        keys = f"Keys: {', '.join(Policy.__struct_fields__)}; of a metric: {', '.join(Rule.__struct_fields__)}"
        raise DataError(str(error), file=name, remedy=f"{keys}; of a level: {', '.join(STATISTICS)}") from error
    _check(policy, name)
    return policy


def _check(policy: Policy, name: str) -> None:
    if not policy.metrics:
        raise DataError("demands nothing: it has no [metrics.NAME] section", file=name)
    for metric, rule in policy.metrics.items():
        field = f"metrics.{metric}"
        if metric not in METRICS:
            raise DataError(f"unknown metric '{metric}'", file=name, field=field)
        if rule.max_loss is None and not any(rule.limits(statistic) for statistic in STATISTICS):
            raise DataError("has neither block, review, warn nor max_loss", file=name, field=field)
        for level in LEVELS:
            if getattr(rule, level) == Limits():
                raise DataError("holds no limit", file=name, field=f"{field}.{level}")
        for key, value in rule.numbers():
            if not 0 <= value <= 1:
                raise DataError(f"{value} is outside 0 to 1", file=name, field=f"{field}.{key}")
    if not 0 <= policy.min_coverage <= 1:
        raise DataError(f"{policy.min_coverage} is outside 0 to 1", file=name, field="min_coverage")
    if not 0 < policy.significance < 1:
        raise DataError(f"{policy.significance} must lie between 0 and 1", file=name, field="significance")
