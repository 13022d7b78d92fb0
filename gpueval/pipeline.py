"""The one module that joins all rooms: samples to judgments to cells to a run folder.

A run folder holds ``samples.jsonl`` (what was scored), ``judgments.sqlite`` (every reply), ``scores.jsonl``,
``summary.json``, ``report.html``, ``report.md`` and ``run.json``. Kill the process anywhere: the same call goes on,
because every reply is in the store under a key of its content. :func:`rescore` reads the folder without a model.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpueval import cluster, engines, launch
from gpueval.calibration import record
from gpueval.calibration.record import Calibration
from gpueval.config import RunConfig, is_server
from gpueval.data.columns import Columns, to_sample
from gpueval.data.load import load
from gpueval.drawing import Drawing, draw_order
from gpueval.engines.base import Embedder, Engine
from gpueval.errors import DataError, GpuevalError, UsageError
from gpueval.fingerprint import text_digest
from gpueval.judge import prompts
from gpueval.judge.assemble import ALIGNED, SIMILAR
from gpueval.judge.plan import Keys
from gpueval.judge.reader import StoredReader
from gpueval.judge.run import Bench, Progress
from gpueval.judge.sentences import sentences
from gpueval.judge.store import Store
from gpueval.metrics import DEFAULT, Metric, choose
from gpueval.records import BY_EMBEDDER_ALONE, SUPPORT_NEEDS, Sample
from gpueval.report.folder import write_run_reports
from gpueval.run_folder import (
    locked,
    read_run,
    read_samples,
    write_json,
    write_samples,
)
from gpueval.scoring import Result, score_folder
from gpueval.sizing.actuals import read_log
from gpueval.sizing.model import load_model
from gpueval.sizing.plan import Plan


def _silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


def evaluate(
    samples: Path | str | Iterable[Sample | Mapping[str, Any]],
    *,
    judge: str | Engine | None = None,
    embedder: str | Embedder | None = None,
    checker: str | Embedder | None = None,
    metrics: Sequence[str] = DEFAULT,
    out: Path | str,
    columns: Columns | None = None,
    calibration: Path | str | None = None,
    progress: Progress = _silent,
    **settings: Any,
) -> Result:
    """Score samples and leave a run folder; the function behind ``gpueval run``.

    Args:
        samples: A file, or samples, or mappings with the fields of a sample.
        judge: Model folder, server URL, ``scripted:RULES.jsonl`` or an engine.
        embedder: Sentence-transformers folder or an embedder; needed by metrics that compare meanings.
        checker: Folder of an encoder that checks claims first: the judge sees those it is unsure of; without a judge it
            decides alone.
        metrics: Metric names.
        out: Run folder; an unfinished run in it goes on.
        columns: Column mapping of a file.
        calibration: File of ``gpueval calibrate``, made for this judge.
        progress: Called with round, done and total.
        settings: Further fields of :class:`~gpueval.config.RunConfig`.

    Raises:
        DataError: The samples are wrong; raised before an engine starts.
        UsageError: The calibration was made for another judge, version of the prompts, kind of claims or metric.
        PrerequisiteError: A model, an embedder or a package is missing.
        EngineError: The engine failed for good; everything answered is kept.
    """
    config = RunConfig(
        judge if isinstance(judge, str) else None,
        embedder if isinstance(embedder, str) else None,
        tuple(metrics),
        checker=checker if isinstance(checker, str) else None,
        **settings,
    )
    chosen = choose(config.metrics)
    calibrated = record.read(Path(calibration)) if calibration else None
    folder = Path(out)
    with locked(folder):
        began = time.monotonic()  # the clock on the wall may be set back
        mapping = columns or Columns()
        n_samples = write_samples(folder / "samples.jsonl", _incoming(samples, mapping))
        if config.until_ci is not None:
            draw_order(folder / "samples.jsonl", config.seed)
        _drop_results(folder, "summary.json", "scores.jsonl")  # a gate must not pass on an earlier result
        needs = {need for metric in chosen for need in metric.needs}
        checks = checker is not None and bool(needs & SUPPORT_NEEDS)
        of_judge = needs - BY_EMBEDDER_ALONE
        alone = checks and judge is None and config.claims == "sentences" and of_judge <= SUPPORT_NEEDS
        judged = not alone and bool(of_judge)
        with ExitStack() as stack:
            engine: Engine | None = None
            embed: Embedder | None = None
            plan: Plan | None = None
            unsized = "no local judge on vLLM"
            store = stack.enter_context(Store(folder / "judgments.sqlite"))
            if judged and isinstance(judge, str) and _runs_on_vllm(config):
                plan, unsized = _planned(config, folder, n_samples, chosen)
            replicas = cluster.replicas_for(config, plan)
            if needs & SIMILAR or (embedder is not None and needs & ALIGNED):
                embed = _embedder(embedder, config, folder / "engine.log", plan, replicas)
                if embed is not embedder:  # what the caller started stays the caller's
                    stack.callback(embed.close)
            first: Embedder | None = None
            if checks:
                first = _checker(checker, config, folder / "engine.log")
                if first is not checker:
                    stack.callback(first.close)
            if judged:
                engine = _judge(judge, config, plan, folder / "engine.log", replicas)
                if engine is not judge:
                    stack.callback(engine.close)
            facts = _facts(config, engine, embed, n_samples)
            if first:
                facts["checker"] = dict(first.facts()) | {"band": None if alone else config.checker_band}
            facts["metrics_asked"] = list(config.metrics)
            facts["evidence"] = "tokens" if embed else "words"
            facts["sizing"] = {"predicted": plan.to_dict()} if plan else {"not_sized": unsized}
            _take(calibrated, facts)
            write_json(folder / "run.json", facts)
            started = time.monotonic()
            reader = StoredReader(
                store,
                facts["judge"].get("fingerprint", ""),
                engine.max_prompt_tokens if engine else 8192,
                engine.count_tokens if engine else None,
            )
            bench = _bench(store, reader, config, facts, progress)
            bench.judge, bench.embedder, bench.checker = engine, embed, first
            drawing = Drawing(chosen, config.until_ci)
            warned = dict(mapping.warnings)
            result = score_folder(folder, chosen, bench, config.window_samples, warned, calibrated, drawing)
            took = time.monotonic() - started
            facts["timing_s"] = {"start": started - began, "judge_and_score": took}
            facts["asked"] = drawing.asked
            n_asked = max((drawing.asked.get(metric.name, n_samples) for metric in chosen), default=n_samples)
            facts["samples_per_s"] = n_asked / max(1e-9, took)
            facts["requests"] = asdict(bench.tally) | {"mean_label_mass": bench.tally.mean_label_mass}
            if first:
                tally = bench.tally
                facts["tiers"] = {
                    "checker": {"n_checked": tally.n_checked, "n_settled": tally.n_settled, "s": tally.checker_s},
                    "judge": {"n_verdicts": tally.n_verdicts, "s": tally.judge_s},
                }
            facts["judge"] |= dict(engine.facts()) if engine else {}
            facts["embedder"] |= dict(embed.facts()) if embed else {}
            facts["data_warnings"] = dict(mapping.warnings)
            if plan and engine:
                seen = launch.actual(plan, facts["judge"], bench.tally, read_log(folder / "engine.log"), replicas)
                facts["sizing"]["actual"] = seen
                if not config.ray and replicas == 1:
                    launch.remember(plan, facts["judge"], seen)
            facts["finished"] = True
            write_json(folder / "run.json", facts)
        write_run_reports(folder)
        return result


def rescore(
    folder: Path | str,
    *,
    metrics: Sequence[str] = (),
    threshold: float | None = None,
    calibration: Path | str | Literal[False] | None = None,
    progress: Progress = _silent,
) -> Result:
    """Score a run folder again from its stored replies: no model, no GPU; the function behind ``gpueval rescore``.

    Args:
        folder: Run folder.
        metrics: Metric names; empty takes the run's own. Their judgments must have been asked.
        threshold: Another threshold; None takes the run's own.
        calibration: File of ``gpueval calibrate``; None takes the run's own, if it has one, False takes none.
        progress: Called with round, done and total.

    Raises:
        UsageError: The folder is no run folder, a metric needs judgments that the run did not ask, or the calibration
            was made for something else.
    """
    folder = Path(folder)
    facts = read_run(folder)
    settings = facts["settings"]
    asked = choose(facts["metrics_asked"])
    # Of a metric that is at times decided without judgments, not every judgment has been asked.
    judged = {need for metric in asked if metric.decided is None for need in metric.needs}
    chosen = choose(metrics or settings["metrics"])
    if not (folder / "judgments.sqlite").is_file():
        raise UsageError(f"{folder} has no judgments.sqlite: its replies are gone.", "Copy the whole run folder.")
    for metric in chosen:
        if metric not in asked and (lacking := set(metric.needs) - judged):
            raise UsageError(
                f"{metric.name} needs judgments that this run did not ask ({', '.join(sorted(lacking))}).",
                f"Ask them with: gpueval run ... --metrics {metric.name} --out {folder}",
            )
    config = replace(
        RunConfig(settings["judge"], settings["embedder"], tuple(metric.name for metric in chosen)),
        claims=settings["claims"],
        threshold=threshold if threshold is not None else settings["threshold"],
    )
    with locked(folder), Store(folder / "judgments.sqlite") as store:
        if facts["prompts_version"] != prompts.VERSION:
            raise UsageError(
                f"The run was judged with prompts of version {facts['prompts_version']}; these are {prompts.VERSION}.",
                "Rescore it with the gpueval version that made it, or run it again.",
            )
        judge = facts["judge"]
        reader = StoredReader(store, judge.get("fingerprint", ""), judge.get("max_prompt_tokens", 8192), None)
        bench = _bench(store, reader, config, facts, progress)
        own = facts.get("calibration") if calibration is None else None
        calibrated = msgspec.convert(own, Calibration) if own else None
        if calibration:
            calibrated = record.read(Path(calibration))
        facts["settings"]["metrics"] = list(config.metrics)
        if not own or (calibrated and calibrated.metrics.keys() & set(config.metrics)):
            _take(calibrated, facts)  # else the run's own is kept while other metrics are looked at
        warned = facts.get("data_warnings", {})
        drawing = Drawing(chosen, asked=_asked_of(chosen, asked, facts.get("asked", {})))
        _drop_results(folder)
        result = score_folder(folder, chosen, bench, config.window_samples, warned, calibrated, drawing)
        facts["settings"]["threshold"] = config.threshold
        write_json(folder / "run.json", facts)
        write_run_reports(folder)
        return result


def _drop_results(folder: Path, *more: str) -> None:
    """Remove what was made of earlier scores."""
    for name in ("report.md", "report.html", "diagnosis.json", "ablation.json", *more):
        (folder / name).unlink(missing_ok=True)


def _bench(
    store: Store, reader: StoredReader, config: RunConfig, facts: Mapping[str, Any], progress: Progress
) -> Bench:
    """Set the rounds up as ``run.json`` says, reading from the store only; a live run adds its engines."""
    checker = facts.get("checker") or {}
    return Bench(
        store,
        reader,
        Keys(*((facts.get(name) or {}).get("fingerprint", "") for name in ("judge", "embedder", "checker"))),
        judge=None,
        embedder=None,
        check=bool(checker),
        band=tuple(checker["band"]) if checker.get("band") else None,
        extract=config.claims == "llm",
        threshold=config.threshold,
        align=facts.get("evidence") == "tokens",
        guard=not facts["settings"].get("keep_instructions", False),
        progress=progress,
    )


def _asked_of(chosen: Sequence[Metric], asked: Sequence[Metric], drawn: Mapping[str, int]) -> dict[str, int]:
    """Return how many of the first samples hold the judgments of each metric, where not all of them do."""
    found = {}
    for metric in chosen:
        of_need = [[drawn.get(other.name) for other in asked if need in other.needs] for need in metric.needs]
        ends = [max(n for n in ns if n is not None) for ns in of_need if ns and None not in ns]
        if metric.name in drawn:
            found[metric.name] = drawn[metric.name]
        elif ends:
            found[metric.name] = min(ends)
    return found


def _take(calibration: Calibration | None, facts: dict[str, Any]) -> None:
    """Check that a calibration fits a run and note it there."""
    if calibration:
        record.check(calibration, facts, facts["settings"]["metrics"])
    facts["calibration"] = msgspec.to_builtins(calibration)


def _incoming(samples: Path | str | Iterable[Sample | Mapping[str, Any]], columns: Columns) -> Iterator[Sample]:
    if isinstance(samples, str | Path):
        yield from load(Path(samples), columns)
        return
    seen: set[bytes] = set()
    for number, item in enumerate(samples, start=1):
        sample = item if isinstance(item, Sample) else to_sample(item, columns, file="samples", line=number)
        key = text_digest(sample.id)
        if key in seen:
            raise DataError(f"id '{sample.id}' is used twice", file="samples", line=number, field="id")
        seen.add(key)
        yield sample
    if not seen:
        raise DataError("there are no samples", file="samples")


def _runs_on_vllm(config: RunConfig) -> bool:
    """Whether the judge is a folder that vLLM loads in this process."""
    return (
        config.engine in (None, "vllm")
        and not is_server(config.judge)
        and not str(config.judge).startswith("scripted:")
    )


def _planned(config: RunConfig, folder: Path, n_samples: int, metrics: Sequence[Metric]) -> tuple[Plan | None, str]:
    """Plan the launch; a folder that sizing cannot read is left to the engine, and the reason is kept."""
    judge = str(engines.model_folder(str(config.judge)))
    try:
        spec = load_model(judge)
    except GpuevalError as error:
        return None, error.message
    samples = read_samples(folder / "samples.jsonl")
    return launch.preflight(spec, config, samples, n_samples, metrics, cluster.hardware_for(config)), ""


def _judge(judge: str | Engine | None, config: RunConfig, plan: Plan | None, log: Path, replicas: int) -> Engine:
    if judge is None:
        raise UsageError("These metrics need a judge.", "Give a local model folder or a server URL with --judge.")
    if isinstance(judge, str):
        options = (plan.engine_options() if plan else {}) | config.engine_options
        if config.ray or replicas > 1:
            return cluster.start_judges(config, options, plan, replicas)
        return engines.start(judge, engine=config.engine, options=options, log=log)
    return judge


def _embedder(
    embedder: str | Embedder | None, config: RunConfig, log: Path, plan: Plan | None, replicas: int
) -> Embedder:
    if embedder is None:
        raise UsageError(
            "These metrics compare meanings and need an embedding model.",
            "Give a sentence-transformers folder with --embedder, or choose metrics without answer_relevancy, "
            "answer_correctness, semantic_similarity and bertscore.",
        )
    if isinstance(embedder, str):
        if config.ray or replicas > 1:
            return cluster.start_embedders(config, plan, replicas)
        return engines.start_embedder(embedder, config.embed_device, log)
    return embedder


def _checker(checker: str | Embedder | None, config: RunConfig, log: Path) -> Embedder:
    if isinstance(checker, str):
        return engines.start_checker(checker, sentences, config.checker_format, config.embed_device, log)
    assert checker is not None
    return checker


def _facts(config: RunConfig, engine: Engine | None, embed: Embedder | None, n_samples: int) -> dict[str, Any]:
    judge = dict(engine.facts()) | {"max_prompt_tokens": engine.max_prompt_tokens} if engine else {}
    settings = asdict(config)
    return {
        "gpueval_version": importlib.metadata.version("gpueval"),
        "python_version": platform.python_version(),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "prompts_version": prompts.VERSION,
        "settings": settings | {"metrics": list(config.metrics)},
        "judge": judge,
        "embedder": dict(embed.facts()) if embed else {},
        "n_samples": n_samples,
        "finished": False,
    }
