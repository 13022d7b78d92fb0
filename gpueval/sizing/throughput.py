"""Tokens per second: decode, prefill, and the time of a whole job. Pure.

Decode. A step of ``B`` sequences reads every weight once, its share of the experts and the cache of each sequence, and
reads and writes each state::

    step = fixed + layers * t_layer + max(bytes / (efficiency * bandwidth), weight_bytes * unpack / flops,
                                          2 * active * B / (0.7 * flops))

``t_layer`` is what launching and synchronising a layer costs, ``efficiency`` the share of the nominal bandwidth that
large reads reach, ``unpack`` the arithmetic to unpack one byte of quantised weights (it binds on Apple GPUs). The
constants of llama.cpp are fitted to published single-stream measurements, family by family
(``benchmarks/decode_speed.py`` fits them again and tests each hardware on constants fitted without it). Those of vLLM
come from measured GEMM kernels of ai-dynamo/aiconfigurator (commit 095f58a), whose sum is a lower bound of a real step
by 10 to 26 %.

Prefill. ``2 * active parameters + attention`` operations per token, the output head aside, at a share of the dense
peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpueval.sizing.hardware.device import Device
from gpueval.sizing.memory import EngineName, Load, Range, kv_element_bytes
from gpueval.sizing.model import ModelSpec
from gpueval.sizing.model.formats import BOUND_FORMAT
from gpueval.sizing.model.layers import fixed_bytes_per_sequence, growing_bytes_per_token


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of a family of devices under an engine.

    Attributes:
        efficiency: Share of the nominal bandwidth, by class of weight format; ``""`` for all others.
        layer_s: Seconds per layer and step.
        unpack_flop_per_byte: By class of weight format; absent where it never binds.
        fixed_s: Seconds per step.
        sequence_s: Seconds per sequence and step: scheduling, sampling.
        spread: By family, or family and class: factors on a step's time for the high and the low end.
        family: Key into ``spread``.
        basis: Where they come from.
    """

    efficiency: dict[str, float]
    layer_s: float
    unpack_flop_per_byte: dict[str, float] = field(default_factory=dict)
    fixed_s: float = 0.0
    sequence_s: float = 0.0
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    family: str = ""
    basis: str = ""

    def bounds(self, weight_class: str) -> tuple[float, float]:
        """Factors on a step's time that bound it."""
        return self.spread.get(f"{self.family}.{weight_class}") or self.spread[self.family]


FITTED = {
    # share of the nominal bandwidth, and microseconds per layer, by family
    "gddr.efficiency": 0.868, "gddr.layer_us": 39.1, "hbm.efficiency": 0.646, "hbm.layer_us": 99.7,
    "gb10.efficiency": 0.725, "gb10.layer_us": 58.2, "amd.efficiency": 0.873, "amd.layer_us": 69.9,
    "apple.efficiency": 0.907, "apple.layer_us": 118.5, "apple.ultra_efficiency": 0.874,
    "apple.max_layer": 1.01, "apple.ultra_layer": 1.229,
    # operations to unpack and multiply a byte of weights; less on later generations, more for K-quants on large chips
    "apple.unpack_4": 31.0, "apple.unpack_K": 43.6, "apple.unpack_M3": 0.856, "apple.unpack_M4": 0.931,
    "apple.unpack_K_large": 1.164,
}  # fmt: skip
"""Constants of llama.cpp, one sequence; ``benchmarks/decode_speed.py`` fits them."""

SPREAD = {
    "gddr": (0.84, 1.22),
    "hbm": (0.8, 1.25),
    "gb10": (0.8, 1.3),
    "amd": (0.8, 1.3),
    "apple": (0.85, 1.2),
    "apple.K": (0.75, 1.35),
}
"""Factors on a step's time that hold 90 % of the rows whose hardware the fit had not seen."""

_KERNEL_SUM_SHORT_BY = 1.17
_KERNELS = "sum of measured kernels (aiconfigurator), plus 17 %"
_MEASURED = "fitted to published llama.cpp measurements"

_VLLM_EFFICIENCY = {
    "8.0": {"": 0.743},
    "9.0": {"": 0.86, "8": 0.80, "4": 0.70},
    "10.0": {"": 0.81, "8": 0.64, "4": 0.74},
    "8.9": {"": 0.844, "8": 0.715, "4": 0.70},
    "12.0": {"": 0.825, "8": 0.815, "4": 0.50},
}
_VLLM_LAYER_S, _VLLM_FIXED_S, _VLLM_SEQUENCE_S = 25e-6, 0.5e-3, 8e-6

_PREFILL_SHARE = {
    "vllm": Range(0.4, 0.55, 0.7),
    "llama.cpp": Range(0.25, 0.45, 0.65),
    "vllm-cpu": Range(0.7, 0.95, 1.2),
}
_CPU = Constants(
    {"": 0.95},
    0.7e-3,
    fixed_s=2e-3,
    sequence_s=1e-3,
    spread={"": (0.7, 1.5)},
    basis="this machine's measured copy bandwidth",
)
_GIVEN = Constants(
    {"": 0.75}, 50e-6, spread={"": (0.8, 1.6)}, basis="roofline at 75 % of the bandwidth; the device is unknown"
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second with its basis.

    Attributes:
        low: Pessimistic.
        mid: Expected.
        high: Optimistic.
        basis: What the figure rests on.
    """

    low: float
    mid: float
    high: float
    basis: str


def constants(device: Device, engine: EngineName) -> Constants:
    """Constants for a device."""
    if device.kind == "cpu":
        return _CPU
    if engine == "vllm" and device.kind == "nvidia":
        known = _VLLM_EFFICIENCY.get(device.compute_capability or "") or {"": 0.8, "8": 0.75, "4": 0.65}
        return Constants(
            known,
            _VLLM_LAYER_S,
            fixed_s=_VLLM_FIXED_S,
            sequence_s=_VLLM_SEQUENCE_S,
            spread={"": (1 / _KERNEL_SUM_SHORT_BY, 1.35 / _KERNEL_SUM_SHORT_BY)},
            basis=_KERNELS,
        )
    family = family_of(device)
    if family not in ("gddr", "hbm", "gb10", "amd", "apple"):
        return _GIVEN
    return fitted_constants(FITTED, family, device.name)


def fitted_constants(fitted: Mapping[str, float], family: str, name: str) -> Constants:
    """Compose a device's constants under llama.cpp from fitted numbers.

    Args:
        fitted: Numbers as in :data:`FITTED`.
        family: A family of :func:`family_of`.
        name: Device name; Apple's chips differ by generation and tier.
    """
    efficiency, layer = fitted[f"{family}.efficiency"], fitted[f"{family}.layer_us"] * 1e-6
    unpack: dict[str, float] = {}
    if family == "apple":
        found, tier = re.search(r"M(\d+)", name), apple_tier(name)
        generation = int(found[1]) if found else 4
        efficiency *= fitted["apple.ultra_efficiency"] if tier == "ultra" else 1.0
        layer *= fitted.get(f"apple.{tier}_layer", 1.0)
        later = fitted["apple.unpack_M3"] if generation >= 3 else 1.0
        later *= fitted["apple.unpack_M4"] if generation >= 4 else 1.0
        large = fitted["apple.unpack_K_large"] if tier in ("max", "ultra") else 1.0
        unpack = {"4": fitted["apple.unpack_4"] * later, "K": fitted["apple.unpack_K"] * later * large}
    return Constants({"": efficiency}, layer, unpack, spread=SPREAD, family=family, basis=_MEASURED)


def family_of(device: Device) -> str:
    """Family whose devices share constants: ``gddr``, ``hbm``, ``gb10``, ``amd``, ``apple``, or the device's kind."""
    if device.kind != "nvidia":
        return device.kind
    if device.unified:
        return "gb10"
    return "hbm" if device.compute_capability in ("7.0", "8.0", "9.0", "10.0", "10.3") else "gddr"


def apple_tier(name: str) -> str:
    """``""``, ``pro``, ``max`` or ``ultra``."""
    found = re.search(r"\b(pro|max|ultra)\b", name.lower())
    return found[1] if found else ""


def step_seconds(
    *,
    read_bytes: float,
    weight_bytes: float,
    layers: int,
    weight_class: str,
    bandwidth: float,
    flops: float | None,
    known: Constants,
    operations: float = 0.0,
) -> float:
    """Time of one step in seconds; the formula is the module's.

    Args:
        read_bytes: Everything a step reads and writes, weights included.
        weight_bytes: The weights among it.
        layers: Layers of the model.
        weight_class: ``16``, ``8``, ``4`` or ``K``.
        bandwidth: Bytes per second.
        flops: 16-bit rate; None when unknown.
        known: Constants.
        operations: Arithmetic of the step, FLOP, for large batches.
    """
    efficiency = known.efficiency.get(weight_class, known.efficiency[""])
    memory = read_bytes / (efficiency * bandwidth)
    unpack = known.unpack_flop_per_byte.get(weight_class, 0.0)
    compute = (weight_bytes * unpack / flops if unpack and flops else 0.0, operations / (0.7 * flops) if flops else 0.0)
    return known.fixed_s + layers * known.layer_s + max(memory, *compute)


def weight_class(model: ModelSpec) -> str:
    """Class of the work to unpack the model's weights: ``16``, ``8``, ``4`` or ``K``."""
    return BOUND_FORMAT.get(model.format, "4" if "int4" in model.format or "4bit" in model.format else "K")


def decode(model: ModelSpec, device: Device, engine: EngineName, load: Load) -> Speed | None:
    """Tokens per second over all sequences of a step.

    Args:
        model: The model.
        device: One rank's device.
        engine: Engine.
        load: ``concurrency`` sequences of ``context_tokens`` at most, half of it on average.

    Returns:
        None where the bandwidth is unknown.
    """
    if not device.bandwidth_bytes_per_s:
        return None
    batch = max(1, load.concurrency)
    element, ranks = kv_element_bytes(load.kv_dtype, model), load.ranks
    weights = model.read_bytes(batch) / ranks
    mean = load.context_tokens // 2
    kv = growing_bytes_per_token(model.layers, element, ranks) * mean
    fixed = fixed_bytes_per_sequence(model.layers, element, model.model_bytes, ranks, mean)
    states = fixed_bytes_per_sequence(model.layers, 0.0, model.model_bytes, ranks)
    known = constants(device, engine)
    step = step_seconds(
        read_bytes=weights + batch * (kv + fixed + states),
        weight_bytes=weights,
        layers=model.n_layers,
        weight_class=weight_class(model),
        bandwidth=device.bandwidth_bytes_per_s,
        flops=device.flops_16bit,
        known=known,
        operations=2 * model.active_parameters * batch / ranks,
    )
    if engine == "vllm":
        step *= _KERNEL_SUM_SHORT_BY
    step += batch * known.sequence_s + _all_reduce_seconds(model, ranks, batch, engine)
    fast, slow = known.bounds(weight_class(model))
    return Speed(batch / step / slow, batch / step, batch / step / fast, known.basis)


def _all_reduce_seconds(model: ModelSpec, ranks: int, tokens: int, engine: EngineName) -> float:
    """Two all-reduces per layer: latency, and 16-bit activations over an assumed 25 GB/s link (PCIe 4 x16)."""
    if ranks == 1 or engine != "vllm":
        return 0.0
    size = tokens * model.shape.hidden * 2
    return 2 * model.n_layers * (20e-6 + 2 * (ranks - 1) / ranks * size / 25e9)


def prefill(model: ModelSpec, device: Device, engine: EngineName, load: Load) -> Speed | None:
    """Prompt tokens per second, from the dense 16-bit peak (fp8 where weights and device have it).

    Returns:
        None where the device's rate is unknown.
    """
    if not device.flops_16bit:
        return None
    peak = device.flops_16bit
    if weight_class(model) == "8" and device.flops_8bit and engine == "vllm":
        peak = device.flops_8bit
    full = sum(getattr(layer, "window", 0) is None for layer in model.layers)
    attention = 4 * full * model.shape.heads * model.shape.head_dim * load.context_tokens / 4
    seconds = (2 * model.prompt_parameters + attention) / (peak * load.ranks)
    share = _PREFILL_SHARE[engine]
    basis = f"{share.low:.0%} to {share.high:.0%} of the {'8' if peak != device.flops_16bit else '16'}-bit peak"
    return Speed(share.low / seconds, share.mid / seconds, share.high / seconds, basis)


def job_seconds(prompt_tokens: float, output_tokens: float, prefilling: Speed, decoding: Speed) -> Range:
    """Time of a job: prompts at the prefill rate, replies at the decode rate; engines interleave the two."""
    return Range(
        prompt_tokens / prefilling.high + output_tokens / decoding.high,
        prompt_tokens / prefilling.mid + output_tokens / decoding.mid,
        prompt_tokens / prefilling.low + output_tokens / decoding.low,
    )
