"""What a report tells of a run besides its scores: how far the judge can be trusted, and what the run cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpueval.units import duration, gib, rate

_DOUBTFUL_MASS = 0.8


@dataclass(frozen=True, slots=True)
class Fact:
    """One line.

    Attributes:
        name: What is told.
        value: In short.
        words: What follows from it.
        level: ``good``, ``warn`` or ``plain``.
    """

    name: str
    value: str
    words: str = ""
    level: str = "plain"


def trust(facts: Mapping[str, Any], metrics: Sequence[str], counts: Mapping[str, int]) -> list[Fact]:
    """Say how far the judge of a run can be trusted.

    Args:
        facts: The content of ``run.json``.
        metrics: The run's metrics.
        counts: Samples per finding.
    """
    found = []
    calibrated = (facts.get("calibration") or {}).get("metrics", {})
    for name in metrics:
        if one := calibrated.get(name):
            level = "good" if one["ruling"] == "may gate" else "warn"
            found.append(Fact(f"Calibration of {name}", one["ruling"], one["reason"], level))
    if not calibrated:
        found.append(
            Fact(
                "Calibration",
                "none",
                "Nobody has held this judge against labels on such data: compare runs with it, and do not read a score "
                "as a rate. gpueval calibrate makes up for it with 100 to 300 labels.",
                "warn",
            )
        )
    requests = facts.get("requests", {})
    mass = requests.get("mean_label_mass")
    if mass is not None:
        words = "Probability that the judge gave to the labels it was asked to choose from. "
        words += "It follows." if mass >= _DOUBTFUL_MASS else "It hardly follows: take its verdicts with doubt."
        found.append(Fact("Label mass", f"{mass:.3f}", words, "good" if mass >= _DOUBTFUL_MASS else "warn"))
    n = counts["unstable"]
    words = "Samples with a verdict so near the threshold that another machine may turn it."
    found.append(Fact("Close calls", f"{n:,}", words, "warn" if n else "good"))
    n = requests.get("n_failed", 0)
    found.append(Fact("Lost verdicts", f"{n:,}", "After they were asked again.", "warn" if n else "good"))
    n = counts["suspicious"]
    kept = facts["settings"].get("keep_instructions", False)
    words = "Samples that speak to the judge; " + ("it read them (--keep-instructions)." if kept else "kept from it.")
    found.append(Fact("Text that speaks to the judge", f"{n:,}", words, "warn" if n else "good"))
    return found


def cost(facts: Mapping[str, Any]) -> list[Fact]:
    """Say what a run was made with, how long it took, and what sizing had predicted."""
    judge, settings = facts.get("judge", {}), facts["settings"]
    made = [
        Fact("Judge", str(judge.get("model") or judge.get("engine") or "none"), _engine(judge)),
        Fact("Prompts", facts["prompts_version"], f"threshold {settings['threshold']}, claims: {settings['claims']}"),
    ]
    if embedder := facts.get("embedder"):
        made.append(Fact("Embedder", str(embedder.get("model", "given")), str(embedder.get("device", ""))))
    if checker := facts.get("checker"):
        made.append(Fact("Checker", str(checker.get("model", "given")), f"band {checker.get('band') or 'none'}"))
    timing, requests = facts.get("timing_s"), facts.get("requests")
    if timing and requests:
        made += [
            Fact("Start", duration(timing["start"]), "reading, sizing and loading the models"),
            Fact("Judging and scoring", duration(timing["judge_and_score"]), _stages(requests)),
            Fact("Rate", f"{rate(facts['samples_per_s'])} samples"),
            Fact("Requests", f"{requests['n_requests']:,}", f"{requests['n_reused']:,} of them answered earlier"),
            Fact("Prompt tokens", f"{requests['prompt_tokens']:,}", _cached(requests)),
            Fact("Generated tokens", f"{requests['output_tokens']:,}"),
        ]
    return made + _settled(facts.get("tiers") or {}) + _sizing(facts.get("sizing") or {})


def _engine(judge: Mapping[str, Any]) -> str:
    told = [str(judge[name]) for name in ("engine", "engine_version") if judge.get(name)]
    return " ".join(told) + (f" on {judge['device']}" if judge.get("device") else "")


def _stages(requests: Mapping[str, Any]) -> str:
    told = [f"judge {duration(requests['judge_s'])}"]
    if requests.get("n_checked"):
        told.append(f"checker {duration(requests['checker_s'])}")
    return ", ".join(told)


def _cached(requests: Mapping[str, Any]) -> str:
    if not requests["prompt_tokens"]:
        return ""
    return f"{requests['cached_tokens'] / requests['prompt_tokens']:.0%} of them from the prefix cache"


def _sizing(sizing: Mapping[str, Any]) -> list[Fact]:
    """Hold what sizing predicted against what the engine got."""
    predicted, actual = sizing.get("predicted"), sizing.get("actual") or {}
    if not predicted:
        return []
    made = [Fact("Weights, predicted", f"{gib(predicted['weights_bytes'])} GiB", _gib(actual, "weights_bytes"))]
    if actual.get("kv_cache_tokens"):
        made.append(
            Fact(
                "KV cache, predicted",
                f"{actual.get('predicted_kv_cache_tokens', 0):,} tokens",
                f"the engine says {actual['kv_cache_tokens']:,}",
            )
        )
    if actual.get("predicted_judge_s"):
        told = f"it took {duration(actual['judge_s'])}"
        made.append(Fact("Judging, predicted", duration(actual["predicted_judge_s"]), told))
    return made


def _settled(tiers: Mapping[str, Any]) -> list[Fact]:
    if not tiers:
        return []
    checker = tiers["checker"]
    told = f"{checker['n_settled']:,} of them settled without the judge, in {duration(checker['s'])}"
    return [Fact("Claims checked first", f"{checker['n_checked']:,}", told)]


def _gib(actual: Mapping[str, Any], name: str) -> str:
    return f"the engine says {gib(actual[name])} GiB" if actual.get(name) else ""
