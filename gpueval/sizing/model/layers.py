"""What each layer of a model keeps per token or per sequence while it generates.

A model is a list of layers; a layer that keeps nothing (a plain MLP block, a layer that shares another one's cache) is
not in the list. Element sizes are bytes and may be fractions (4-bit caches).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attention:
    """Keys and values of every token, or of the last ``window`` tokens.

    Attributes:
        kv_heads: Key and value heads over all ranks.
        key_dim: Numbers per key head.
        value_dim: Numbers per value head.
        window: Tokens a layer looks back; None for all.
        chunked: The window is a fixed chunk (Llama 4) and does not slide.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False

    def bytes_per_token(self, element_bytes: float, ranks: int = 1) -> float:
        """``max(1, kv_heads // ranks) * (key_dim + value_dim) * element_bytes`` on one rank."""
        return max(1, self.kv_heads // ranks) * (self.key_dim + self.value_dim) * element_bytes


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: one compressed vector per token, the same on every rank.

    Attributes:
        rank: ``kv_lora_rank``.
        rope_dim: ``qk_rope_head_dim``.
        indexer_dim: Numbers per token of a sparse-attention indexer's key (fp8 with one fp32 scale per 128); 0 without.
    """

    rank: int
    rope_dim: int
    indexer_dim: int = 0

    @property
    def window(self) -> None:
        """No limit: latent layers look back over everything."""
        return

    def bytes_per_token(self, element_bytes: float, ranks: int = 1) -> float:
        """``(rank + rope_dim) * element_bytes`` and the indexer's key; tensor parallelism does not divide it."""
        del ranks
        return (self.rank + self.rope_dim) * element_bytes + self.indexer_dim + self.indexer_dim // 128 * 4


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A state of fixed size per sequence: Mamba, gated delta net, linear attention.

    Attributes:
        conv_channels: Channels of the short convolution.
        conv_kernel: Its width; ``conv_kernel - 1`` past inputs are kept.
        state_elements: Numbers of the recurrent state.
        state_bytes: Bytes of one of them; None follows the model's number format.
    """

    conv_channels: int
    conv_kernel: int
    state_elements: int
    state_bytes: int | None = None

    def bytes_per_sequence(self, model_bytes: float, ranks: int = 1, draft_tokens: int = 0) -> float:
        """``(conv_kernel - 1 + draft_tokens) * conv_channels / ranks`` inputs and the state on one rank."""
        conv = (self.conv_kernel - 1 + draft_tokens) * self.conv_channels / ranks * model_bytes
        return conv + self.state_elements / ranks * (self.state_bytes or model_bytes)


Layer = Attention | Latent | Recurrent


def growing_bytes_per_token(layers: Iterable[Layer], element_bytes: float, ranks: int = 1) -> float:
    """Bytes that each further token adds on one rank: layers without a window."""
    return sum(
        layer.bytes_per_token(element_bytes, ranks)
        for layer in layers
        if not isinstance(layer, Recurrent) and layer.window is None
    )


def fixed_bytes_per_sequence(
    layers: Iterable[Layer],
    element_bytes: float,
    model_bytes: float,
    ranks: int = 1,
    context_tokens: int | None = None,
) -> float:
    """Bytes a sequence needs beside the growing part: full windows (at most ``context_tokens``) and states."""
    total = 0.0
    for layer in layers:
        if isinstance(layer, Recurrent):
            total += layer.bytes_per_sequence(model_bytes, ranks)
        elif layer.window is not None:
            kept = layer.window if context_tokens is None else min(layer.window, context_tokens)
            total += kept * layer.bytes_per_token(element_bytes, ranks)
    return total
