"""The summary as Markdown, for pull requests and for reading without a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpueval.records import Summary
from gpueval.units import duration, rate, score

_HEAD = "| metric | mean | 95 % interval | scored | bounds | states |\n|---|---:|---:|---:|---:|---|"


def markdown(
    metrics: Mapping[str, Summary],
    groups: Mapping[str, Mapping[str, Summary]],
    warnings: Sequence[str],
    facts: Mapping[str, Any],
) -> str:
    """Return the report of a run as Markdown.

    Args:
        metrics: Summary per metric.
        groups: Summaries per group.
        warnings: Remarks.
        facts: The content of ``run.json``.
    """
    judge = facts.get("judge", {})
    lines = [
        "# gpueval report",
        "",
        f"{facts['n_samples']:,} samples, judge `{cell(judge.get('model') or judge.get('engine') or 'none')}` "
        f"({cell(judge.get('engine', 'no engine'))}), prompts {facts['prompts_version']}, "
        f"threshold {facts['settings']['threshold']}.",
        "",
        _HEAD,
        *(_row(name, summary) for name, summary in metrics.items()),
        "",
    ]
    for group, columns in groups.items():
        lines += [f"## Group {cell(group)}", "", _HEAD, *(_row(name, s) for name, s in columns.items()), ""]
    if warnings:
        lines += ["## Remarks", "", *(f"- {cell(text)}" for text in warnings), ""]
    if "requests" in facts:
        requests, timing = facts["requests"], facts["timing_s"]
        lines += [
            "## Run",
            "",
            f"- {requests['n_requests']:,} requests, {requests['n_reused']:,} of them answered earlier; "
            f"{requests['n_asked_again']:,} asked again, {requests['n_failed']:,} failed",
            f"- {requests['prompt_tokens']:,} prompt tokens ({requests['cached_tokens']:,} from the prefix cache), "
            f"{requests['output_tokens']:,} generated",
            *_tiers(facts.get("tiers")),
            f"- {duration(timing['start'])} to load, {duration(timing['judge_and_score'])} to judge and score: "
            f"{rate(facts['samples_per_s'])} samples",
            "",
        ]
    return "\n".join(lines)


def _tiers(tiers: Mapping[str, Any] | None) -> list[str]:
    if not tiers:
        return []
    checker, judge = tiers["checker"], tiers["judge"]
    return [
        f"- {checker['n_checked']:,} claims checked in {duration(checker['s'])}, {checker['n_settled']:,} settled; "
        f"{judge['n_verdicts']:,} verdicts by the judge in {duration(judge['s'])}"
    ]


def _row(name: str, summary: Summary) -> str:
    interval = "–" if summary.ci_low is None else f"{score(summary.ci_low)} – {score(summary.ci_high)}"
    bounds = "–" if summary.lower_bound is None else f"{score(summary.lower_bound)} – {score(summary.upper_bound)}"
    states = ", ".join(f"{state} {n:,}" for state, n in summary.states.items())
    counts = f"{summary.n_scored:,} / {summary.n_total:,}"
    return f"| {cell(name)} | {score(summary.mean)} | {interval} | {counts} | {bounds} | {states} |"


def cell(text: object) -> str:
    """Make a text fit for a cell of a table: one line, no bars, tags or code marks of its own."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
