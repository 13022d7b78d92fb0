"""The weight format that a configuration declares, with the modules it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gpueval.errors import DataError, UnknownModel
from gpueval.sizing.model.formats import FORMATS, Format
from gpueval.sizing.model.tensors import role_of

_MODULES = {
    "self_attn": ("attention_q", "attention_k", "attention_v", "attention_o", "latent_a", "latent_b", "indexer"),
    "attn": ("attention_q", "attention_k", "attention_v", "attention_o"),
    "linear_attn": ("state", "conv"),
    "mixer": ("state", "conv", "attention_q", "attention_k", "attention_v", "attention_o"),
    "shared_expert": ("shared_expert",),
    "shared_experts": ("shared_expert",),
    "mlp": ("mlp_up", "mlp_down"),
    "experts": ("expert_up", "expert_down"),
}


@dataclass(frozen=True, slots=True)
class Exceptions:
    """Where a matrix has another format than the model's.

    Attributes:
        everywhere: Roles that stay plain.
        layers: Roles of single layers that stay plain.
        formats: Roles of single layers with a format of their own (ModelOpt's mixed precision).
    """

    everywhere: frozenset[str] = frozenset()
    layers: frozenset[tuple[str, int]] = frozenset()
    formats: Mapping[tuple[str, int], Format] = field(default_factory=dict)

    def covers(self, role: str, layer: int) -> bool:
        """Whether a matrix is left alone."""
        return role in self.everywhere or (role, layer) in self.layers


def declared_format(config: Mapping[str, Any], file: str) -> tuple[Format | None, Exceptions]:
    """Read ``quantization_config`` wherever the format's tool put it.

    Returns:
        The format (None when the weights are plain) and its exceptions.

    Raises:
        DataError: A quantisation method that is not known.
    """
    found: Any = None
    for level in (config, *(part for part in config.values() if isinstance(part, Mapping))):
        found = found or level.get("quantization_config") or level.get("compression_config")
    if not found:
        return None, Exceptions()
    if not isinstance(found, Mapping):
        raise DataError("is not an object", file=file, field="quantization_config")
    found = found.get("quantization", found)  # ModelOpt nests it
    if listed := found.get("quantized_layers"):
        return None, Exceptions(formats=_mixed(listed, file))
    made = _format(found, file)
    names = found.get("ignore") or found.get("modules_to_not_convert") or found.get("exclude_modules") or ()
    return made, _exceptions(names)


def _mixed(listed: Mapping[str, Any], file: str) -> dict[tuple[str, int], Format]:
    found: dict[tuple[str, int], Format] = {}
    for name, how in listed.items():
        where = re.search(r"layers\.(\d+)", name)
        if where and isinstance(how, Mapping):
            for role in _MODULES.get(name.split(".")[-1]) or (role_of(name + ".weight"),):
                found[role, int(where[1])] = _format(how, file)
    return found


def _format(found: Mapping[str, Any], file: str) -> Format:
    method = str(found.get("quant_method") or found.get("quant_algo") or "").lower()
    bits, group = (
        found.get("bits") or found.get("w_bit"),
        int(found.get("group_size") or found.get("q_group_size") or 128),
    )
    algorithm = str(found.get("quant_algo") or "").lower()
    if "nvfp4" in method or "nvfp4" in algorithm:
        return FORMATS["nvfp4"]
    if method in ("fp8", "fbgemm_fp8") or algorithm.startswith("fp8"):
        return FORMATS["fp8-block" if found.get("weight_block_size") else "fp8"]
    if method in ("gptq", "awq", "awq_marlin", "auto-round", "autoround", "intel/auto-round") and bits:
        zero = 0 if found.get("sym") or found.get("zero_point") is False else int(bits)
        return _grouped(f"{method}-int{bits}", int(bits), 16 + zero, group)
    if method in ("compressed-tensors", "compressed_tensors"):
        return _compressed(found, file)
    if method == "bitsandbytes":
        four = found.get("load_in_4bit") or found.get("_load_in_4bit")
        double = found.get("bnb_4bit_use_double_quant")
        return FORMATS[("bnb-nf4-double" if double else "bnb-nf4") if four else "bnb-int8"]
    if method in ("mxfp4", "mxfp8"):
        return FORMATS[method]
    if isinstance(bits, int) and "group_size" in found and not method:  # MLX
        return _grouped(f"mlx-{bits}bit", bits, 32, group)
    raise UnknownModel(
        f"has the unknown method '{method or found}'",
        file=file,
        field="quantization_config",
        remedy="Give the format with --quant.",
    )


def _compressed(found: Mapping[str, Any], file: str) -> Format:
    groups = [value.get("weights") or {} for value in (found.get("config_groups") or {}).values()]
    if not groups or not groups[0].get("num_bits"):
        raise DataError("has no config_groups with weights", file=file, field="quantization_config")
    weights = groups[0]
    bits, kind, group = int(weights["num_bits"]), weights.get("type"), int(weights.get("group_size") or 0)
    if kind == "float" and bits == 8:
        return FORMATS["fp8-block" if weights.get("strategy") == "block" else "fp8"]
    if kind == "float" and bits == 4:
        return FORMATS["nvfp4"] if group in (0, 16) else FORMATS["mxfp4"]
    zero = 0 if weights.get("symmetric", True) else bits
    return _grouped(f"int{bits}", bits, 16 + zero, group) if group > 0 else FORMATS["int8"]


def _grouped(name: str, bits: int, extra: int, group: int) -> Format:
    return Format(name, Fraction(bits) + (Fraction(extra, group) if group > 0 else 0))


def _exceptions(names: Any) -> Exceptions:
    everywhere: set[str] = set()
    layers: set[tuple[str, int]] = set()
    for name in names if isinstance(names, list | tuple) else ():
        plain = str(name).removeprefix("re:").replace("\\", "").replace(".*", "*").strip("*^$.")
        last = re.split(r"[.*]", plain)[-1]
        roles = _MODULES.get(last) or (role_of(plain + ".weight"),)
        where = re.search(r"(?:layers|blk|h)\.(\d+)", plain)
        for role in roles:
            if where:
                layers.add((role, int(where[1])))
            else:
                everywhere.add(role)
    return Exceptions(frozenset(everywhere), frozenset(layers))
