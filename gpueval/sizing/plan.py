"""From a sizing to vLLM's arguments, and to what would fit when it does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from gpueval.errors import UsageError
from gpueval.sizing.actuals import Prior
from gpueval.sizing.alternatives import Alternative, alternatives
from gpueval.sizing.estimate import Sizing, size, size_on
from gpueval.sizing.hardware.device import Hardware
from gpueval.sizing.memory import DEFAULT_UTILISATION, EngineName, Load, Range
from gpueval.sizing.model import ModelSpec
from gpueval.sizing.throughput import job_seconds
from gpueval.units import GIB

_MOST_SEQUENCES = 256
_VLLM_KV = {
    "auto": "auto",
    "fp8": "fp8",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
    "bf16": "bfloat16",
    "fp16": "float16",
}
"""Formats of the KV cache that vLLM has, under its names."""
_USUAL_TOKENS = 512
"""Mean length of a request where no workload is given."""

_BATCH_TOKENS = 8192
_CPU_BATCH_TOKENS = 4096
_PREFERRED_CONTEXT = 8192


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run asks of its judge, counted from its samples.

    Attributes:
        samples: Samples.
        requests: Requests to the judge.
        prompt_tokens: Prompt tokens of all requests.
        cached_tokens: Prompt tokens that requests share with the one before them.
        output_tokens: Reply tokens.
        longest_tokens: Longest prompt with its reply.
    """

    samples: int
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    longest_tokens: int

    def scaled(self, samples: int) -> Workload:
        """The same kind of work for another number of samples."""
        factor = samples / max(1, self.samples)
        return Workload(
            samples,
            round(self.requests * factor),
            round(self.prompt_tokens * factor),
            round(self.cached_tokens * factor),
            round(self.output_tokens * factor),
            self.longest_tokens,
        )

    @property
    def mean_tokens(self) -> float:
        """Mean length of a request."""
        return (self.prompt_tokens + self.output_tokens) / max(1, self.requests)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to launch a judge.

    Attributes:
        sizing: The sizing behind it.
        arguments: vLLM's arguments by name; empty for another engine.
        seconds: Time of the workload; None without one or without known rates.
        alternatives: What would fit, best first; empty when the plan does.
        notes: Remarks.
        speed_ratio: Speed of earlier runs over the predicted one that ``seconds`` rests on; None without any.
    """

    sizing: Sizing
    arguments: dict[str, Any]
    seconds: Range | None
    alternatives: tuple[Alternative, ...]
    notes: tuple[str, ...]
    speed_ratio: float | None = None

    @property
    def fits(self) -> bool:
        """Whether it can be launched."""
        return self.sizing.fits != "no"

    def engine_options(self) -> dict[str, Any]:
        """The arguments under the names that gpueval's engine takes."""
        names = {
            "gpu_memory_utilization": "memory_fraction",
            "kv_cache_dtype": "kv_dtype",
            "tensor_parallel_size": "tensor_parallel",
        }
        return {names.get(name, name): value for name, value in self.arguments.items()}

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``gpueval plan --json``."""
        seconds = self.seconds
        return self.sizing.to_dict() | {
            "arguments": self.arguments,
            "seconds": {"low": seconds.low, "mid": seconds.mid, "high": seconds.high} if seconds else None,
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
            "notes": list(self.notes),
        }


def make_plan(
    model: ModelSpec,
    hardware: Hardware,
    *,
    workload: Workload | None = None,
    context_tokens: int | None = None,
    utilisation: float = DEFAULT_UTILISATION,
    kv_dtype: str = "auto",
    ranks: int | None = None,
    engine: EngineName | None = None,
    prior: Prior | None = None,
) -> Plan:
    """Choose how to launch a judge.

    The context stays at min(8192, the model's limit) unless told, because it decides how long documents are cut into
    windows and so belongs to the question, not to the machine. Sequences at once: as many as the cache holds at the
    run's mean length, at most 256.

    Args:
        model: The judge.
        hardware: The machine.
        workload: What the run asks; None plans for the context alone.
        context_tokens: Longest sequence.
        utilisation: Share of a GPU's memory.
        kv_dtype: Format of the KV cache.
        ranks: Tensor-parallel ranks; None takes the fewest that fit.
        engine: Engine; None follows from model and hardware.
        prior: What earlier launches on this machine showed.

    Raises:
        UsageError: ``ranks`` does not go with the model or the machine.
    """
    cpu = hardware.kind == "cpu"
    context = context_tokens or min(_PREFERRED_CONTEXT, model.shape.max_context or _PREFERRED_CONTEXT)
    load = Load(
        context_tokens=context,
        kv_dtype=kv_dtype,
        utilisation=utilisation,
        batch_tokens=min(_CPU_BATCH_TOKENS if cpu else _BATCH_TOKENS, max(context, 2048)),
        block_tokens=32 if cpu else 16,
        graphs=not cpu,
    )
    one = size_on(model, hardware, load, ranks, engine, prior)
    mean = round(workload.mean_tokens) if workload else min(context, _USUAL_TOKENS)
    seqs = sequences(one, mean)
    busy = size(
        model,
        hardware,
        replace(one.load, concurrency=seqs or 1, context_tokens=min(context, max(1, mean * 2))),
        one.engine,
        prior,
    )
    chosen = replace(one, decode=busy.decode, prefill=busy.prefill)
    notes = list(one.notes)
    if workload and workload.longest_tokens > context:
        notes.append(
            f"the longest prompt is about {workload.longest_tokens:,} tokens and the context {context:,}: "
            "long documents will be read in windows"
        )
    seconds = None
    if workload and chosen.decode and chosen.prefill:
        computed = workload.prompt_tokens - workload.cached_tokens
        seconds = job_seconds(computed, workload.output_tokens, chosen.prefill, chosen.decode)
        if prior and prior.speed_ratio:
            mid = seconds.mid / prior.speed_ratio
            seconds = Range(0.85 * mid, mid, 1.2 * mid)
            notes.append("the time rests on earlier runs on this machine")
        reading, writing = computed / chosen.prefill.mid, workload.output_tokens / chosen.decode.mid
        if reading > 2 * writing:
            notes.append(
                f"prefill-bound: reading prompts takes {reading / max(1e-9, reading + writing):.0%} of the time"
            )
    arguments = _arguments(chosen, seqs, mean)
    ratio = prior.speed_ratio if prior else None
    options = (
        tuple(alternatives(chosen, workload.longest_tokens if workload else 0, prior)) if chosen.fits == "no" else ()
    )
    return Plan(chosen, arguments, seconds, options, tuple(dict.fromkeys(notes)), ratio)


def sequences(sizing: Sizing, mean_tokens: int) -> int | None:
    """Sequences of the mean length that the cache holds at once, at most 256; None where memory is unknown."""
    found = sizing.memory
    if found.kv_available is None:
        return None
    if found.layout is None:
        return max(1, min(_MOST_SEQUENCES, int(found.max_concurrency)))
    each = found.layout.blocks_per_sequence(max(1, mean_tokens), mean_tokens)
    return max(1, min(_MOST_SEQUENCES, found.layout.blocks(max(0.0, found.kv_available.mid)) // max(1, each)))


def _arguments(sizing: Sizing, seqs: int | None, mean_tokens: int) -> dict[str, Any]:
    load, device = sizing.load, sizing.device
    if sizing.engine == "llama.cpp":
        return {}
    if load.kv_dtype not in _VLLM_KV:
        raise UsageError(f"vLLM has no KV cache of format '{load.kv_dtype}'.", f"It has: {', '.join(_VLLM_KV)}")
    found: dict[str, Any] = {"max_model_len": load.context_tokens}
    if seqs is not None:
        found["max_num_seqs"] = seqs
    found |= {
        "max_num_batched_tokens": load.batch_tokens,
        "kv_cache_dtype": _VLLM_KV[load.kv_dtype],
        "dtype": _dtype(sizing),
    }
    if sizing.engine == "vllm-cpu":
        return found | {"kv_cache_gib": cpu_cache_gib(sizing, seqs or 1, mean_tokens)}
    share = load.utilisation
    if device.memory_free_bytes is not None and device.memory_total_bytes:
        share = min(share, max(0.05, (device.memory_free_bytes - GIB // 4) / device.memory_total_bytes))
    return found | {"gpu_memory_utilization": int(share * 1000) / 1000, "tensor_parallel_size": load.ranks}


def _dtype(sizing: Sizing) -> str:
    """float16 below compute capability 8.0, where vLLM refuses bfloat16; elsewhere vLLM's own choice."""
    return "float16" if 0 < sizing.device.capability < 8.0 else "auto"


def cpu_cache_gib(sizing: Sizing, seqs: int, mean_tokens: int) -> int:
    """Whole GiB of cache for the CPU engine: at least for one sequence of full length, better for all at once, but no
    more than half of what is left.
    """
    found = sizing.memory
    least = found.kv_cache / GIB
    wanted = least * (1 + seqs * mean_tokens / sizing.load.context_tokens)
    left = found.kv_available.mid / GIB if found.kv_available else 8.0
    return max(1, ceil(least), min(int(wanted) + 1, int(left / 2)))
