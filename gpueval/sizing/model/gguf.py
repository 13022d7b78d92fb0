"""Read a GGUF file's metadata and tensor table: exact weight bytes, and the configuration under Hugging Face's names.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Counts and lengths come from the file, so each is
checked against the bytes that are left before anything is read or skipped.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpueval.errors import DataError
from gpueval.sizing.model.formats import GGML_BLOCKS

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_KEPT_ITEMS = 4096
"""Longer arrays (vocabularies) are counted, not kept."""

_FILE_TYPES = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s",
    12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 25: "iq4_nl",
    30: "iq4_xs", 32: "bf16", 38: "mxfp4",
}  # fmt: skip


_MODEL_TYPES = {
    "qwen35": "qwen3_5", "qwen35moe": "qwen3_5_moe", "qwen3next": "qwen3_next", "deepseek2": "deepseek_v3",
    "qwen3moe": "qwen3_moe", "qwen2moe": "qwen2_moe",
}  # fmt: skip
"""Architectures whose name is another one in Hugging Face's configurations."""


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What a GGUF file says before its weights.

    Attributes:
        metadata: Keys and values; of an array that is too long to matter, its length.
        tensors: Name, shape, type and bytes of every tensor.
    """

    metadata: dict[str, Any]
    tensors: list[tuple[str, tuple[int, ...], str, int]]


class _Cursor:
    def __init__(self, stream: BinaryIO, size: int, where: str) -> None:
        self.stream, self.size, self.where = stream, size, where

    def fail(self, what: str, field: str | None = None) -> DataError:
        return DataError(what, file=self.where, field=field, remedy="The file is truncated or damaged: copy it again.")

    def take(self, n: int) -> bytes:
        if n > self.size - self.stream.tell():
            raise self.fail(f"needs {n:,} bytes at {self.stream.tell():,} and is {self.size:,} long")
        return self.stream.read(n)

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        length = self.number("Q")
        if length > 1 << 26:
            raise self.fail(f"announces a text of {length:,} bytes")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth > 2:
            raise self.fail(f"holds a value of the unknown type {kind}")
        inner, count = self.number("I"), self.number("Q")
        width = struct.calcsize("<" + _SCALARS[inner]) if inner in _SCALARS else 8
        if count * width > self.size - self.stream.tell():
            raise self.fail(f"announces an array of {count:,} items")
        if count <= _KEPT_ITEMS:
            return [self.value(inner, depth + 1) for _ in range(count)]
        if inner in _SCALARS:
            self.stream.seek(count * width, 1)
        else:
            for _ in range(count):
                self.skip(inner, depth + 1)
        return _Length(count)

    def skip(self, kind: int, depth: int) -> None:
        if kind != _STRING:
            self.value(kind, depth)
            return
        length = self.number("Q")
        if length > self.size - self.stream.tell():
            raise self.fail(f"announces a text of {length:,} bytes")
        self.stream.seek(length, 1)


class _Length(int):
    """Length of an array that was not kept."""


def read_gguf(file: Path) -> GgufFile:
    """Read metadata and tensor table of one GGUF file.

    Raises:
        DataError: It is no GGUF file, truncated, or lies about its tensors.
    """
    where, size = str(file), file.stat().st_size
    with file.open("rb", buffering=1 << 20) as stream:
        cursor = _Cursor(stream, size, where)
        if size < 24 or cursor.take(4) != b"GGUF":
            raise DataError("is no GGUF file" if size else "is empty", file=where, remedy="Give a .gguf file.")
        version = cursor.number("I")
        if version not in (2, 3):
            raise DataError(f"is GGUF version {version}; versions 2 and 3 are known", file=where)
        n_tensors, n_keys = cursor.number("Q"), cursor.number("Q")
        if n_tensors * 24 + n_keys * 13 > size:
            raise cursor.fail(f"announces {n_tensors:,} tensors and {n_keys:,} keys in {size:,} bytes")
        metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = cursor.text()
            metadata[key] = cursor.value(cursor.number("I"))
        table = [_tensor(cursor) for _ in range(n_tensors)]
        align = int(metadata.get("general.alignment") or 32)
        data = size - -(-stream.tell() // align) * align
    for name, _, _, length, offset in table:
        if offset + length > data:
            raise cursor.fail(f"ends at byte {offset + length:,} of {max(0, data):,}", name)
    return GgufFile(metadata, [entry[:4] for entry in table])


def _tensor(cursor: _Cursor) -> tuple[str, tuple[int, ...], str, int, int]:
    name = cursor.text()
    n_dims = cursor.number("I")
    if n_dims > 8:
        raise cursor.fail(f"has {n_dims} dimensions", name)
    shape = tuple(cursor.number("Q") for _ in range(n_dims))
    kind, offset = cursor.number("I"), cursor.number("Q")
    if kind not in GGML_BLOCKS:
        raise DataError(f"has the unknown type {kind}", file=cursor.where, field=name)
    title, block, block_bytes = GGML_BLOCKS[kind]
    if shape and shape[0] % block:
        raise cursor.fail(f"has rows of {shape[0]:,} weights in blocks of {block}", name)
    return name, shape, title, math.prod(shape) // block * block_bytes, offset


def shards(file: Path) -> list[Path]:
    """All parts of a split model (``…-00001-of-00003.gguf``), or the file alone.

    Raises:
        DataError: A part is missing.
    """
    match = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", file.name)
    if not match:
        return [file]
    parts = [file.with_name(f"{match[1]}-{i:05d}-of-{match[3]}.gguf") for i in range(1, int(match[3]) + 1)]
    absent = next((part for part in parts if not part.is_file()), None)
    if absent:
        raise DataError("is missing: the model is split", file=str(absent), remedy="Copy all parts.")
    return parts


def file_type(metadata: dict[str, Any]) -> str:
    """Name of the file's quantisation."""
    return _FILE_TYPES.get(int(metadata.get("general.file_type", -1)), "gguf")


def to_config(metadata: dict[str, Any], where: str, tied: bool) -> dict[str, Any]:
    """Return the metadata under the names of a Hugging Face configuration.

    Raises:
        DataError: The architecture's keys are missing.
    """
    arch = str(metadata.get("general.architecture", ""))

    def get(key: str) -> Any:
        return metadata.get(f"{arch}.{key}")

    if not arch or get("block_count") is None:
        raise DataError("names no architecture with a block_count", file=where, field="general.architecture")
    heads, kv = get("attention.head_count"), get("attention.head_count_kv")
    if isinstance(heads, list):
        heads = max(heads)
    vocab = get("vocab_size") or metadata.get("tokenizer.ggml.tokens")
    config = {
        "model_type": _MODEL_TYPES.get(arch, arch.replace("-", "_")),
        "num_hidden_layers": get("block_count"),
        "hidden_size": get("embedding_length"),
        "intermediate_size": get("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": get("attention.key_length"),
        "v_head_dim": get("attention.value_length"),
        "vocab_size": len(vocab) if isinstance(vocab, list) else vocab,
        "max_position_embeddings": get("context_length"),
        "sliding_window": get("attention.sliding_window"),
        "use_sliding_window": bool(get("attention.sliding_window")),
        "num_experts": get("expert_count"),
        "num_experts_per_tok": get("expert_used_count"),
        "moe_intermediate_size": get("expert_feed_forward_length"),
        "kv_lora_rank": get("attention.kv_lora_rank"),
        "q_lora_rank": get("attention.q_lora_rank"),
        "qk_rope_head_dim": get("rope.dimension_count") if get("attention.kv_lora_rank") else None,
        "full_attention_interval": get("full_attention_interval"),
        "num_kv_shared_layers": get("attention.shared_kv_layers"),
        "tie_word_embeddings": tied,
        "dtype": "float16",
    }
    pattern = get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        config["layer_types"] = ["sliding_attention" if flag else "full_attention" for flag in pattern]
    config |= _recurrent_keys(get, kv)
    return {key: value for key, value in config.items() if value is not None}


def _recurrent_keys(get: Any, kv: Any) -> dict[str, Any]:
    inner, state, groups, step = (
        get(f"ssm.{key}") for key in ("inner_size", "state_size", "group_count", "time_step_rank")
    )
    if not inner:
        return {}
    keys: dict[str, Any] = {}
    if isinstance(kv, list):
        keys["layer_types"] = ["attention" if count else "mamba" for count in kv]
    if get("full_attention_interval"):  # gated delta net: heads are "time steps", groups the key heads
        return keys | {
            "linear_num_value_heads": step,
            "linear_value_head_dim": inner // max(1, step or 1),
            "linear_num_key_heads": groups,
            "linear_key_head_dim": state,
            "linear_conv_kernel_dim": get("ssm.conv_kernel"),
            "mamba_ssm_dtype": "float32",
        }
    return keys | {
        "mamba_num_heads": step,
        "mamba_head_dim": inner // max(1, step or 1),
        "ssm_state_size": state,
        "n_groups": groups,
        "conv_kernel": get("ssm.conv_kernel"),
        "mamba_ssm_cache_dtype": "float32",
    }
