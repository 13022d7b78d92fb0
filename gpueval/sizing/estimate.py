"""The answer of ``gpueval size``: one model, one machine, one load."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from gpueval.errors import UsageError
from gpueval.sizing import memory, throughput
from gpueval.sizing.actuals import Prior, no_prior
from gpueval.sizing.hardware.apple import default_limit
from gpueval.sizing.hardware.device import Device, Hardware
from gpueval.sizing.memory import EngineName, Load, MemoryEstimate
from gpueval.sizing.model import ModelSpec
from gpueval.sizing.throughput import Speed
from gpueval.units import GIB

_CPU_MARGIN_BYTES = GIB
_LLAMA_CPP_MARGIN_BYTES = GIB
"""llama.cpp leaves this much per device (``common/fit.cpp``)."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """A model under a load on a machine.

    Attributes:
        model: The model.
        hardware: The machine.
        device: The device of one rank: with several, the smallest that is used.
        engine: Engine whose rules apply.
        load: The work.
        memory: One rank's memory.
        decode: Decode rate of the whole batch; None where the bandwidth is unknown.
        prefill: Prompt rate; None where the arithmetic rate is unknown.
        notes: Remarks.
    """

    model: ModelSpec
    hardware: Hardware
    device: Device
    engine: EngineName
    load: Load
    memory: MemoryEstimate
    decode: Speed | None
    prefill: Speed | None
    notes: tuple[str, ...]

    @property
    def fits(self) -> str:
        """``yes``, ``tight``, ``no`` or ``unknown``."""
        return self.memory.fits

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON of ``gpueval size --json``; bytes are those of one rank."""
        found = self.memory
        fixed = ("low", "mid", "high")
        return {
            "model": {
                "name": self.model.name,
                "source": self.model.source,
                "format": self.model.format,
                "exact_weights": self.model.exact,
                "parameters": self.model.parameters,
                "active_parameters": round(self.model.active_parameters),
                "max_context_tokens": self.model.shape.max_context,
            },
            "hardware": {
                "name": self.hardware.name,
                "kind": self.device.kind,
                "device": self.device.name,
                "bandwidth_bytes_per_s": self.device.bandwidth_bytes_per_s,
                "sources": self.device.sources,
            },
            "engine": self.engine,
            "load": asdict(self.load),
            "weights_bytes": found.weights,
            "kv_bytes_per_token": found.kv_per_token,
            "kv_bytes_per_sequence_fixed": round(found.kv_per_sequence_fixed),
            "kv_cache_bytes": found.kv_cache,
            "overhead_bytes": {key: round(getattr(found.overhead_total, key)) for key in fixed},
            "overhead_terms_bytes": {
                name: {key: round(getattr(term, key)) for key in fixed} for name, term in found.overhead.items()
            },
            "total_bytes": {key: round(getattr(found.total, key)) for key in fixed},
            "available_bytes": found.available,
            "fits": found.fits,
            "max_context_tokens": found.max_context_tokens,
            "max_concurrency": round(found.max_concurrency, 2),
            "decode_tokens_per_s": asdict(self.decode) if self.decode else None,
            "prefill_tokens_per_s": asdict(self.prefill) if self.prefill else None,
            "notes": list(self.notes),
        }


def size(
    model: ModelSpec,
    hardware: Hardware,
    load: Load,
    engine: EngineName | None = None,
    prior: Prior | None = None,
) -> Sizing:
    """Size a model on a machine.

    Args:
        model: The model.
        hardware: The machine.
        load: The work; ``load.ranks`` devices are used.
        engine: None takes vLLM on NVIDIA and on processors, llama.cpp's rules elsewhere and for GGUF files.
        prior: What earlier launches on this machine showed.

    Raises:
        UsageError: The ranks do not divide the model's heads, or there are not so many devices.
    """
    chosen = engine or default_engine(model, hardware)
    seen = prior or no_prior()
    notes = [*hardware.notes, *model.approximations]
    if load.ranks > len(hardware.devices):
        raise UsageError(f"Tensor parallelism over {load.ranks} devices; there are {len(hardware.devices)}.")
    if not model.splits_over(load.ranks):
        raise UsageError(
            f"{model.name} does not divide over {load.ranks} devices: its {model.shape.heads} attention heads, "
            "its KV heads and its feed-forward width must."
        )
    if load.ranks > 1 and any(device.details.get("mig") for device in hardware.devices):
        raise UsageError("A process sees one MIG slice: tensor parallelism needs whole GPUs.")
    if chosen.startswith("vllm"):
        model = model.in_16_bit()
    device = min(hardware.devices[: load.ranks], key=lambda d: d.memory_free_bytes or 0)
    available, remarks = available_bytes(device, chosen, load.utilisation)
    notes += remarks
    found = memory.estimate(model, load, chosen, available, seen.overhead_bytes.get((load.ranks, load.batch_tokens)))
    limit = model.shape.max_context
    if limit and load.context_tokens > limit:
        notes.append(f"the model's own limit is {limit:,} tokens; {load.context_tokens:,} were asked")
    if not model.layers:
        notes.append("an encoder: it keeps no cache and generates nothing")
    if seen.launches:
        notes.append(f"{seen.launches} earlier launch(es) on this machine are taken into account")
    decoding = throughput.decode(model, device, chosen, load) if model.layers else None
    return Sizing(
        model,
        hardware,
        device,
        chosen,
        load,
        found,
        decoding,
        throughput.prefill(model, device, chosen, load),
        tuple(dict.fromkeys(notes)),
    )


def default_engine(model: ModelSpec, hardware: Hardware) -> EngineName:
    """Return vLLM where it runs and the weights are not a GGUF mixture, else the rules of llama.cpp."""
    if (
        model.source.startswith("GGUF")
        or "_k" in model.format
        or model.format in ("q8_0", "q4_0", "q5_0", "q4_1", "iq4_nl", "iq4_xs")
    ):
        return "llama.cpp"
    return {"nvidia": "vllm", "cpu": "vllm-cpu"}.get(hardware.kind, "llama.cpp")  # type: ignore[return-value]


def available_bytes(device: Device, engine: EngineName, utilisation: float) -> tuple[int | None, list[str]]:
    """What an engine may take on a device, and what to say about it."""
    total, free = device.memory_total_bytes, device.memory_free_bytes
    if total is None:
        return None, [f"{device.name}: its memory cannot be read, so nothing can be said about fitting"]
    free = total if free is None else free
    notes = []
    if device.kind == "apple" and device.sources.get("memory_total_bytes") == "table":
        whole, total = total, default_limit(total)
        free = min(free, total)
        notes = [
            f"macOS lets the GPU wire {total / GIB:.0f} of {whole / GIB:.0f} GB unless iogpu.wired_limit_mb is raised"
        ]
    if engine == "vllm":
        asked = int(total * utilisation)
        if asked <= free:
            return asked, notes
        share = max(0.0, (free - GIB // 4) / total)
        return int(total * share), [
            *notes,
            f"{free / GIB:.1f} of {total / GIB:.1f} GiB are free: vLLM takes a utilisation of at most {share:.2f}",
        ]
    if engine == "vllm-cpu":
        return max(0, free - _CPU_MARGIN_BYTES), []
    if device.kind == "nvidia" or device.kind == "amd":
        return max(0, free - _LLAMA_CPP_MARGIN_BYTES), []
    return free, notes


def size_on(
    model: ModelSpec,
    hardware: Hardware,
    load: Load,
    ranks: int | None,
    engine: EngineName | None,
    prior: Prior | None,
) -> Sizing:
    """Size with so many ranks, or (None) with the fewest that fit; where none does, with the most the heads allow."""
    if ranks:
        return size(model, hardware, replace(load, ranks=ranks), engine, prior)
    best: Sizing | None = None
    for ranks in range(1, len(hardware.devices) + 1):
        if not model.splits_over(ranks) or (ranks > 1 and hardware.devices[0].details.get("mig")):
            continue
        if len({device.name for device in hardware.devices[:ranks]}) > 1:
            continue
        best = size(model, hardware, replace(load, ranks=ranks), engine, prior)
        if best.fits in ("yes", "unknown"):
            return best
    assert best is not None  # one rank always divides
    return best
