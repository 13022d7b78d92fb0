"""Two runs over the same samples: paired differences, their intervals and significance, and the samples that turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpueval.decisions.scored import Scored
from gpueval.errors import UsageError
from gpueval.metrics import METRICS
from gpueval.stats.intervals import Interval, bootstrap_means
from gpueval.stats.paired import detectable, effect_size, holm, needed_pairs, sign_flip_p

_Column = NDArray[np.float64]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """A metric's difference in one group; ``low`` and ``high`` end its 95 % interval, None below two pairs."""

    n: int
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two runs, over the samples that have a value in both.

    Attributes:
        n: Pairs.
        n_unpaired: Samples of either run that lack a value, or a partner, in the other.
        base, other: Mean of each run over the pairs.
        difference: ``other - base``; None without a pair.
        low, high: 95 % bootstrap interval of the difference; None below two pairs.
        p_value: Two-sided, by random sign flips; corrected by Holm over everything compared at once.
        effect: Cohen's d of the pairs; None where they do not vary.
        n_better, n_worse: Samples that moved, by what is better for the metric.
        turned_bad, turned_good: Ids of samples that fell below, or rose to, the value from which one is good.
        moved: The samples that moved most: id, base, other.
        groups: The difference per group.
        detectable: Mean difference that as many pairs show with a power of 80 %; None where they do not vary.
        needed: Pairs that the wanted difference needs, with the same power; None without one or where they do not vary.
    """

    n: int
    n_unpaired: int
    base: float | None
    other: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    effect: float | None
    n_better: int
    n_worse: int
    turned_bad: tuple[str, ...]
    turned_good: tuple[str, ...]
    moved: tuple[tuple[str, float, float], ...]
    groups: dict[str, GroupDifference]
    detectable: float | None
    needed: int | None


def unlike(base: Scored, other: Scored) -> list[str]:
    """Say why two runs' scores cannot be held against each other; empty where they can.

    Judge, prompts, claims, checker, threshold and calibration must be the same, and so must be the samples: ids,
    questions and references. Answers and contexts are what a system changes.
    """
    names = {
        "judge": "judge",
        "prompts_version": "version of the prompts",
        "claims": "kind of claims",
        "checker": "checker",
        "threshold": "threshold",
        "calibration": "calibration",
        "instructions": "handling of instructions in documents",
    }
    mine, theirs = base.made_with(), other.made_with()
    found = [f"another {what}" for key, what in names.items() if mine[key] != theirs[key]]
    models = {str((run.facts.get("embedder") or {}).get("fingerprint", "")) for run in (base, other)} - {""}
    found += ["another embedding model"] if len(models) > 1 else []
    asked, others = dict(zip(base.ids, base.asked, strict=True)), dict(zip(other.ids, other.asked, strict=True))
    only = [(len(asked.keys() - others), base.folder), (len(others.keys() - asked), other.folder)]
    found += [f"{n:,} samples only in {folder}" for n, folder in only if n]
    changed = [id_ for id_, digest in asked.items() if others.get(id_, digest) != digest]
    if changed:
        names_of = ", ".join(changed[:_NAMED]) + (" …" if len(changed) > _NAMED else "")
        found.append(f"{len(changed):,} samples with another question or reference ({names_of})")
    return found


def check_alike(base: Scored, other: Scored, *, anyway: bool) -> list[str]:
    """Return what makes two runs differ besides the system, where that is accepted.

    Raises:
        UsageError: It is not.
    """
    reasons = unlike(base, other)
    if reasons and not anyway:
        raise UsageError(
            f"{other.folder} cannot be held against {base.folder}: {'; '.join(reasons)}.",
            "Run both with the same judge on the same samples, or add --anyway and read the result with care.",
        )
    return [f"{other.folder} against {base.folder}: {reason}" for reason in reasons]


def compare(
    base: Scored,
    others: Sequence[Scored],
    metrics: Sequence[str],
    *,
    good: Mapping[str, float] | None = None,
    wanted: float | None = None,
    tolerated: Mapping[str, float] | None = None,
    most_moved: int = 10,
) -> list[dict[str, Difference]]:
    """Compare runs with a base run, metric by metric.

    Args:
        base: What the others are held against.
        others: One or more runs.
        metrics: Names; all runs must have them.
        good: Per metric the value from which a sample is good; 0.5 elsewhere.
        wanted: Mean difference for which :attr:`Difference.needed` is told.
        tolerated: Per metric the loss that the p-values count as none: they then tell a larger one from chance.
        most_moved: Samples to list.

    Returns:
        Per other run its differences by metric. The p-values are corrected over all of them.
    """
    pairs = [{name: _pairs(base, other, name) for name in metrics} for other in others]
    p_values = holm(
        {
            (k, name): sign_flip_p(after - before + _sign(name) * (tolerated or {}).get(name, 0.0))
            for k, of_run in enumerate(pairs)
            for name, (_, before, after) in of_run.items()
            if len(before)
        }
    )
    columns: list[_Column] = []
    for of_run in pairs:
        for rows, before, after in of_run.values():
            columns += [after - before, *((after - before)[mask] for mask in _by_group(base, rows).values())]
    intervals = iter(bootstrap_means(columns))
    found = []
    for k, (other, of_run) in enumerate(zip(others, pairs, strict=True)):
        one = {}
        for name, (rows, before, after) in of_run.items():
            difference = after - before
            sign = _sign(name)
            limit = (good or {}).get(name, 0.5)
            was, now = sign * before >= sign * limit, sign * after >= sign * limit
            order = np.argsort(-np.abs(difference), kind="stable")[:most_moved]
            whole = next(intervals)
            one[name] = Difference(
                n=len(rows),
                n_unpaired=len(set(base.ids) | set(other.ids)) - len(rows),
                base=_mean(before),
                other=_mean(after),
                difference=_mean(difference),
                low=whole[0] if whole else None,
                high=whole[1] if whole else None,
                p_value=p_values.get((k, name)),
                effect=effect_size(difference),
                n_better=int((sign * difference > 0).sum()),
                n_worse=int((sign * difference < 0).sum()),
                turned_bad=tuple(base.ids[rows[i]] for i in np.flatnonzero(was & ~now)),
                turned_good=tuple(base.ids[rows[i]] for i in np.flatnonzero(~was & now)),
                moved=tuple(
                    (base.ids[rows[i]], float(before[i]), float(after[i])) for i in order if difference[i] != 0
                ),
                groups={
                    group: _of_group(difference[mask], next(intervals)) for group, mask in _by_group(base, rows).items()
                },
                detectable=detectable(difference),
                needed=needed_pairs(difference, wanted) if wanted else None,
            )
        found.append(one)
    return found


def _pairs(base: Scored, other: Scored, metric: str) -> tuple[NDArray[np.int64], _Column, _Column]:
    """Return the base's rows that have a value in both runs, and the values of each."""
    places = {id_: row for row, id_ in enumerate(other.ids)}
    at = np.array([places.get(id_, -1) for id_ in base.ids], np.int64)
    before = base.values[metric]
    after = np.where(at >= 0, other.values[metric][at], np.nan)
    rows = np.flatnonzero(~np.isnan(before) & ~np.isnan(after))
    return rows, before[rows], after[rows]


def _by_group(base: Scored, rows: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    groups = np.array([base.group_of[row] for row in rows], object)
    return {name: groups == name for name in sorted({group for group in groups if group is not None})}


def _of_group(difference: _Column, interval: Interval | None) -> GroupDifference:
    low, high = interval or (None, None)
    return GroupDifference(len(difference), float(difference.mean()), low, high)


def _sign(metric: str) -> int:
    return 1 if METRICS[metric].higher_is_better else -1


def _mean(values: _Column) -> float | None:
    return float(values.mean()) if len(values) else None
