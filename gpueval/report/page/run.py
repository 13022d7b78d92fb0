"""``report.html`` of a run: what came out, how far it can be trusted, what it cost, and every sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from gpueval.decisions.gate import Check
from gpueval.diagnosis.causes import CAUSES, Cause
from gpueval.diagnosis.folder import Findings
from gpueval.metrics import METRICS
from gpueval.records import State, Summary
from gpueval.report.facts import cost, trust
from gpueval.report.page.charts import BINS, histogram, interval
from gpueval.report.page.samples import Embedded
from gpueval.report.page.shell import filter_of, render
from gpueval.report.page.why import why
from gpueval.report.words import METRIC_WORDS, STATE_WORDS
from gpueval.units import score


@dataclass(frozen=True, slots=True)
class _Row:
    """One metric in the overview."""

    name: str
    words: str
    mean: str
    ends: str
    picture: Markup
    spread: Markup
    scored: str
    bounds: str
    states: Sequence[tuple[str, str, str]]


def run_page(
    name: str,
    facts: Mapping[str, Any],
    summary: Mapping[str, Any],
    embedded: Embedded,
    findings: Findings,
    checks: Sequence[Check] | None = None,
    policy: str = "",
) -> str:
    """Return the page of a finished run.

    Args:
        name: Heading.
        facts: The content of ``run.json``.
        summary: The content of ``summary.json``.
        embedded: The run's samples.
        findings: Why it scores as it does.
        checks: A gate's checks; None where no gate was asked.
        policy: Name of the policy behind the checks.
    """
    metrics: dict[str, Summary] = summary["metrics"]
    judge = facts.get("judge", {})
    content = {
        "title": f"gpueval: {name}",
        "name": name,
        "n_samples": facts["n_samples"],
        "n_shown": len(embedded.index["ids"]),
        "judge": judge.get("model") or judge.get("engine") or "none",
        "version": facts["gpueval_version"],
        "rows": [_row(metric, one, embedded, k) for k, (metric, one) in enumerate(metrics.items())],
        "findings": [
            (finding, embedded.counts[finding.key], _finding_filter(k, finding, list(metrics)))
            for k, finding in enumerate(CAUSES)
            if embedded.counts[finding.key]
        ],
        "groups": _groups(list(metrics), summary["groups"]),
        "metric_names": list(metrics),
        "checks": checks,
        "policy": policy,
        "why": why(findings, embedded.index["ids"]),
        "trust": trust(facts, list(metrics), embedded.counts),
        "cost": cost(facts),
        "warnings": summary["warnings"],
    }
    return render("run.html", content, embedded.index, embedded.blocks)


def _finding_filter(place: int, finding: Cause, names: Sequence[str]) -> str:
    if finding.metric in names:
        return filter_of(finding=place, sort=f"worst:{names.index(finding.metric)}")
    return filter_of(finding=place)


def _row(name: str, one: Summary, embedded: Embedded, place: int) -> _Row:
    higher = METRICS[name].higher_is_better
    ends = "" if one.ci_low is None else f"{score(one.ci_low)} – {score(one.ci_high)}"
    told = f"{name}: mean {score(one.mean)}" + (f", 95 % interval {ends}" if ends else "")
    counts = embedded.spread[place]
    filters = [filter_of(metric=place, low=k / BINS, high=(k + 1) / BINS) for k in range(BINS)]
    spread = f"Distribution of {name} over {sum(counts):,} samples: " + ", ".join(
        f"{count:,} from {k / BINS:.1f}" for k, count in enumerate(counts) if count
    )
    bounds = ""
    if one.lower_bound is not None and one.lower_bound != one.upper_bound:
        bounds = f"{score(one.lower_bound)} – {score(one.upper_bound)}"
    states = list(State)
    others = [
        (f"{state} {n:,}", STATE_WORDS[State(state)], filter_of(metric=place, state=states.index(State(state))))
        for state, n in one.states.items()
        if state != State.OK
    ]
    return _Row(
        name,
        METRIC_WORDS[name] + ("" if higher else " Lower is better."),
        score(one.mean),
        ends,
        interval(one.mean, one.ci_low, one.ci_high, told),
        histogram(counts, spread, filters),
        f"{one.n_scored:,} / {one.n_total:,}",
        bounds,
        others,
    )


def _groups(names: Sequence[str], groups: Mapping[str, Mapping[str, Summary]]) -> list[dict[str, Any]]:
    """Lay the means out, one line per group; the shade says how good a mean is."""
    found = []
    for k, (group, columns) in enumerate(sorted(groups.items())):
        cells = []
        for place, name in enumerate(names):
            one = columns.get(name)
            mean = one.mean if one else None
            good = mean if mean is None or METRICS[name].higher_is_better else 1 - mean
            few = f"{one.n_scored:,} of {one.n_total:,} scored" if one and one.n_scored < one.n_total else ""
            shade = "none" if good is None else f"{min(4, int(good * 5))}"
            cells.append({"mean": score(mean), "few": few, "shade": shade, "filter": filter_of(group=k, metric=place)})
        found.append({"name": group, "n": max(one.n_total for one in columns.values()), "cells": cells})
    return found
