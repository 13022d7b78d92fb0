"""The page of a comparison: what changed between two runs, how sure that is, and each sample side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from gpueval.decisions.compare import Difference
from gpueval.decisions.scored import Scored
from gpueval.diagnosis.causes import Kind
from gpueval.metrics import METRICS
from gpueval.report.comparison import p_text, signed
from gpueval.report.page.charts import change, paired
from gpueval.report.page.samples import MOST, Lines, embed
from gpueval.report.page.shell import filter_of, render
from gpueval.report.words import METRIC_WORDS
from gpueval.units import score

_MOST_METRICS = 15
"""Two kinds of samples per metric fit in the page's 31 bits."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One metric of the comparison."""

    name: str
    words: str
    means: str
    difference: str
    ends: str
    picture: Markup
    p: str
    pairs: str
    moved: str
    scatter: Markup
    groups: Sequence[tuple[str, str]]


def compared_page(
    base: Scored,
    other: Scored,
    found: Mapping[str, Difference],
    notes: Sequence[str],
    good: float = 0.5,
    most: int = MOST,
) -> str:
    """Return the page of two runs over the same samples.

    Args:
        base: What the other is held against.
        other: The other run.
        found: Differences by metric.
        notes: What makes the runs differ besides the system.
        good: Score from which a sample is good: who crosses it has turned.
        most: Samples on the page at most.
    """
    names = list(found)
    kinds = [kind for name in names[:_MOST_METRICS] for kind in _kinds(name, good)]
    embedded = embed(
        [base.folder, other.folder], names, most, kinds, lambda _, lines: _turned(lines, names[:_MOST_METRICS], good)
    )
    labels = [run.folder.resolve().name for run in (base, other)]
    if labels[0] == labels[1]:
        labels = [str(run.folder) for run in (base, other)]
    embedded.index["names"] = labels
    reach = max([0.05, *(abs(end) for one in found.values() for end in (one.low, one.high, one.difference) if end)])
    content = {
        "title": f"gpueval: {labels[1]} against {labels[0]}",
        "name": f"{labels[1]} against {labels[0]}",
        "labels": labels,
        "version": other.facts["gpueval_version"],
        "n_samples": embedded.n_total,
        "n_shown": len(embedded.index["ids"]),
        "findings": [
            (
                kind,
                embedded.counts[kind.key],
                filter_of(finding=k, sort=f"{'change' if k % 2 == 0 else 'gain'}:{k // 2}"),
            )
            for k, kind in enumerate(kinds)
            if embedded.counts[kind.key]
        ],
        "rows": [_row(name, one, base, other, reach) for name, one in found.items()],
        "reach": score(reach),
        "notes": notes,
    }
    return render("compared.html", content, embedded.index, embedded.blocks)


def _kinds(name: str, good: float) -> tuple[Kind, Kind]:
    better = "or more" if METRICS[name].higher_is_better else "or less"
    words = f"good is {good} {better}"
    return (
        Kind(f"{name} bad", f"{name} turned bad", f"Good in the base run and no longer: {words}."),
        Kind(f"{name} good", f"{name} turned good", f"Good now and not in the base run: {words}."),
    )


def _turned(lines: Lines, names: Sequence[str], good: float) -> int:
    """Return a bit per kind of :func:`_kinds`."""
    mask = 0
    for k, name in enumerate(names):
        values = [line["scores"][name]["value"] for line in lines if line]
        if len(values) < len(lines) or None in values:
            continue
        sign = 1 if METRICS[name].higher_is_better else -1
        was, now = (sign * value >= sign * good for value in values)
        mask |= (was and not now) << 2 * k | (now and not was) << 2 * k + 1
    return mask


def _row(name: str, one: Difference, base: Scored, other: Scored, reach: float) -> _Row:
    places = {id_: k for k, id_ in enumerate(other.ids)}
    at = [places.get(id_, -1) for id_ in base.ids]
    before = base.values[name]
    after = np.array([other.values[name][k] if k >= 0 else np.nan for k in at])
    both = ~np.isnan(before) & ~np.isnan(after)
    ends = "" if one.low is None else f"{signed(one.low)} – {signed(one.high)}"
    told = f"{name}: {signed(one.difference)}" + (f", 95 % interval {ends}" if ends else "")
    moved = f"{one.n_better:,} better, {one.n_worse:,} worse"
    groups = [
        (group, signed(each.difference) + ("" if each.low is None else f" ({signed(each.low)} – {signed(each.high)})"))
        for group, each in one.groups.items()
    ]
    return _Row(
        name,
        METRIC_WORDS[name] + ("" if METRICS[name].higher_is_better else " Lower is better."),
        f"{score(one.base)} → {score(one.other)}",
        signed(one.difference),
        ends,
        change(one.difference, one.low, one.high, reach, told),
        p_text(one.p_value),
        f"{one.n:,}" + (f", {one.n_unpaired:,} without a partner" if one.n_unpaired else ""),
        moved,
        paired(before[both].tolist(), after[both].tolist(), f"{name}, sample by sample: {moved}"),
        groups,
    )
