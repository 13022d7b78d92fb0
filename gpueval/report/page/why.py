"""The page's section on why a run scores as it does: causes, failing claims, what changed, where answers are lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gpueval.diagnosis.ablation import Ablation
from gpueval.diagnosis.changes import CHANGE_WORDS, Change, Changes
from gpueval.diagnosis.clusters import Clusters
from gpueval.diagnosis.diagnose import Diagnosis
from gpueval.diagnosis.failures import FAILURE_WORDS
from gpueval.diagnosis.folder import Findings
from gpueval.report.ablation import CONDITION_WORDS, gaps
from gpueval.report.comparison import p_text, signed
from gpueval.report.diagnosis import changes_verdict, ends, unseen, verdict
from gpueval.report.page.charts import change, interval
from gpueval.units import score

_CLUSTERS = 12


def why(findings: Findings, shown: Collection[str]) -> dict[str, Any]:
    """Return the section's content.

    Args:
        findings: What is known.
        shown: Ids of the samples on the page: only these are linked.
    """
    there = frozenset(shown)
    return {
        "verdict": verdict(findings.diagnosis),
        "causes": _causes(findings.diagnosis, there),
        "unseen": list(unseen(findings.diagnosis)),
        "doubts": list(findings.diagnosis.judge),
        "kinds": [(kind, f"{n:,}", FAILURE_WORDS[kind]) for kind, n in findings.diagnosis.kinds.items()],
        "clusters": _clusters(findings.clusters, there) if findings.clusters else None,
        "changes": _changes(findings.changes, findings.base) if findings.changes else None,
        "ablation": _ablation(findings.ablation) if findings.ablation else None,
    }


def _link(id_: str, there: Collection[str]) -> tuple[str, str]:
    """Return an id and where on the page it is; empty where it is not."""
    return id_, f"#sample={quote(id_, safe='')}" if id_ in there else ""


def _causes(diagnosis: Diagnosis, there: Collection[str]) -> Sequence[Mapping[str, Any]]:
    rows = []
    for one in diagnosis.findings:
        share = one.samples
        told = f"{one.title}: {share.share:.1%} of the samples, 95 % interval {ends(share)}"
        rows.append(
            {
                "finding": one,
                "share": f"{share.share:.1%}",
                "ends": ends(share),
                "picture": interval(share.share, share.low, share.high, told),
                "clearest": [_link(id_, there) for id_ in one.clearest],
                "groups": [f"{name} {one.groups[name].share:.0%}" for name in one.standing_out],
            }
        )
    return rows


def _clusters(found: Clusters, there: Collection[str]) -> Mapping[str, Any]:
    rows = [
        {
            "cluster": one,
            "kind": next(iter(one.kinds)),
            "examples": [(text, *_link(sample, there)) for text, sample in one.examples],
        }
        for one in found.clusters[:_CLUSTERS]
    ]
    return {"rows": rows, "n": len(found.clusters), "found": found}


def _changes(found: Changes, base: str) -> Mapping[str, Any]:
    names = list(found.parts)
    rows = []
    for kind in Change:
        if kind in found.counts:
            parts = [found.parts[name].get(kind) for name in names]
            cells = ["–" if part is None else signed(part.difference) for part in parts]
            rows.append((kind, CHANGE_WORDS[kind], f"{found.counts[kind]:,}", cells))
    whole = [found.metrics[name] for name in names]
    return {
        "base": base,
        "verdict": changes_verdict(found),
        "names": names,
        "rows": rows,
        "all": [signed(one.difference) for one in whole],
        "p": [p_text(one.p_value) for one in whole],
        "n": f"{found.n:,}",
        "causes": [(one, p_text(one.p_value)) for one in found.causes.values()],
        "otherwise": found.judged_otherwise,
    }


def _ablation(found: Ablation) -> Mapping[str, Any]:
    conditions = []
    for condition, one in found.whole.right.items():
        told = f"{condition}: {one.share:.1%} right, 95 % interval {one.low:.1%} – {one.high:.1%}"
        picture = interval(one.share, one.low, one.high, told)
        range_ = f"{one.low:.1%} – {one.high:.1%}"
        counts = f"{one.n:,} / {one.n_total:,}"
        conditions.append(
            (condition, CONDITION_WORDS[condition], counts, f"{one.share:.1%}", range_, picture, score(one.mean))
        )
    whole = list(gaps(found.whole))
    reach = max([0.05, *(max(abs(gap.low), abs(gap.high)) for _, gap in whole)])
    rows = []
    for words, gap in whole:
        told = f"{words}: {signed(gap.difference)}, 95 % interval {signed(gap.low)} – {signed(gap.high)}"
        picture = change(gap.difference, gap.low, gap.high, reach, told)
        needed = "" if gap.needed is None else f"about {gap.needed:,} samples would tell"
        rows.append(
            (words, signed(gap.difference), f"{signed(gap.low)} – {signed(gap.high)}", picture, gap.matters, needed)
        )
    groups = [
        (name, f"{one.n:,}", [f"{right.share:.0%}" for right in one.right.values()], " ".join(one.conclusions))
        for name, one in found.groups.items()
    ]
    return {
        "found": found,
        "conditions": conditions,
        "rows": rows,
        "groups": groups,
        "names": [str(condition) for condition in found.whole.right],
    }
