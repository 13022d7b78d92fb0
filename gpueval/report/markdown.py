"""The summary as Markdown, for pull requests and for reading without a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpueval.decisions.gate import Check
from gpueval.records import Summary
from gpueval.report.cells import cell
from gpueval.report.facts import Fact, cost, trust
from gpueval.report.gate import gate_markdown
from gpueval.report.page.findings import FINDINGS
from gpueval.units import score

_HEAD = "| metric | mean | 95 % interval | scored | bounds | states |\n|---|---:|---:|---:|---:|---|"


def markdown(
    summary: Mapping[str, Any],
    facts: Mapping[str, Any],
    counts: Mapping[str, int],
    checks: Sequence[Check] | None = None,
    policy: str = "",
) -> str:
    """Return the report of a run as Markdown.

    Args:
        summary: The content of ``summary.json``.
        facts: The content of ``run.json``.
        counts: Samples per finding.
        checks: A gate's checks; None where no gate was asked.
        policy: Name of the policy behind the checks.
    """
    metrics, groups = summary["metrics"], summary["groups"]
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
    if checks is not None:
        passed = all(check.result != "block" for check in checks)
        lines += [gate_markdown(checks, [f"policy: {policy}"], passed=passed)]
    if any(counts.values()):
        lines += ["## Worth a look", ""]
        lines += [f"- {counts[kind.key]:,} x {kind.title}: {kind.words}" for kind in FINDINGS if counts[kind.key]]
        lines += [""]
    for group, columns in groups.items():
        lines += [f"## Group {cell(group)}", "", _HEAD, *(_row(name, s) for name, s in columns.items()), ""]
    if summary["warnings"]:
        lines += ["## Remarks", "", *(f"- {cell(text)}" for text in summary["warnings"]), ""]
    for title, told in (
        ("How far to trust the judge", trust(facts, list(metrics), counts)),
        ("Run", cost(facts)),
    ):
        lines += [f"## {title}", "", *(f"- {cell(fact.name)}: {_fact(fact)}" for fact in told), ""]
    return "\n".join(lines)


def _fact(fact: Fact) -> str:
    return f"**{cell(fact.value)}**" + (f" ({cell(fact.words).rstrip('.')})" if fact.words else "")


def _row(name: str, summary: Summary) -> str:
    interval = "–" if summary.ci_low is None else f"{score(summary.ci_low)} – {score(summary.ci_high)}"
    bounds = "–" if summary.lower_bound is None else f"{score(summary.lower_bound)} – {score(summary.upper_bound)}"
    states = ", ".join(f"{state} {n:,}" for state, n in summary.states.items())
    counts = f"{summary.n_scored:,} / {summary.n_total:,}"
    return f"| {cell(name)} | {score(summary.mean)} | {interval} | {counts} | {bounds} | {states} |"
