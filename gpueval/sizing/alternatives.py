"""What would fit when a model does not: a shorter context, another format, more devices, a smaller model, other
hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gpueval.errors import GpuevalError
from gpueval.sizing.actuals import Prior
from gpueval.sizing.estimate import Sizing, size
from gpueval.sizing.hardware import catalogue
from gpueval.sizing.hardware.device import Hardware
from gpueval.sizing.memory import Load
from gpueval.sizing.model import ModelSpec, from_config, presets
from gpueval.sizing.model.formats import FORMATS

_SHORTEST_CONTEXT = 1024


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something that would fit.

    Attributes:
        change: In words.
        option: What to type.
        total_bytes: Memory it needs on a device.
        sizing: The whole answer.
    """

    change: str
    option: str
    total_bytes: float
    sizing: Sizing

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"change": self.change, "option": self.option, "total_bytes": round(self.total_bytes)}


class Try(Protocol):
    """Sizes a change; None when it does not fit either."""

    def __call__(
        self, change: str, option: str, *, m: ModelSpec = ..., h: Hardware = ..., new: Load = ...
    ) -> Alternative | None:
        """Size it."""
        ...


def alternatives(sizing: Sizing, longest_tokens: int, prior: Prior | None) -> Iterator[Alternative]:
    """What would fit instead, from the smallest change to the largest.

    Args:
        sizing: What does not fit.
        longest_tokens: Longest prompt with reply that the work needs; 0 when unknown.
        prior: What earlier launches on this machine showed.
    """
    model, hardware, load, engine = sizing.model, sizing.hardware, sizing.load, sizing.engine

    def tried(
        change: str, option: str, *, m: ModelSpec = model, h: Hardware = hardware, new: Load = load
    ) -> Alternative | None:
        try:
            found = size(
                m, h, new, None if h is not hardware else engine, prior if (m, h) == (model, hardware) else None
            )
        except GpuevalError:
            return None
        return Alternative(change, option, found.memory.total.mid, found) if found.fits in ("yes", "tight") else None

    found: list[Alternative | None] = []
    fewer = int(sizing.memory.max_concurrency)
    if 1 <= fewer < load.concurrency:
        found.append(tried(f"{fewer} at once", f"--concurrency {fewer}", new=replace(load, concurrency=fewer)))
    needed = max(_SHORTEST_CONTEXT, longest_tokens)
    longest = sizing.memory.max_context_tokens // 256 * 256
    if needed <= longest < load.context_tokens:
        shorter = replace(load, context_tokens=longest)
        found.append(tried(f"a context of {longest:,} tokens", f"--max-model-len {longest}", new=shorter))
    if load.kv_dtype == "auto" and sizing.device.capability >= 8.9:
        found.append(tried("an fp8 KV cache", "--kv-dtype fp8", new=replace(load, kv_dtype="fp8")))
    found.append(_more_devices(sizing, tried))
    for quant, other in _smaller_formats(sizing):
        found.append(tried(f"the model as {quant}", f"--quant {quant}", m=other))
    found += [tried("a smaller model", other.name, m=other) for other in _smaller_models(model)]
    yield from [alternative for alternative in found if alternative][:5]
    yield from _other_hardware(sizing, tried)


def _more_devices(sizing: Sizing, tried: Try) -> Alternative | None:
    """The fewest devices of this kind that hold the model: those that are there first, then up to eight."""
    hardware, load, device = sizing.hardware, sizing.load, sizing.device
    if not sizing.engine.startswith("vllm") or device.kind != "nvidia" or device.details.get("mig"):
        return None
    for count in (2, 3, 4, 5, 6, 7, 8):
        if count <= load.ranks or not sizing.model.splits_over(count):
            continue
        there = count <= len(hardware.devices)
        change = f"tensor parallelism over {count} devices" if there else f"on {count} of them"
        option = f"--tensor-parallel {count}" if there else f"--hardware '{count} x {device.name}'"
        machine = hardware if there else replace(hardware, devices=(device,) * count)
        found = tried(change, option, h=machine, new=replace(load, ranks=count))
        if found:
            return found
    return None


def _smaller_formats(sizing: Sizing) -> Iterator[tuple[str, ModelSpec]]:
    if sizing.engine == "llama.cpp":
        order = ["q8_0", "q6_k", "q5_k_m", "q4_k_m", "iq4_xs", "q3_k_m", "q2_k"]
    else:
        order = (["fp8"] if sizing.device.capability >= 8.9 else ["int8"]) + ["awq-int4"]
    own = sizing.model
    for quant in order:
        other = from_config(own.shape.outer, own.name, own.source, quant)
        if other.weight_bytes < 0.95 * own.weight_bytes:
            yield quant, other


def _smaller_models(model: ModelSpec) -> list[ModelSpec]:
    family = model.shape.model_type.removesuffix("_text")
    quant = model.format if model.format in FORMATS and not model.exact else None
    made = [
        from_config(entry["config"], key, "preset", quant)
        for key, entry in presets().items()
        if entry["config"].get("model_type", "").removesuffix("_text").startswith(family)
    ]
    found: list[ModelSpec] = []
    limit = 0.8 * model.weight_bytes
    for other in sorted(made, key=lambda other: -other.weight_bytes):
        if other.weight_bytes < limit:
            found.append(other)
            limit = 0.8 * other.weight_bytes
    return found[:4]


def _other_hardware(sizing: Sizing, tried: Try) -> Iterator[Alternative]:
    """The two devices of the catalogue with the least memory that fit, of different sizes."""
    rows = sorted(catalogue.entries(), key=lambda entry: entry.device.memory_total_bytes or 0)
    kinds = ("nvidia",) if sizing.engine.startswith("vllm") else ("nvidia", "apple")
    wanted, last = 2, 0
    for entry in rows:
        if entry.device.memory_total_bytes == last:
            continue
        if entry.device.kind in kinds and "Laptop" not in entry.device.name and "Jetson" not in entry.device.name:
            other = tried(
                f"on one {entry.device.name}",
                f"--hardware '{entry.device.name}'",
                h=Hardware((entry.device,), supposed=True),
                new=replace(sizing.load, ranks=1, graphs=True),
            )
            if other and other.sizing.fits == "yes":
                yield other
                wanted, last = wanted - 1, entry.device.memory_total_bytes or 0
        if not wanted:
            return
