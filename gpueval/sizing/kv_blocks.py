"""vLLM's arithmetic of KV-cache blocks and groups, as version 0.33 does it (``vllm/v1/core/kv_cache_utils.py``).

A page is what one layer keeps for one block of tokens. Layers of one kind form a group; every group of a model has
equally many layers and one common page size, so a block id costs ``group_size * page`` bytes and each group uses up ids
of its own. A recurrent state is a page too: attention blocks are stretched until their page holds a state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gpueval.sizing.model.layers import Attention, Latent, Layer, Recurrent

_EVEN_COUNTS = 1.5
"""Layer counts of kinds within this factor are padded to the largest instead of cut to the smallest."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers of one kind that share block ids.

    Attributes:
        copies: Groups of this kind.
        block_tokens: Tokens of a block; for states the tokens of the stretched attention block.
        window: Tokens looked back; None for all.
        chunked: The window does not slide.
        states: Blocks a sequence needs whatever its length; 0 for attention.
    """

    copies: int
    block_tokens: int
    window: int | None = None
    chunked: bool = False
    states: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """How the cache is cut.

    Attributes:
        block_tokens: Tokens of an attention block.
        bytes_per_block: Bytes behind one block id.
        groups: The groups.
    """

    block_tokens: int
    bytes_per_block: int
    groups: tuple[Group, ...]

    def blocks_per_sequence(self, tokens: int, in_flight_tokens: int = 0) -> int:
        """Block ids that a sequence of ``tokens`` holds.

        Full: ``ceil(L / block)``. Sliding window: ``ceil(min(W - 1 + in_flight, L) / block) + 1``. Chunk:
        ``ceil(min(C + in_flight, L) / block)``. State: fixed.

        Args:
            tokens: Length of the sequence.
            in_flight_tokens: Tokens that running steps may add before old ones are freed.
        """
        total = 0
        for group in self.groups:
            if group.states:
                need = group.states
            elif group.window is None:
                need = ceil(tokens / group.block_tokens)
            elif group.chunked:
                need = ceil(min(group.window + in_flight_tokens, tokens) / group.block_tokens)
            else:
                need = ceil(min(group.window - 1 + in_flight_tokens, tokens) / group.block_tokens) + 1
            total += group.copies * need
        return total

    def blocks(self, available_bytes: float) -> int:
        """Block ids that fit into a cache."""
        return int(available_bytes // self.bytes_per_block) if self.bytes_per_block else 0

    def concurrency(self, blocks: int, tokens: int, in_flight_tokens: int = 0) -> float:
        """Sequences of full length that run at once, as vLLM prints it."""
        need = self.blocks_per_sequence(tokens, in_flight_tokens)
        return blocks / need if need else 0.0


def layout(
    layers: Sequence[Layer],
    *,
    element_bytes: float,
    model_bytes: int,
    ranks: int = 1,
    block_tokens: int = 16,
    draft_tokens: int = 0,
    prefix_caching: bool = True,
) -> Layout | None:
    """Cut the cache of a model as vLLM does.

    Args:
        layers: Layers that keep something.
        element_bytes: Bytes of a number in the KV cache.
        model_bytes: Bytes of a number in the convolution states.
        ranks: Tensor-parallel ranks; the layout is one rank's.
        block_tokens: Wished block size.
        draft_tokens: Speculative tokens per step.
        prefix_caching: With it a state needs one block more (vLLM's ``align`` mode).

    Returns:
        None for a model that keeps nothing (an encoder).
    """
    if not layers:
        return None
    per_token = [
        (layer, layer.bytes_per_token(element_bytes, ranks))
        for layer in layers
        if isinstance(layer, Attention | Latent)
    ]
    states = [layer for layer in layers if isinstance(layer, Recurrent)]
    if not states and all(layer.window is None for layer, _ in per_token):
        total = sum(size for _, size in per_token)
        return Layout(block_tokens, round(block_tokens * total), (Group(1, block_tokens),))
    kinds = Counter((size, layer.window, getattr(layer, "chunked", False)) for layer, size in per_token)
    state_page = max((state.bytes_per_sequence(model_bytes, ranks, draft_tokens) for state in states), default=0)
    largest = max((size for size, _, _ in kinds), default=0.0)
    if states and largest and state_page > block_tokens * largest:
        block_tokens = ceil(ceil(state_page / largest) / 16) * 16
    page = max(block_tokens * largest, state_page)
    counts = [*kinds.values(), *([len(states)] if states else [])]
    size = max(counts) if max(counts) < _EVEN_COUNTS * min(counts) else min(counts)
    groups = [
        Group(ceil(count / size), max(block_tokens, int(page // per)), window, chunked)
        for (per, window, chunked), count in kinds.items()
    ]
    if states:
        held = 1 + draft_tokens + (1 if prefix_caching else 0)
        groups.append(Group(ceil(len(states) / size), block_tokens, states=held))
    return Layout(block_tokens, round(size * page), tuple(groups))
