"""The summary as Markdown, for pull requests and for reading without a tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpueval.decisions.gate import Check
from gpueval.diagnosis.changes import CHANGE_WORDS, Changes
from gpueval.diagnosis.failures import FAILURE_WORDS
from gpueval.diagnosis.folder import Findings
from gpueval.records import Summary
from gpueval.report.ablation import ablation_markdown
from gpueval.report.cells import cell
from gpueval.report.comparison import signed
from gpueval.report.diagnosis import changes_verdict, verdict
from gpueval.report.facts import Fact, cost, trust
from gpueval.report.gate import gate_markdown
from gpueval.units import score

_HEAD = "| metric | mean | 95 % interval | scored | bounds | states |\n|---|---:|---:|---:|---:|---|"


def markdown(
    summary: Mapping[str, Any],
    facts: Mapping[str, Any],
    findings: Findings,
    checks: Sequence[Check] | None = None,
    policy: str = "",
) -> str:
    """Return the report of a run as Markdown.

    Args:
        summary: The content of ``summary.json``.
        facts: The content of ``run.json``.
        findings: Why it scores as it does.
        checks: A gate's checks; None where no gate was asked.
        policy: Name of the policy behind the checks.
    """
    metrics, groups = summary["metrics"], summary["groups"]
    counts = Counter({one.cause: one.samples.n for one in findings.diagnosis.findings})
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
    lines += _why(findings)
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


def _why(findings: Findings) -> Iterator[str]:
    """Yield where answers are lost, what changed, and the causes, as far as they are known."""
    if findings.ablation:
        yield from ablation_markdown(findings.ablation)
    if findings.changes:
        yield from _changed(findings.changes, findings.base)
    diagnosis = findings.diagnosis
    if not diagnosis.findings:
        return
    yield from ("## Worth a look", "", cell(verdict(diagnosis)), "")
    for one in diagnosis.findings:
        yield f"- {one.samples.n:,} x {one.title}: {one.words}" + (f" *Try next:* {one.try_next}" if one.named else "")
    yield ""
    if diagnosis.kinds:
        yield from ("Failing claims:", "")
        yield from (f"- {n:,} x {kind}: {FAILURE_WORDS[kind]}" for kind, n in diagnosis.kinds.items())
        yield ""
    if findings.clusters and findings.clusters.clusters:
        yield from ("Clusters of failing claims:", "")
        for cluster in findings.clusters.clusters:
            yield f"- {cluster.n:,} x {cell(', '.join(cluster.terms))}: {cell(cluster.label)}"
        yield ""


def _changed(found: Changes, base: str) -> Iterator[str]:
    yield from (f"## What changed since {cell(base)}", "", cell(changes_verdict(found)), "")
    names = list(found.parts)
    yield f"| what changed | samples | {' | '.join(map(cell, names))} |"
    yield "|---" + "|---:" * (1 + len(names)) + "|"
    for kind, n in found.counts.items():
        parts = [found.parts[name].get(kind) for name in names]
        cells = ("–" if part is None else signed(part.difference) for part in parts)
        yield f"| {kind}: {CHANGE_WORDS[kind]} | {n:,} | {' | '.join(cells)} |"
    yield f"| all | {found.n:,} | {' | '.join(signed(found.metrics[name].difference) for name in names)} |"
    yield ""
    yield from (f"- judged with {cell(text)}" for text in found.judged_otherwise)
    yield ""


def _fact(fact: Fact) -> str:
    return f"**{cell(fact.value)}**" + (f" ({cell(fact.words).rstrip('.')})" if fact.words else "")


def _row(name: str, summary: Summary) -> str:
    interval = "–" if summary.ci_low is None else f"{score(summary.ci_low)} – {score(summary.ci_high)}"
    bounds = "–" if summary.lower_bound is None else f"{score(summary.lower_bound)} – {score(summary.upper_bound)}"
    states = ", ".join(f"{state} {n:,}" for state, n in summary.states.items())
    counts = f"{summary.n_scored:,} / {summary.n_total:,}"
    return f"| {cell(name)} | {score(summary.mean)} | {interval} | {counts} | {bounds} | {states} |"
