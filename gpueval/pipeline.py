"""The one module that joins all rooms: samples to judgments to cells to a run folder.

A run folder holds ``samples.jsonl`` (what was scored), ``judgments.sqlite`` (every reply), ``scores.jsonl``,
``summary.json``, ``report.md`` and ``run.json``. Kill the process anywhere: the same call goes on, because every reply
is in the store under a key of its content. :func:`rescore` reads the folder without a model.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpueval import engines, launch
from gpueval.calibration import apply, record
from gpueval.calibration.record import Calibration, MetricCalibration
from gpueval.config import RunConfig
from gpueval.data.columns import Columns, to_sample
from gpueval.data.load import load
from gpueval.engines.base import Embedder, Engine
from gpueval.errors import DataError, GpuevalError, UsageError
from gpueval.fingerprint import text_digest
from gpueval.judge import prompts
from gpueval.judge.injection import suspicions
from gpueval.judge.plan import Keys
from gpueval.judge.reader import StoredReader
from gpueval.judge.run import ALIGNED, BY_EMBEDDER_ALONE, SIMILAR, Bench, Progress, judge_window
from gpueval.judge.store import Store
from gpueval.metrics import DEFAULT, Metric, choose, score
from gpueval.metrics.base import NOISE
from gpueval.metrics.baselines import load_libraries
from gpueval.records import Cell, Judgments, Sample, Summary
from gpueval.report.markdown import markdown
from gpueval.run_folder import (
    locked,
    pretty_json,
    read_run,
    sample_windows,
    write_atomically,
    write_json,
    write_samples,
)
from gpueval.sizing.actuals import read_log
from gpueval.sizing.model import load_model
from gpueval.sizing.plan import Plan
from gpueval.stats.aggregate import Table

_DOUBTFUL_LABEL_MASS = 0.8


def _silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to.

    Attributes:
        metrics: Summary per metric.
        groups: Summaries per group and metric.
        warnings: Remarks on data and results.
        folder: The run folder.
    """

    metrics: dict[str, Summary]
    groups: dict[str, dict[str, Summary]]
    warnings: list[str]
    folder: Path

    def to_json(self) -> bytes:
        """Return what ``summary.json`` holds."""
        body = {"metrics": self.metrics, "groups": self.groups, "warnings": self.warnings}
        return pretty_json(body)

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of ``scores.jsonl``."""
        with (self.folder / "scores.jsonl").open("rb") as file:
            for line in file:
                yield msgspec.json.decode(line)

    def to_pandas(self) -> Any:
        """Return one row per sample with a value and a state column per metric; needs pandas."""
        import pandas

        rows = []
        for line in self.cells():
            row: dict[str, Any] = {"id": line["id"]}
            for name, cell in line["scores"].items():
                row |= {name: cell["value"], f"{name}_state": cell["state"]}
            rows.append(row)
        return pandas.DataFrame(rows)


def evaluate(
    samples: Path | str | Iterable[Sample | Mapping[str, Any]],
    *,
    judge: str | Engine | None = None,
    embedder: str | Embedder | None = None,
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
        **settings,
    )
    chosen = choose(config.metrics)
    calibrated = record.read(Path(calibration)) if calibration else None
    folder = Path(out)
    with locked(folder):
        began = time.time()
        mapping = columns or Columns()
        n_samples = write_samples(folder / "samples.jsonl", _incoming(samples, mapping))
        for stale in ("summary.json", "report.md", "scores.jsonl"):  # a gate must not pass on an earlier result
            (folder / stale).unlink(missing_ok=True)
        needs = {need for metric in chosen for need in metric.needs}
        with ExitStack() as stack:
            engine: Engine | None = None
            embed: Embedder | None = None
            plan: Plan | None = None
            unsized = "no local judge on vLLM"
            store = stack.enter_context(Store(folder / "judgments.sqlite"))
            if needs - BY_EMBEDDER_ALONE and isinstance(judge, str) and _runs_on_vllm(config):
                plan, unsized = _planned(config, folder, n_samples, chosen)
            if needs & SIMILAR or (embedder is not None and needs & ALIGNED):
                embed = _embedder(embedder, config, folder / "engine.log")
                if embed is not embedder:  # what the caller started stays the caller's
                    stack.callback(embed.close)
            if needs - BY_EMBEDDER_ALONE:
                engine = _judge(judge, config, plan, folder / "engine.log")
                if engine is not judge:
                    stack.callback(engine.close)
            facts = _facts(config, engine, embed, n_samples)
            facts["metrics_asked"] = list(config.metrics)
            facts["evidence"] = "tokens" if embed else "words"
            facts["sizing"] = {"predicted": plan.to_dict()} if plan else {"not_sized": unsized}
            _take(calibrated, facts)
            write_json(folder / "run.json", facts)
            started = time.time()
            keys = Keys(facts["judge"].get("fingerprint", ""), facts["embedder"].get("fingerprint", ""))
            reader = StoredReader(
                store,
                facts["judge"].get("fingerprint", ""),
                engine.max_prompt_tokens if engine else 8192,
                engine.count_tokens if engine else None,
            )
            bench = Bench(store, reader, keys, engine, embed, config.claims == "llm", config.threshold)
            bench.progress, bench.align = progress, embed is not None
            result = _score(folder, chosen, bench, config.window_samples, dict(mapping.warnings), calibrated)
            facts["timing_s"] = {"start": started - began, "judge_and_score": time.time() - started}
            facts["samples_per_s"] = n_samples / max(1e-9, time.time() - started)
            facts["requests"] = asdict(bench.tally) | {"mean_label_mass": bench.tally.mean_label_mass}
            facts["judge"] |= dict(engine.facts()) if engine else {}
            facts["embedder"] |= dict(embed.facts()) if embed else {}
            facts["data_warnings"] = dict(mapping.warnings)
            if plan and engine:
                seen = launch.actual(plan, facts["judge"], bench.tally, read_log(folder / "engine.log"))
                facts["sizing"]["actual"] = seen
                launch.remember(plan, facts["judge"], seen)
            facts["finished"] = True
            write_json(folder / "run.json", facts)
        (folder / "report.md").write_text(markdown(result.metrics, result.groups, result.warnings, facts))
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
        keys = Keys(facts["judge"].get("fingerprint", ""), facts["embedder"].get("fingerprint", ""))
        judge = facts["judge"]
        reader = StoredReader(store, judge.get("fingerprint", ""), judge.get("max_prompt_tokens", 8192), None)
        bench = Bench(store, reader, keys, None, None, config.claims == "llm", config.threshold)
        bench.progress, bench.align = progress, facts.get("evidence") == "tokens"
        own = facts.get("calibration") if calibration is None else None
        calibrated = msgspec.convert(own, Calibration) if own else None
        if calibration:
            calibrated = record.read(Path(calibration))
        facts["settings"]["metrics"] = list(config.metrics)
        _take(calibrated, facts)
        result = _score(folder, chosen, bench, config.window_samples, facts.get("data_warnings", {}), calibrated)
        facts["settings"]["threshold"] = config.threshold
        write_json(folder / "run.json", facts)
        (folder / "report.md").write_text(markdown(result.metrics, result.groups, result.warnings, facts))
        return result


def _take(calibration: Calibration | None, facts: dict[str, Any]) -> None:
    """Check that a calibration fits a run and note it there."""
    if calibration:
        record.check(calibration, facts, facts["settings"]["metrics"])
    facts["calibration"] = msgspec.to_builtins(calibration)


def _score(
    folder: Path,
    metrics: Sequence[Metric],
    bench: Bench,
    window_samples: int,
    warnings: Mapping[str, int],
    calibration: Calibration | None,
) -> Result:
    load_libraries(metrics)
    of_metric = calibration.metrics if calibration else {}
    bench.sure_from = max([bench.threshold, *(one.threshold for one in of_metric.values() if one.unit == "claim")])
    table, encoder = Table(), msgspec.json.Encoder()
    partial = folder / "scores.jsonl.partial"
    n_done = n_unstable = n_suspicious = 0
    with (folder / "samples.jsonl").open("rb") as file:
        n_total = sum(1 for _ in file)
    with partial.open("wb") as file:
        for window in sample_windows(folder / "samples.jsonl", window_samples):
            for sample, judgments in zip(window, judge_window(window, metrics, bench), strict=True):
                cells = score_sample(sample, judgments, metrics, of_metric)
                table.add(cells, sample.group)
                line: dict[str, Any] = {"id": sample.id, "scores": _plain(cells)}
                if unstable := [name for name, cell in cells.items() if any("unstable" in c for c in cell.claims)]:
                    line["unstable"], n_unstable = unstable, n_unstable + 1
                if suspicious := suspicions(sample):
                    line["suspicious"], n_suspicious = suspicious, n_suspicious + 1
                file.write(encoder.encode(line) + b"\n")
            n_done += len(window)
            bench.progress("samples", n_done, n_total)
    partial.replace(folder / "scores.jsonl")
    remarks = [f"{count:,} x {text}" for text, count in warnings.items()]
    remarks += [f"{name}: {one.ruling} ({one.reason})" for name, one in of_metric.items() if name in cells]
    mass = bench.tally.mean_label_mass
    if mass is not None and mass < _DOUBTFUL_LABEL_MASS:
        remarks.append(
            f"the judge gives its labels only {mass:.2f} of its probability on average: it hardly follows, "
            "so take its verdicts with doubt and compare them with a few labels of your own"
        )
    if n_unstable:
        remarks.append(f"{n_unstable:,} samples are unstable: a verdict lies within {NOISE} of the threshold")
    if n_suspicious:
        remarks.append(f"{n_suspicious:,} samples hold text that speaks to the judge: 'suspicious' in scores.jsonl")
    cut = bench.embedder.facts().get("n_truncated", 0) if bench.embedder else 0
    if cut:
        remarks.append(f"{cut:,} texts were longer than the embedding model reads: what comes after counts nowhere")
    summed = table.result(remarks)
    result = Result(summed["metrics"], summed["groups"], summed["warnings"], folder)
    write_atomically(folder / "summary.json", result.to_json())
    return result


def score_sample(
    sample: Sample,
    judgments: Judgments,
    metrics: Sequence[Metric],
    calibration: Mapping[str, MetricCalibration] | None = None,
) -> dict[str, Cell]:
    """Score one sample whose judgments are known, each metric through its calibration where it has one."""
    cells: dict[str, Cell] = {}
    for metric in metrics:
        calibrated = (calibration or {}).get(metric.name)
        if calibrated is None:
            cells[metric.name] = score(metric, sample, judgments)
        elif calibrated.unit == "claim":
            cells[metric.name] = score(metric, sample, apply.judgments(judgments, calibrated))
        else:
            cells[metric.name] = apply.cell(score(metric, sample, judgments), calibrated)
    return cells


def _plain(cells: Mapping[str, Cell]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, cell in cells.items():
        body: dict[str, Any] = {"value": cell.value, "state": cell.state}
        if cell.low is not None:
            body |= {"low": cell.low, "high": cell.high}
        if cell.claims:
            body["claims"] = cell.claims
        found[name] = body | cell.detail
    return found


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
    return config.engine in (None, "vllm") and not str(config.judge).startswith(("http://", "https://", "scripted:"))


def _planned(config: RunConfig, folder: Path, n_samples: int, metrics: Sequence[Metric]) -> tuple[Plan | None, str]:
    """Plan the launch; a folder that sizing cannot read is left to the engine, and the reason is kept."""
    judge = str(engines.model_folder(str(config.judge)))
    try:
        spec = load_model(judge)
    except GpuevalError as error:
        return None, error.message
    samples = chain.from_iterable(sample_windows(folder / "samples.jsonl", 256))
    return launch.preflight(spec, config, samples, n_samples, metrics), ""


def _judge(judge: str | Engine | None, config: RunConfig, plan: Plan | None, log: Path) -> Engine:
    if judge is None:
        raise UsageError("These metrics need a judge.", "Give a local model folder or a server URL with --judge.")
    if isinstance(judge, str):
        options = (plan.engine_options() if plan else {}) | config.engine_options
        return engines.start(judge, engine=config.engine, options=options, log=log)
    return judge


def _embedder(embedder: str | Embedder | None, config: RunConfig, log: Path) -> Embedder:
    if embedder is None:
        raise UsageError(
            "These metrics compare meanings and need an embedding model.",
            "Give a sentence-transformers folder with --embedder, or choose metrics without answer_relevancy, "
            "answer_correctness, semantic_similarity and bertscore.",
        )
    if isinstance(embedder, str):
        return engines.start_embedder(embedder, config.embed_device, log)
    return embedder


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
