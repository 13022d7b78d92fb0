"""Read a Hugging Face ``config.json``: what every layer is, without importing a model library.

Sources: the configuration classes of transformers, and the KV-cache specifications of vLLM's model files. What this
module does not know it refuses by name or takes as a named approximation, never as a silent default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpueval.errors import DataError, UnknownModel
from gpueval.sizing.model.layers import Attention, Latent, Layer, Recurrent

_NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
# fmt: off
_KNOWN = frozenset(
    [
        "llama", "llama4", "llama4_text", "mistral", "mistral3", "ministral3", "mistral4", "mixtral", "qwen2",
        "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe",
        "qwen3_5_moe_text", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma", "gemma2", "gemma3", "gemma3_text",
        "gemma4", "gemma4_text", "phi", "phi3", "phi4", "phimoe", "deepseek_v2", "deepseek_v3", "deepseek_v32",
        "kimi_k2", "kimi_linear", "glm", "glm4", "glm4_moe", "glm_moe_dsa", "gpt_oss", "minimax", "minimax_m2",
        "nemotron-nas", "nemotron", "nemotron_h", "mimo_v2_flash", "step3p5", "step3p7", "granite", "granitemoe",
        "granitemoehybrid", "jamba", "falcon", "olmo", "olmo2", "olmo3", "olmoe", "cohere", "cohere2", "starcoder2",
        "smollm3", "minicpm", "minicpm3", "stablelm", "gpt2", "gpt_neox", "opt", "dbrx", "exaone4", "internlm2",
        "internlm3", "ernie4_5", "seed_oss", "hunyuan_v1_dense", "apertus", "bert", "roberta", "xlm-roberta",
        "modernbert", "mpnet", "nomic_bert", "new",
    ]
)
# fmt: on
_ENCODERS = frozenset(
    ["bert", "roberta", "xlm-roberta", "modernbert", "mpnet", "nomic_bert", "new", "distilbert", "electra"]
)
_REFUSED = {
    "compress_ratios": "per-layer compressed caches (DeepSeek V4)",
    "yoco_cross_layers": "cross-layer cache sharing (YOCO)",
    "rwkv_version": "RWKV states",
    "is_encoder_decoder": "encoder-decoder models",
}


_DEFAULTS: dict[str, dict[str, Any]] = {
    # what published configurations leave to the class of transformers
    "gemma3_text": {
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072, "sliding_window": 4096, "sliding_window_pattern": 6,
    },
    "mamba": {"num_attention_heads": 1, "mamba_expand": 2, "mamba_d_state": 16},
    "falcon_mamba": {"num_attention_heads": 1, "mamba_expand": 2, "mamba_d_state": 16},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a configuration that everything else is counted from.

    Attributes:
        text: The language model's own (possibly nested) configuration.
        outer: The whole configuration.
        kinds: One word per layer: ``full``, ``window``, ``chunk``, ``latent``, ``state``, ``none``.
        layers: What the layers keep; layers that keep nothing or share a cache are left out.
        approximations: What was taken for granted.
    """

    text: Mapping[str, Any]
    outer: Mapping[str, Any]
    name: str
    model_type: str
    hidden: int
    heads: int
    head_dim: int
    vocab: int
    n_layers: int
    kinds: tuple[str, ...]
    layers: tuple[Layer, ...]
    max_context: int | None
    dtype: str
    approximations: tuple[str, ...]

    def get(self, *names: str, default: Any = None) -> Any:
        """First of the named keys that is set, looked up in the text part, then outside."""
        return _first(self.text, *names, default=_first(self.outer, *names, default=default))


def _first(config: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    for name in names:
        value = config.get(name)
        if value is not None:
            return value
    return default


class _Reader:
    """Typed look-ups that name the file and the key when a value is missing or of the wrong kind."""

    def __init__(self, config: Mapping[str, Any], file: str) -> None:
        self.config, self.file = config, file

    def number(self, *names: str, default: int | None = None) -> int:
        value = _first(self.config, *names, default=default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            found = "is missing" if value is None else f"is {value!r}; a whole number is needed"
            raise DataError(f"{found}", file=self.file, field=names[0], remedy="Give a complete config.json.")
        if value < 0 or value > 10**9:
            raise DataError(f"is {value}, which no model has", file=self.file, field=names[0])
        return int(value)

    def positive(self, *names: str, default: int | None = None) -> int:
        value = self.number(*names, default=default)
        if value == 0:
            raise DataError("is 0", file=self.file, field=names[0], remedy="Give a complete config.json.")
        return value


def read_config(config: Mapping[str, Any], name: str, file: str = "config.json") -> Shape:
    """Turn a configuration into layers.

    Raises:
        DataError: A number is missing or impossible, or the architecture is known not to fit these rules.
    """
    if not isinstance(config, Mapping):
        raise DataError("is not a JSON object", file=file)
    text: Mapping[str, Any] = config
    for _ in range(2):
        text = next((text[key] for key in _NESTED if isinstance(text.get(key), Mapping)), text)
    for key, what in _REFUSED.items():
        if text.get(key):
            raise UnknownModel(f"{what} are not known to the sizing rules", file=file, field=key)
    model_type = str(_first(text, "model_type", default=config.get("model_type") or "unknown"))
    text = _DEFAULTS.get(model_type, {}) | {key: value for key, value in text.items() if value is not None}
    read = _Reader(text, file)
    n = read.positive("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    hidden = read.positive("hidden_size", "n_embd", "d_model", "dim")
    heads = read.positive("num_attention_heads", "n_head", "n_heads", "num_heads")
    if n > 2000:
        raise DataError(f"is {n}, which no model has", file=file, field="num_hidden_layers")
    head_dim = read.positive("head_dim", "hidden_size_per_head", "kv_channels", default=max(1, hidden // heads))
    kinds = _kinds(text, model_type, n, read)
    remarks = () if model_type in _KNOWN else (f"architecture '{model_type}' taken as a plain decoder",)
    dtype = _first(text, "dtype", "torch_dtype", default=_first(config, "dtype", "torch_dtype", default="bfloat16"))
    shape = Shape(
        text=text,
        outer=config,
        name=name,
        model_type=model_type,
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        vocab=read.number("vocab_size", "padded_vocab_size", default=_first(config, "vocab_size", default=0)),
        n_layers=n,
        kinds=kinds,
        layers=(),
        max_context=read.number("max_position_embeddings", "n_positions", "seq_length", "model_max_length", default=0)
        or None,
        dtype=str(dtype).removeprefix("torch."),
        approximations=remarks,
    )
    if shape.vocab == 0:
        raise DataError("is missing", file=file, field="vocab_size", remedy="Give a complete config.json.")
    layers = tuple(layer for i, kind in enumerate(kinds) if (layer := _layer(shape, read, kind, i)) is not None)
    return replace(shape, layers=layers)


def _kinds(text: Mapping[str, Any], model_type: str, n: int, read: _Reader) -> tuple[str, ...]:
    if model_type in _ENCODERS:
        return ("none",) * n
    if model_type in ("mamba", "falcon_mamba"):
        return ("state",) * n
    kinds = _own_kinds(text, model_type, n, read)
    if len(kinds) < n:
        raise DataError(f"names {len(kinds)} layers of {n}", file=read.file, field="layer_types")
    kinds = kinds[:n]
    window = _window(text, model_type)
    if window is None:
        kinds = ["full" if kind == "window" else kind for kind in kinds]
    shared = int(text.get("num_kv_shared_layers") or 0)
    return tuple("none" if i >= n - shared and kind in ("full", "window") else kind for i, kind in enumerate(kinds))


def _own_kinds(text: Mapping[str, Any], model_type: str, n: int, read: _Reader) -> list[str]:
    latent = text.get("kv_lora_rank")
    full = "latent" if latent else "full"
    if blocks := text.get("block_configs"):
        return [_block_kind(block) for block in blocks]
    if linear := text.get("linear_attn_config"):
        states = set(linear.get("kda_layers", ()))
        return ["state" if i + 1 in states else full for i in range(n)]
    if latent:
        return [full] * n
    if types := text.get("layer_types"):
        return [_layer_type(kind, read) for kind in types]
    if letters := text.get("hybrid_override_pattern"):
        known = {"M": "state", "*": "full", "-": "none", "E": "none"}
        unknown = sorted(set(letters) - set(known))
        if unknown:
            raise UnknownModel(f"holds unknown letters {unknown}", file=read.file, field="hybrid_override_pattern")
        return [known[letter] for letter in letters]
    if pattern := text.get("hybrid_layer_pattern"):
        return ["window" if flag else "full" for flag in pattern]
    if types := text.get("attn_type_list"):
        return ["full" if flag else "state" for flag in types]
    if every := text.get("full_attention_interval"):
        return ["full" if (i + 1) % every == 0 else "state" for i in range(n)]
    if every := text.get("attn_layer_period"):
        offset = int(text.get("attn_layer_offset") or 0)
        return ["full" if i % every == offset else "state" for i in range(n)]
    if text.get("attention_chunk_size") and model_type.startswith("llama4"):
        rope = text.get("no_rope_layers") or [(i + 1) % 4 != 0 for i in range(n)]
        return ["chunk" if flag else "full" for flag in rope]
    if _window(text, model_type) is not None:
        every = text.get("sliding_window_pattern") or {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}.get(
            model_type
        )
        return ["window" if not every or (i + 1) % every else "full" for i in range(n)]
    return ["full"] * n


def _block_kind(block: Mapping[str, Any]) -> str:
    attention = block.get("attention") or {}
    return "none" if attention.get("no_op") or attention.get("replace_with_linear") else "full"


def _layer_type(kind: Any, read: _Reader) -> str:
    known = {
        "full_attention": "full",
        "attention": "full",
        "global": "full",
        "sliding_attention": "window",
        "sliding_window": "window",
        "local": "window",
        "chunked_attention": "chunk",
        "linear_attention": "state",
        "mamba": "state",
        "mamba2": "state",
        "moe": "none",
        "mlp": "none",
    }
    if kind not in known:
        raise UnknownModel(f"holds the unknown layer type {kind!r}", file=read.file, field="layer_types")
    return known[kind]


def _window(text: Mapping[str, Any], model_type: str) -> int | None:
    if model_type.startswith("qwen") and not text.get("use_sliding_window"):
        return None
    window = _first(text, "sliding_window", "sliding_window_size", "window_size")
    if isinstance(window, Sequence) and not isinstance(window, str):
        window = next((size for size in window if size), None)
    if window and int(window) < 0:
        raise ValueError(f"sliding_window is {window}")
    return int(window) if window else None


def _layer(shape: Shape, read: _Reader, kind: str, index: int) -> Layer | None:
    text = shape.text
    if kind == "none":
        return None
    if kind == "latent":
        indexer = int(text.get("index_head_dim") or 0) if text.get("index_topk") else 0
        return Latent(read.positive("kv_lora_rank"), read.number("qk_rope_head_dim"), indexer)
    if kind == "state":
        return _recurrent(shape, read)
    heads, key, value = attention_heads(shape, kind, index)
    if kind == "window":
        return Attention(heads, key, value, _window(text, shape.model_type))
    if kind == "chunk":
        return Attention(heads, key, value, read.positive("attention_chunk_size"), chunked=True)
    return Attention(heads, key, value)


def attention_heads(shape: Shape, kind: str, index: int) -> tuple[int, int, int]:
    """KV heads, key dimension and value dimension of an attention layer."""
    text = shape.text
    heads = _kv_heads(text, shape, index)
    key = shape.head_dim
    value = int(text.get("v_head_dim") or key)
    if kind == "window" and text.get("swa_num_key_value_heads"):
        heads = int(text["swa_num_key_value_heads"])
        key = int(text.get("swa_head_dim") or key)
        value = int(text.get("swa_v_head_dim") or value)
    elif kind == "full" and text.get("global_head_dim"):
        key = value = int(text["global_head_dim"])
        heads = int(text.get("num_global_key_value_heads") or heads)
    return heads, key, value


def _kv_heads(text: Mapping[str, Any], shape: Shape, index: int) -> int:
    if blocks := text.get("block_configs"):
        return shape.heads // int(blocks[index]["attention"].get("n_heads_in_group") or 1)
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    found = _first(
        text,
        "num_key_value_heads",
        "n_head_kv",
        "num_kv_heads",
        "multi_query_group_num",
        "num_attention_groups",
        default=(text.get("attn_config") or {}).get("kv_n_heads", shape.heads),
    )
    return int(found[index] if isinstance(found, Sequence) else found)


def _recurrent(shape: Shape, read: _Reader) -> Recurrent:
    text = shape.text
    if linear := text.get("linear_attn_config"):  # Kimi delta attention
        heads, dim = int(linear["num_heads"]), int(linear["head_dim"])
        return Recurrent(3 * heads * dim, int(linear["short_conv_kernel_size"]), heads * dim * dim, 4)
    if text.get("linear_num_value_heads"):  # gated delta net
        value = read.positive("linear_num_value_heads") * read.positive("linear_value_head_dim")
        keys = read.positive("linear_num_key_heads") * read.positive("linear_key_head_dim")
        state = value * read.positive("linear_key_head_dim")
        channels = 2 * keys + value
        return Recurrent(
            channels, read.positive("linear_conv_kernel_dim"), state, _state_bytes(text, "mamba_ssm_dtype")
        )
    if text.get("attn_type_list"):  # lightning attention
        return Recurrent(0, 1, shape.heads * shape.head_dim**2, 4)
    if heads := _first(text, "mamba_num_heads", "mamba_n_heads"):  # Mamba-2
        inner = int(heads) * read.positive("mamba_head_dim", "mamba_d_head")
        size = read.positive("ssm_state_size", "mamba_d_state")
        groups = read.positive("n_groups", "mamba_n_groups", default=1)
        kernel = read.positive("conv_kernel", "mamba_d_conv", default=4)
        return Recurrent(inner + 2 * groups * size, kernel, inner * size, _state_bytes(text, "mamba_ssm_cache_dtype"))
    inner = read.positive("mamba_expand", default=2) * shape.hidden  # Mamba-1
    size = read.positive("mamba_d_state", "state_size")
    return Recurrent(inner, read.positive("mamba_d_conv", "conv_kernel", default=4), inner * size)


def _state_bytes(text: Mapping[str, Any], key: str) -> int | None:
    value = _first(text, key, "mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    return {"float32": 4, "bfloat16": 2, "float16": 2}.get(str(value)) if value else None
