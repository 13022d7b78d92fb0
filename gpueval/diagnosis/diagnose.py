"""A run's causes: how many samples each holds for, whether that is more than a few, which show it most clearly."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpueval.diagnosis.causes import CAUSES, Area, Cause, Line, causes_of, is_control
from gpueval.diagnosis.failures import Failure, kind_of
from gpueval.metrics import METRICS
from gpueval.records import Sample
from gpueval.run_folder import read_run, read_scores, read_summary
from gpueval.stats.intervals import wilson

NAMED_FROM = 0.05
"""A cause is named where the 95 % interval of its share lies above this: below, any system has some."""

_CLEAREST = 5
_DOUBTFUL_MASS = 0.8


@dataclass(frozen=True, slots=True)
class Share:
    """Samples of a cause.

    Attributes:
        n, n_total: Samples that have it, and all.
        share: ``n / n_total``.
        low, high: Wilson's 95 % interval of the share.
    """

    n: int
    n_total: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause in a run.

    Attributes:
        cause: Its key.
        area: Where it lies.
        title, words, try_next, confirm: See :class:`~gpueval.diagnosis.causes.Cause`.
        samples: How many have it.
        named: More than a few: the interval lies above the least share asked for.
        clearest: Ids of the samples that show it most clearly, those without a further cause first.
        groups: The share per group.
        standing_out: Groups whose interval lies above the share of the whole run.
    """

    cause: str
    area: Area
    title: str
    words: str
    try_next: str
    confirm: str
    samples: Share
    named: bool
    clearest: tuple[str, ...]
    groups: dict[str, Share]
    standing_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailingClaim:
    """A claim that no document supports.

    Attributes:
        sample: Id of its sample.
        text: The claim.
        sentence: Its closest sentence.
        kind: What is wrong with it, by its words.
    """

    sample: str
    text: str
    sentence: str | None
    kind: Failure


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What ails a run.

    Attributes:
        n_samples: Samples of the run; of an ablation those with the documents that were retrieved.
        named_from: Share of samples above which a cause is named.
        n_troubled: Samples with a cause in retrieval, documents or generation.
        findings: Causes that hold for any sample, in the order of :data:`~gpueval.diagnosis.causes.CAUSES`.
        kinds: Failing claims per kind, most frequent first.
        judge: Why the judge may be unreliable on this run; empty where nothing says so.
        unseen: Causes that the run's metrics and fields cannot show, with what they lack.
        claims: The failing claims.
    """

    n_samples: int
    named_from: float
    n_troubled: int
    findings: tuple[Finding, ...]
    kinds: dict[Failure, int]
    judge: tuple[str, ...]
    unseen: dict[str, str]
    claims: tuple[FailingClaim, ...] = field(repr=False)

    def main(self) -> tuple[Finding, ...]:
        """Return the named causes outside the judge, most frequent first."""
        named = [one for one in self.findings if one.named and one.area != Area.JUDGE]
        return tuple(sorted(named, key=lambda one: -one.samples.n))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``gpueval diagnose --json``, without the claims."""
        body = asdict(self)
        del body["claims"]
        return {"main": [one.cause for one in self.main()]} | body


def diagnose(folder: Path, *, named_from: float = NAMED_FROM) -> Diagnosis:
    """Find what ails a finished run, without a model. O(samples) time; memory for the ids and the failing claims.

    Args:
        folder: Run folder.
        named_from: Share of samples above which a cause is named.

    Raises:
        UsageError: The folder is no run folder, or the run has not finished.
    """
    facts, summary = read_run(folder), read_summary(folder)
    totals, of_group = Counter[str](), {cause.key: Counter[str]() for cause in CAUSES}
    counts, n_samples, n_troubled = Counter[str](), 0, 0
    clearest: dict[str, list[tuple[float, int, str]]] = {cause.key: [] for cause in CAUSES}
    claims: list[FailingClaim] = []
    troubles = sum(1 << k for k, cause in enumerate(CAUSES) if cause.area != Area.JUDGE)
    given = set[str]()
    for sample, line in read_scores(folder, dict[str, Any]):
        if is_control(sample):
            continue
        mask = causes_of(sample, line)
        group = sample.extra.get("ablation_group", sample.group)
        n_samples += 1
        n_troubled += bool(mask & troubles)
        given |= _fields(sample)
        if group is not None:
            totals[group] += 1
        for k, cause in enumerate(CAUSES):
            if mask >> k & 1:
                counts[cause.key] += 1
                if group is not None:
                    of_group[cause.key][group] += 1
                _keep(clearest[cause.key], -_badness(cause, line) + mask.bit_count(), n_samples, sample.id)
        claims += _failing(sample, line)
    findings = []
    for cause in CAUSES:
        if not counts[cause.key]:
            continue
        whole = share_of(counts[cause.key], n_samples)
        groups = {group: share_of(of_group[cause.key][group], n) for group, n in sorted(totals.items())}
        findings.append(
            Finding(
                cause.key,
                cause.area,
                cause.title,
                cause.words,
                cause.try_next,
                cause.confirm,
                whole,
                whole.low > named_from,
                tuple(id_ for *_, id_ in sorted(clearest[cause.key], reverse=True)),
                groups,
                tuple(group for group, one in groups.items() if one.low > whole.share),
            )
        )
    kinds = Counter(claim.kind for claim in claims)
    return Diagnosis(
        n_samples,
        named_from,
        n_troubled,
        tuple(findings),
        dict(kinds.most_common()),
        _doubts(facts, {one.cause: one for one in findings}),
        _unseen(set(summary["metrics"]), given),
        tuple(claims),
    )


def share_of(n: int, n_total: int) -> Share:
    """Return a share with its interval; ``n_total`` above 0."""
    low, high = wilson(n, n_total)
    return Share(n, n_total, n / n_total, max(0.0, low), min(1.0, high))


def _keep(heap: list[tuple[float, int, str]], burden: float, place: int, id_: str) -> None:
    """Keep the least burdened samples, the first of equals."""
    entry = (-burden, -place, id_)
    if len(heap) < _CLEAREST:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


def _badness(cause: Cause, line: Line) -> float:
    """How bad the cause's own metric is, 0 to 1; 0 where the run lacks it."""
    value = line["scores"].get(cause.metric, {}).get("value")
    if value is None:
        return 0.0
    return float(1 - value if METRICS[cause.metric].higher_is_better else value)


def _failing(sample: Sample, line: Line) -> list[FailingClaim]:
    scores = line["scores"]
    blended = {one["claim"] for one in scores.get("blending", {}).get("blended", ())}
    return [
        FailingClaim(
            sample.id,
            claim["text"],
            claim.get("sentence"),
            kind_of(claim["text"], claim.get("sentence"), blended=claim["text"] in blended),
        )
        for claim in scores.get("faithfulness", {}).get("claims", ())
        if claim["supported"] is False
    ]


def _doubts(facts: Mapping[str, Any], findings: Mapping[str, Finding]) -> tuple[str, ...]:
    """Say why the judge may be unreliable here."""
    found = []
    mass = (facts.get("requests") or {}).get("mean_label_mass")
    if mass is not None and mass < _DOUBTFUL_MASS:
        found.append(f"It gives its labels only {mass:.2f} of its probability: it hardly follows.")
    for key in ("overruled", "unstable", "failed"):
        if key in findings and findings[key].named:
            one = findings[key]
            found.append(f"{one.title}: {one.samples.n:,} of {one.samples.n_total:,} samples. {one.words}")
    calibration = (facts.get("calibration") or {}).get("metrics", {})
    found += [
        f"{name}: {one['ruling']} ({one['reason']})" for name, one in calibration.items() if one["ruling"] != "may gate"
    ]
    return tuple(found)


_NEEDS: Mapping[str, Sequence[frozenset[str]]] = {
    "missed": (frozenset({"relevant_ids"}), frozenset({"context_recall"}), frozenset({"context_precision"})),
    "ranked": (frozenset({"relevant_ids"}), frozenset({"context_precision"})),
    "noise": (
        frozenset({"noise_sensitivity_irrelevant"}),
        frozenset({"relevant_ids", "faithfulness", "answer_correctness"}),
    ),
    "cut": (frozenset({"relevant_ids", "context_recall"}),),
    "stale": (frozenset({"relevant_ids", "context_recall", "faithfulness", "answer_correctness"}),),
    "unsupported": (frozenset({"faithfulness"}),),
    "blended": (frozenset({"blending"}),),
    "wrong": (frozenset({"faithfulness", "answer_correctness"}),),
    "evasive": (frozenset({"answer_relevancy"}),),
    "declined": (frozenset({"faithfulness"}), frozenset({"answer_relevancy"}), frozenset({"answer_correctness"})),
}
"""Per cause the sets of metrics and fields of which one is enough to see it."""


def _fields(sample: Sample) -> set[str]:
    return {"relevant_ids"} if sample.relevant_ids else set()


def _unseen(metrics: set[str], fields: set[str]) -> dict[str, str]:
    """Name the causes that cannot be seen, with the least that would show each."""
    found = {}
    for key, ways in _NEEDS.items():
        lacking = [way - metrics - fields for way in ways]
        if all(lacking):
            least = min(lacking, key=len)
            found[key] = ", ".join(sorted(least))
    return found
