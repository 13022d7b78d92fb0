"""Number formats: bits per weight on disk and in memory.

A format of ``b`` bits with scales (and zero points) per group costs ``b + (scale_bits + zero_bits) / group`` bits. GGUF
types are blocks; a GGUF *file* type is a mixture of them, chosen per tensor by rules of llama.cpp
(``llama_tensor_get_type``), which :func:`gguf_type` follows. That is why no file type has one number of bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gpueval.errors import UsageError

SAFETENSORS_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C64": 64,
}  # fmt: skip

GGML_BLOCKS = {
    # type number: (name, weights per block, bytes per block); ggml's block layouts
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}  # fmt: skip
_GGML_BITS = {name: Fraction(size * 8, block) for name, block, size in GGML_BLOCKS.values()}
_GGML_ROW = {name: block for name, block, _ in GGML_BLOCKS.values()}

KV_BYTES = {
    "auto": 2.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "q8_0": 34 / 32,
    "q4_0": 18 / 32, "nvfp4": 0.5625, "fp32": 4.0,
}  # fmt: skip
"""Bytes per number of the KV cache; ``auto`` is replaced by the model's own format."""

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


@dataclass(frozen=True, slots=True)
class Format:
    """How weights are kept.

    Attributes:
        name: Name as the user gives it.
        bits: Bits per weight of a quantised matrix; None for a GGUF mixture.
        plain_bits: Bits of everything that stays unquantised.
        quantises_ends: Embedding and output head are quantised too.
        gguf: GGUF file type of a mixture.
    """

    name: str
    bits: Fraction | None
    plain_bits: int = 16
    quantises_ends: bool = False
    gguf: str | None = None


def _plain(name: str, bits: int) -> Format:
    return Format(name, Fraction(bits), bits, quantises_ends=True)


def _grouped(name: str, bits: int, extra: int, group: int) -> Format:
    return Format(name, bits + Fraction(extra, group))


FORMATS = {
    made.name: made
    for made in (
        _plain("fp32", 32),
        _plain("bf16", 16),
        _plain("fp16", 16),
        _grouped("fp8", 8, 0, 1),
        _grouped("fp8-block", 8, 32, 128 * 128),
        _grouped("int8", 8, 0, 1),
        _grouped("gptq-int4", 4, 20, 128),
        _grouped("awq-int4", 4, 20, 128),
        _grouped("int4", 4, 16, 128),
        _grouped("gptq-int3", 3, 19, 128),
        _grouped("bnb-nf4", 4, 32, 64),
        _grouped("bnb-nf4-double", 4, 8, 63),
        _grouped("bnb-int8", 8, 0, 1),
        _grouped("mxfp4", 4, 8, 32),
        _grouped("mxfp8", 8, 8, 32),
        _grouped("nvfp4", 4, 8, 16),
        Format("mlx-4bit", 4 + Fraction(32, 64), quantises_ends=True),
        Format("mlx-8bit", 8 + Fraction(32, 64), quantises_ends=True),
        *(
            Format(name.lower(), None, 32, quantises_ends=True, gguf=name)
            for name in (
                "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS",
                "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K",
            )
        ),
    )
}  # fmt: skip
_ALIASES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "f16": "fp16", "f32": "fp32", "gptq": "gptq-int4",
    "awq": "awq-int4", "w8a8": "int8", "w4a16": "int4", "nf4": "bnb-nf4", "4bit": "mlx-4bit",
}  # fmt: skip

BOUND_FORMAT = {"bf16": "16", "fp16": "16", "fp32": "16", "fp8": "8", "fp8-block": "8", "int8": "8", "q8_0": "8",
                "mxfp8": "8", "bnb-int8": "8", "mlx-8bit": "8", "q4_0": "4", "q4_1": "4", "mlx-4bit": "4",
                "gptq-int4": "4", "awq-int4": "4", "int4": "4", "nvfp4": "4", "mxfp4": "4", "iq4_nl": "4"}  # fmt: skip
"""Class of the work to unpack a weight; what is not listed is a K- or I-quant."""


def find_format(name: str) -> Format:
    """Return a format by name, case and separators aside.

    Raises:
        UsageError: Unknown format.
    """
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    for candidate in (key, key.replace("-", "_"), key.replace("_", "-")):
        if candidate in FORMATS:
            return FORMATS[candidate]
    raise UsageError(f"Unknown quantisation '{name}'.", f"Known: {', '.join(FORMATS)}")


def _more_bits(layer: int, layers: int) -> bool:
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def gguf_type(
    file_type: str,
    role: str,
    layer: int,
    layers: int,
    *,
    gqa: int,
    experts: int,
    parameters_b: float,
    fused: bool = False,
) -> str:
    """Name the GGUF block type of one tensor.

    Args:
        file_type: For example ``Q4_K_M``.
        role: Tensor role of :mod:`gpueval.sizing.model.tensors`.
        layer: Its layer.
        layers: Layers of the model.
        gqa: Query heads per KV head.
        experts: Experts of the model; 0 when dense.
        parameters_b: Parameters in units of 1e9 (llama.cpp keeps the values of a 70B Llama at Q5_K).
        fused: Query, key and value are one tensor (Phi-3 and later).
    """
    base = file_type.removesuffix("_M").removesuffix("_S").removesuffix("_L")
    if role == "head" and base not in ("Q8_0",):
        return "Q6_K"
    if base in ("Q8_0", "Q6_K", "Q5_0", "Q4_1", "Q4_0") or role == "embedding":
        return base
    if fused and role in ("attention_q", "attention_k", "attention_v"):
        return {"Q3_K_M": "Q4_K", "Q3_K_L": "Q4_K", "Q4_K_M": "Q5_K", "Q5_K_M": "Q6_K"}.get(file_type, base)
    value, down, out = role == "attention_v", role in ("mlp_down", "expert_down"), role == "attention_o"
    more = _more_bits(layer, layers)
    found = base
    if value:
        if file_type in ("Q4_K_M", "Q5_K_M") and more:
            found = "Q6_K"
        elif (file_type == "Q4_K_S" and layer < 4) or (base in ("IQ4_NL", "IQ4_XS") and gqa >= 4):
            found = "Q5_K"
        elif file_type == "Q3_K_M":
            found = "Q5_K" if layer < 2 else "Q4_K"
        elif file_type == "Q3_K_L":
            found = "Q5_K"
        elif file_type == "Q2_K":
            found = "Q4_K" if gqa >= 4 else "Q3_K"
        if layers == 80 and parameters_b > 60 and found in ("Q3_K", "Q4_K"):
            found = "Q5_K"
        if experts == 8:
            found = "Q8_0"
    elif down:
        if file_type in ("Q4_K_M", "Q5_K_M") and more:
            found = "Q6_K"
        elif file_type in ("Q4_K_S", "IQ4_NL", "IQ4_XS") and layer < layers // 8:
            found = "Q5_K"
        elif file_type == "Q5_K_S" and layer < layers // 8:
            found = "Q6_K"
        elif file_type == "Q3_K_M":
            found = "Q5_K" if layer < layers // 16 else "Q4_K"
        elif file_type == "Q3_K_L":
            found = "Q5_K"
        elif file_type == "Q2_K":
            found = "Q3_K"
    elif out and base in ("Q2_K", "Q3_K"):
        found = {"Q2_K": "Q3_K", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K"}.get(file_type, base)
    elif role == "attention_k" and experts == 8:
        found = "Q8_0"
    return found


_FALLBACK = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "IQ4_XS": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


def gguf_bits(kind: str, row: int) -> Fraction:
    """Bits per weight of a GGUF type for rows of ``row`` weights; rows that no block divides fall back as llama.cpp
    does.
    """
    if row % _GGML_ROW[kind]:
        kind = _FALLBACK.get(kind, "F16")
    if row % _GGML_ROW[kind]:
        kind = "F16"
    return _GGML_BITS[kind]
