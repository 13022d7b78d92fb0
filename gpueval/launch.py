"""Sizing joined to engines: what a run asks, whether the judge fits, how to start it, and what it really got."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from gpueval.config import RunConfig
from gpueval.data.columns import Columns
from gpueval.data.load import load as load_samples
from gpueval.engines.counting import Counting
from gpueval.errors import DoesNotFit, GpuevalError
from gpueval.judge.plan import Keys
from gpueval.judge.reader import StoredReader
from gpueval.judge.run import Bench, Tally, judge_window
from gpueval.judge.store import Store
from gpueval.metrics import DEFAULT, Metric, choose
from gpueval.records import Sample
from gpueval.sizing import actuals
from gpueval.sizing.hardware import Hardware
from gpueval.sizing.memory import DEFAULT_UTILISATION
from gpueval.sizing.model import ModelSpec, load_model
from gpueval.sizing.plan import Plan, Workload
from gpueval.sizing.questions import digest_of, does_not_fit, plan
from gpueval.units import GIB

_COUNTED_SAMPLES = 256
"""Samples whose requests are counted; the rest are taken to be like them."""

_EMBEDDER_OVERHEAD_BYTES = GIB // 2
_SHORTEST_MEASURE_S = 30.0
"""A shorter run measures the engine's start, not its rate."""


def workload(samples: Iterable[Sample], metrics: Sequence[Metric], *, extract: bool = False) -> Workload:
    """Count what judging samples takes, by planning their requests without a model; token counts are estimates."""
    counter = Counting()
    some = list(islice(samples, _COUNTED_SAMPLES))
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "counted.sqlite") as store:
        reader = StoredReader(store, counter.fingerprint, counter.max_prompt_tokens, counter.count_tokens)
        judged = [metric for metric in metrics if metric.needs]
        judge_window(some, judged, Bench(store, reader, Keys("", ""), counter, Counting(), extract=extract))
    return Workload(
        len(some),
        counter.requests,
        counter.prompt_tokens,
        counter.cached_tokens,
        counter.output_tokens,
        counter.longest_tokens,
    )


def workload_of_file(path: Path, metrics: Sequence[str] = DEFAULT, columns: Columns | None = None) -> Workload:
    """Count a file's requests; the number of samples is the file's.

    Raises:
        DataError: The file is wrong.
    """
    n = 0

    def counted() -> Iterable[Sample]:
        nonlocal n
        for sample in load_samples(path, columns or Columns()):
            n += 1
            yield sample

    rows = iter(counted())
    found = workload(rows, choose(metrics))
    for _ in rows:
        pass
    return found.scaled(n)


def preflight(
    model: ModelSpec,
    config: RunConfig,
    samples: Iterable[Sample],
    n_samples: int,
    metrics: Sequence[Metric],
    hardware: Hardware | None = None,
) -> Plan:
    """Plan the launch of a run's judge on this machine, or on what a replica of it gets.

    Raises:
        DoesNotFit: The message says what would.
        UsageError: The wished number of devices does not go with the model.
    """
    options = config.engine_options
    work = workload(samples, metrics, extract=config.claims == "llm").scaled(n_samples)
    found = plan(
        model,
        hardware=hardware,
        work=work,
        context_tokens=options.get("max_model_len"),
        utilisation=options.get("memory_fraction") or DEFAULT_UTILISATION,
        kv_dtype=options.get("kv_dtype") or "auto",
        tensor_parallel=options.get("tensor_parallel"),
        reserved_bytes=_embedder_bytes(config),
    )
    if not found.fits and not config.force:
        raise DoesNotFit(does_not_fit(found), "--force starts it all the same.")
    return found


def actual(
    found: Plan, facts: Mapping[str, Any], tally: Tally, log: Mapping[str, float], replicas: int = 1
) -> dict[str, Any]:
    """Put together what an engine really got and how fast it went.

    Args:
        found: The plan behind the launch.
        facts: The engine's facts after the run.
        tally: What the run asked, and how long the judge took.
        log: What vLLM's start-up log reports.
        replicas: Engines that shared the work.

    Returns:
        Memory as vLLM reports it, and the measured rate over the predicted one.
    """
    sizing = found.sizing
    layout, blocks = sizing.memory.layout, facts.get("kv_cache_blocks")
    seen: dict[str, Any] = dict(log)
    seen |= {key: facts[key] for key in ("kv_cache_blocks", "kv_cache_tokens", "max_concurrency") if facts.get(key)}
    if layout and blocks:
        seen["kv_cache_bytes"] = blocks * layout.bytes_per_block
        seen["predicted_kv_cache_tokens"] = int(
            layout.concurrency(blocks, facts["max_model_len"], 2 * sizing.load.batch_tokens) * facts["max_model_len"]
        )
    if sizing.engine == "vllm" and {"weights_bytes", "kv_cache_bytes"} <= set(seen) and sizing.memory.available:
        seen["overhead_bytes"] = sizing.memory.available - seen["weights_bytes"] - seen["kv_cache_bytes"]
    computed = tally.prompt_tokens - tally.cached_tokens
    seen |= {
        "judge_s": round(tally.judge_s, 3),
        "computed_prompt_tokens": computed,
        "output_tokens": tally.output_tokens,
    }
    if sizing.prefill and sizing.decode:
        predicted = (computed / sizing.prefill.mid + tally.output_tokens / sizing.decode.mid) / replicas
        seen["predicted_judge_s"] = round(predicted / (found.speed_ratio or 1.0), 3)
        if tally.judge_s > _SHORTEST_MEASURE_S:
            seen["speed_ratio"] = predicted / tally.judge_s
    return seen


def remember(found: Plan, facts: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    """Keep predicted and actual for the next launch of this model on this machine."""
    sizing = found.sizing
    memory = sizing.memory
    actuals.remember(
        {
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "device": sizing.device.name,
            "engine": sizing.engine,
            "engine_version": facts.get("engine_version"),
            "model_digest": digest_of(sizing.model),
            "model": Path(sizing.model.name).name,
            "ranks": sizing.load.ranks,
            "batch_tokens": sizing.load.batch_tokens,
            "predicted": {
                "weights_bytes": memory.weights,
                "overhead_bytes": memory.overhead_total.mid,
                "kv_cache_bytes": memory.kv_available.mid if memory.kv_available else None,
            },
            "actual": dict(seen),
        }
    )


def _embedder_bytes(config: RunConfig) -> int:
    if not config.embedder or config.embed_device == "cpu":
        return 0
    try:
        return load_model(config.embedder).weight_bytes + _EMBEDDER_OVERHEAD_BYTES
    except GpuevalError:  # an embedder that sizing cannot read is the embedder's business, not the judge's
        return 2 * GIB
