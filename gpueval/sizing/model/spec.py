"""A model as sizing sees it: its layers, and its weights by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpueval.sizing.model.config import Shape
from gpueval.sizing.model.formats import DTYPE_BYTES
from gpueval.sizing.model.layers import Attention, Layer
from gpueval.sizing.model.tensors import REPLICATED, UNREAD, experts, feed_forward_width, tied


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as sizing sees it.

    Attributes:
        name: Preset name, folder or file.
        source: What the numbers were read from.
        shape: The configuration.
        format: Weight format.
        bytes_by_role: Bytes of the weights per role; exact where they were read from a file.
        parameters_by_role: Weights per role, counted from the configuration.
        exact: Whether the bytes were read from headers.
        approximations: What was taken for granted.
    """

    name: str
    source: str
    shape: Shape
    format: str
    bytes_by_role: Mapping[str, float]
    parameters_by_role: Mapping[str, int]
    exact: bool
    approximations: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers that keep something per token or sequence."""
        return self.shape.layers

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self.shape.n_layers

    @property
    def weight_bytes(self) -> int:
        """Bytes an engine loads: everything but the draft layers."""
        return round(sum(size for role, size in self.bytes_by_role.items() if role != "draft"))

    @property
    def parameters(self) -> int:
        """All weights but the draft layers'."""
        return sum(n for role, n in self.parameters_by_role.items() if role != "draft")

    @property
    def active_parameters(self) -> float:
        """Weights that one token multiplies: the chosen experts, no look-ups."""
        return self._read(self.parameters_by_role, self.expert_share(1))

    @property
    def prompt_parameters(self) -> float:
        """Weights that every prompt token multiplies: the active ones without the output head."""
        head = "embedding" if tied(self.shape) else "head"
        return self.active_parameters - self.parameters_by_role.get(head, 0)

    @property
    def experts(self) -> tuple[int, int]:
        """Routed experts per layer and how many a token uses."""
        return experts(self.shape)

    @property
    def model_bytes(self) -> int:
        """Bytes of the format that activations, states and an ``auto`` KV cache have."""
        return DTYPE_BYTES.get(self.shape.dtype, 2)

    def expert_share(self, batch: int) -> float:
        """Share of the routed experts that a step of ``batch`` tokens reads: ``1 - (1 - k / E)^batch``, uniform
        routing.
        """
        total, used = self.experts
        return 1.0 if not total else 1 - (1 - used / total) ** batch

    def read_bytes(self, batch: int = 1) -> float:
        """Weight bytes that one step of ``batch`` tokens reads."""
        return self._read(self.bytes_by_role, self.expert_share(batch))

    def splits_over(self, ranks: int) -> bool:
        """Whether vLLM's tensor parallelism can divide the model: query heads and feed-forward width evenly, KV heads
        evenly or as whole copies.
        """
        kv = {layer.kv_heads for layer in self.layers if isinstance(layer, Attention)}
        widths = [feed_forward_width(self.shape, index) for index in (0, self.n_layers - 1)]
        return (
            self.shape.heads % ranks == 0
            and all(n % ranks == 0 or ranks % n == 0 for n in kv)
            and all(width % ranks == 0 for width in widths)
        )

    def in_16_bit(self) -> ModelSpec:
        """The model as vLLM loads it: 32-bit weights become 16-bit ones."""
        if self.format != "fp32":
            return self
        halved = {role: size / 2 for role, size in self.bytes_by_role.items()}
        return replace(self, format="bf16", bytes_by_role=halved, shape=replace(self.shape, dtype="bfloat16"))

    def rank_bytes(self, ranks: int, *, padded: bool = False) -> int:
        """Weight bytes on one of ``ranks`` tensor-parallel ranks: norms, routers and latent down-projections are
        copied.

        Args:
            ranks: Ranks.
            padded: With what vLLM adds when it loads: its MXFP4 kernels pad the experts' hidden side to 256 columns.
        """
        total = 0.0
        kv = min((layer.kv_heads for layer in self.layers if isinstance(layer, Attention)), default=ranks)
        for role, size in self.bytes_by_role.items():
            if role == "draft":
                continue
            share = 1 if role in REPLICATED else ranks
            if role in ("attention_k", "attention_v"):
                share = min(ranks, max(1, kv))
            pad = 1.0
            if padded and self.format == "mxfp4" and role in ("expert_up", "expert_down"):
                pad = -(-self.shape.hidden // 256) * 256 / self.shape.hidden
            total += size * pad / share
        return round(total)

    def _read(self, amounts: Mapping[str, float], share: float) -> float:
        total = 0.0
        for role, amount in amounts.items():
            if role.startswith("expert_"):
                total += amount * share
            elif role not in UNREAD or (role == "embedding" and tied(self.shape)):
                total += amount
        return total
