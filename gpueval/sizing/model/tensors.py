"""The weight matrices of a model: counted from its configuration, or named from its files.

A matrix carries a role. The role decides whether a format quantises it, whether tensor parallelism divides it, and
whether a generated token reads it: the input embedding is looked up, of the routed experts only the chosen ones are
read, the vision tower and the draft layers not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpueval.sizing.model.config import Shape, attention_heads

REPLICATED = frozenset({"norm", "router", "latent_a", "indexer"})
UNREAD = frozenset({"embedding", "vision", "draft"})
_PLAIN = frozenset({"norm", "router", "embedding", "head", "vision", "conv"})


@dataclass(frozen=True, slots=True)
class Matrix:
    """``copies`` matrices of ``rows`` outputs and ``columns`` inputs.

    Attributes:
        role: ``embedding``, ``head``, ``attention_q|k|v|o``, ``latent_a|b``, ``indexer``, ``mlp_up``, ``mlp_down``,
            ``expert_up``, ``expert_down``, ``shared_expert``, ``router``, ``state``, ``conv``, ``norm``, ``vision``,
            ``draft``.
        layer: Layer number; -1 outside the layers.
    """

    role: str
    rows: int
    columns: int
    layer: int = -1
    copies: int = 1

    @property
    def parameters(self) -> int:
        """Weights in all copies."""
        return self.rows * self.columns * self.copies

    @property
    def quantised(self) -> bool:
        """Whether a weight format usually applies to it."""
        return self.role not in _PLAIN


def count(shape: Shape) -> list[Matrix]:
    """List the matrices that a configuration implies; biases and norms are summed per layer."""
    found = [Matrix("embedding", shape.vocab, shape.hidden)]
    if not tied(shape):
        found.append(Matrix("head", shape.vocab, shape.hidden))
    for index, kind in enumerate(shape.kinds):
        found += _mixer(shape, kind, index)
        found += _feed_forward(shape, index)
        found.append(Matrix("norm", 1, 2 * shape.hidden, index))
    found.append(Matrix("norm", 1, shape.hidden))
    found += _vision(shape)
    return found


def tied(shape: Shape) -> bool:
    """Whether the output head is the input embedding; where the key is absent, the architecture's own default."""
    value = shape.outer.get("tie_word_embeddings", shape.text.get("tie_word_embeddings"))
    return bool(value) if value is not None else shape.model_type.startswith(("gemma", "cohere", "gpt2", "falcon"))


def _mixer(shape: Shape, kind: str, index: int) -> Iterator[Matrix]:
    h, heads = shape.hidden, shape.heads
    if kind == "state":
        yield from _state(shape, index)
    elif kind == "latent":
        yield from _latent(shape, index)
    elif kind != "none" or _keeps_attention(shape):
        kv, key, value = attention_heads(shape, kind, index)
        gate = 2 if shape.get("attn_output_gate") or shape.model_type == "qwen3_next" else 1
        yield Matrix("attention_q", heads * key * gate, h, index)
        if kind != "none" or not shape.get("num_kv_shared_layers"):
            yield Matrix("attention_k", kv * key, h, index)
            yield Matrix("attention_v", kv * value, h, index)
        yield Matrix("attention_o", h, heads * value, index)
        if shape.get("attention_bias", "qkv_bias") or shape.model_type.startswith("qwen2"):
            yield Matrix("norm", 1, heads * key + 2 * kv * key, index)


def _keeps_attention(shape: Shape) -> bool:
    """Whether a layer without a cache of its own still attends (to another layer's cache)."""
    return not (shape.text.get("block_configs") or shape.text.get("hybrid_override_pattern"))


def _latent(shape: Shape, index: int) -> Iterator[Matrix]:
    h, heads = shape.hidden, shape.heads
    nope, rope = int(shape.get("qk_nope_head_dim", default=0)), int(shape.get("qk_rope_head_dim", default=0))
    rank, value = int(shape.text["kv_lora_rank"]), int(shape.get("v_head_dim", default=nope))
    query = heads * (nope + rope)
    if q_rank := shape.get("q_lora_rank"):
        yield Matrix("latent_a", int(q_rank), h, index)
        yield Matrix("latent_b", query, int(q_rank), index)
    else:
        yield Matrix("latent_b", query, h, index)
    yield Matrix("latent_a", rank + rope, h, index)
    yield Matrix("latent_b", heads * (nope + value), rank, index)
    yield Matrix("attention_o", h, heads * value, index)
    if shape.get("index_topk"):
        index_heads, dim = int(shape.get("index_n_heads", default=1)), int(shape.get("index_head_dim", default=128))
        yield Matrix("indexer", index_heads * dim, int(q_rank or h), index)
        yield Matrix("indexer", dim + index_heads, h, index)


def _state(shape: Shape, index: int) -> Iterator[Matrix]:
    h, get = shape.hidden, shape.get
    if linear := shape.text.get("linear_attn_config"):
        heads, dim = int(linear["num_heads"]), int(linear["head_dim"])
        inner = heads * dim
        yield Matrix("state", 4 * inner + heads + 2 * dim, h, index)
        yield Matrix("state", 2 * inner, dim, index)
        yield Matrix("conv", 3 * inner, int(linear["short_conv_kernel_size"]), index)
    elif get("linear_num_value_heads"):
        value = int(get("linear_num_value_heads")) * int(get("linear_value_head_dim"))
        keys = int(get("linear_num_key_heads")) * int(get("linear_key_head_dim"))
        yield Matrix("state", 2 * keys + 2 * value + 2 * int(get("linear_num_value_heads")), h, index)
        yield Matrix("state", h, value, index)
        yield Matrix("conv", 2 * keys + value, int(get("linear_conv_kernel_dim")), index)
    elif heads := get("mamba_num_heads", "mamba_n_heads"):
        inner = int(heads) * int(get("mamba_head_dim", "mamba_d_head"))
        bc = 2 * int(get("n_groups", "mamba_n_groups", default=1)) * int(get("ssm_state_size", "mamba_d_state"))
        yield Matrix("state", 2 * inner + bc + int(heads), h, index)
        yield Matrix("state", h, inner, index)
        yield Matrix("conv", inner + bc, int(get("conv_kernel", "mamba_d_conv", default=4)), index)
    elif shape.text.get("attn_type_list"):
        inner = shape.heads * shape.head_dim
        yield Matrix("state", 4 * inner, h, index)
        yield Matrix("state", h, inner, index)
    else:
        inner = int(get("mamba_expand", default=2)) * h
        size, step = int(get("mamba_d_state", "state_size")), int(get("mamba_dt_rank", default=-(-h // 16)))
        yield Matrix("state", 2 * inner, h, index)
        yield Matrix("state", step + 2 * size, inner, index)
        yield Matrix("state", inner, step + size, index)
        yield Matrix("state", h, inner, index)


def experts(shape: Shape) -> tuple[int, int]:
    """Routed experts of a layer and how many a token uses; ``(0, 0)`` for a dense model."""
    total = shape.get("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", default=0)
    total = total or (shape.text.get("ffn_config") or {}).get("moe_num_experts", 0)
    used = shape.get(
        "num_experts_per_tok", "top_k_experts", "num_experts_per_token", "experts_per_token", "moe_top_k", default=0
    )
    used = used or (shape.text.get("ffn_config") or {}).get("moe_top_k", 0)
    return int(total or 0), int(used or 0)


def _is_moe(shape: Shape, index: int) -> bool:
    if not experts(shape)[0]:
        return False
    get = shape.get
    if letters := shape.text.get("hybrid_override_pattern"):
        return bool(letters[index] == "E")
    if (listed := get("moe_layers_enum", "moe_layers")) is not None:
        numbers = [int(x) for x in listed.split(",")] if isinstance(listed, str) else listed
        return index in numbers
    if isinstance(frequency := get("moe_layer_freq"), list):
        return bool(frequency[index])
    if index < int(get("first_k_dense_replace", default=0)) or index in get("mlp_only_layers", default=()):
        return False
    if shape.model_type == "jamba":
        return index % int(get("expert_layer_period", default=2)) == int(get("expert_layer_offset", default=1))
    step = get("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", default=1)
    return (index + 1) % int(step) == 0


def _feed_forward(shape: Shape, index: int) -> Iterator[Matrix]:
    h, get = shape.hidden, shape.get
    width = feed_forward_width(shape, index)
    gated = _gated(shape)
    if (letters := shape.text.get("hybrid_override_pattern")) and letters[index] not in "E-":
        return
    if blocks := shape.text.get("block_configs"):
        ffn = blocks[index].get("ffn") or {}
        if ffn.get("no_op"):
            return
        if ffn.get("replace_with_linear"):
            yield Matrix("mlp_up", h, h, index)
            return
        width = _multiple_of_256(int(2 * float(ffn.get("ffn_mult", 1)) * h / 3)) if ffn.get("ffn_mult") else width
    if not _is_moe(shape, index):
        width = int(get("intermediate_size_mlp", default=width)) if shape.model_type.startswith("llama4") else width
        yield Matrix("mlp_up", width, h, index, 2 if gated else 1)
        yield Matrix("mlp_down", h, width, index)
        return
    total, _ = experts(shape)
    inner = expert_width(shape, index)
    side = int(get("moe_latent_size", default=h))
    yield Matrix("router", total, h, index)
    yield Matrix("expert_up", inner, side, index, total * (2 if gated else 1))
    yield Matrix("expert_down", side, inner, index, total)
    if side != h:
        yield Matrix("shared_expert", side, h, index, 2)
    if shared := _shared_width(shape, inner):
        yield Matrix("shared_expert", shared, h, index, 3 if gated else 2)
    if shape.model_type.startswith("gemma4"):  # Gemma 4 runs a dense block beside its experts
        yield Matrix("shared_expert", width, h, index, 3)


def feed_forward_width(shape: Shape, index: int) -> int:
    """Width of a layer's dense feed-forward block."""
    width: Any = shape.get("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * shape.hidden)
    return int(width[index] if isinstance(width, list) else width)


def expert_width(shape: Shape, index: int) -> int:
    """Width of one routed expert."""
    own = shape.get("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size")
    return int(own) if own else feed_forward_width(shape, index)


def _gated(shape: Shape) -> bool:
    if shape.model_type in ("nemotron_h", "nemotron", "gpt2", "gpt_neox", "opt", "falcon", "phi", "starcoder2"):
        return False
    return bool(shape.get("mlp_hidden_act", "hidden_act") != "relu2")


def _shared_width(shape: Shape, inner: int) -> int:
    get = shape.get
    if own := get(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
        "share_expert_dims",
    ):
        return int(own[0] if isinstance(own, list) else own)
    shared = get("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0)
    if shape.model_type.startswith("llama4"):
        shared = 1
    return int(shared) * inner


def _vision(shape: Shape) -> Iterator[Matrix]:
    vision = shape.outer.get("vision_config")
    if not isinstance(vision, dict):
        return
    width = int(vision.get("hidden_size") or 0)
    depth = int(vision.get("num_hidden_layers") or vision.get("depth") or 0)
    inner = int(vision.get("intermediate_size") or 4 * width)
    if width and depth:
        yield Matrix("vision", 4 * width + 2 * inner, width, copies=depth)


def _multiple_of_256(value: int) -> int:
    return -(-value // 256) * 256


_ROLES = tuple(
    (re.compile(pattern), role)
    for pattern, role in (
        (r"(^|\.)(mtp|nextn|eh_proj|draft)", "draft"),
        (r"vision|visual|image|mm_proj|multi_modal|audio|^v\.|patch_embd", "vision"),
        (r"norm|bias$|inv_freq|sinks$|dt_bias|A_log|\.D$|exp_probs", "norm"),
        (r"embed_tokens|token_embd|wte|word_embeddings|embed_in|tok_embeddings", "embedding"),
        (r"lm_head|^output\.weight|embed_out", "head"),
        (r"shared_expert|shexp|share_expert", "shared_expert"),
        (r"experts.*(down_proj|w2|\.down)|ffn_down_exps", "expert_down"),
        (r"experts|_exps", "expert_up"),
        (r"(mlp|moe|block_sparse_moe|mixer|feed_forward)\.(gate|router)\.|router|ffn_gate_inp", "router"),
        (r"indexer", "indexer"),
        (r"q_a_proj|kv_a_proj|attn_q_a|attn_kv_a", "latent_a"),
        (r"q_b_proj|kv_b_proj|attn_q_b|attn_kv_b|attn_[kv]_b", "latent_b"),
        (r"conv1d|ssm_conv", "conv"),
        (r"linear_attn|mamba|ssm_", "state"),
        (r"q_proj|attn_q|wq", "attention_q"),
        (r"k_proj|attn_k|wk", "attention_k"),
        (r"v_proj|attn_v|wv", "attention_v"),
        (r"o_proj|attn_output|wo\.|qkv|c_attn|dense\b", "attention_o"),
        (r"down_proj|ffn_down|w2|c_proj|dense_4h", "mlp_down"),
        (r"mixer\.(in|out)_proj", "state"),
    )
)


def role_of(name: str) -> str:
    """Guess the role from a tensor's name in a safetensors or GGUF file."""
    return next((role for pattern, role in _ROLES if pattern.search(name)), "mlp_up")
