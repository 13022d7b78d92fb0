"""Memory of a model under an engine: every term apart, low / mid / high, in bytes. Pure.

vLLM on a GPU divides ``utilisation * total``: weights, CUDA context and what libraries hold, captured graphs, the
peak of one prefill step, and the KV cache gets the rest. llama.cpp and MLX allocate what they need beside weights
and cache. The overhead terms are priors until this machine has launched the engine once
(:mod:`gpueval.sizing.actuals`).

Peak of a prefill step of T tokens (sum of what is alive at once, after vLLM's model code)::

    logits      max_seqs * vocabulary * 6        16-bit logits and their fp32 copy, sampled positions only
    feed-forward    T * 2 f / ranks * 2, or T * k * (2 f_expert + h) * 2 for routed experts
    residual        5 * T * h * 2
    attention       T * (heads + 2 kv_heads) * head_dim / ranks * 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpueval.errors import UsageError
from gpueval.sizing.kv_blocks import Layout, layout
from gpueval.sizing.model import ModelSpec
from gpueval.sizing.model.formats import KV_BYTES
from gpueval.sizing.model.layers import Attention, fixed_bytes_per_sequence, growing_bytes_per_token
from gpueval.sizing.model.tensors import expert_width, feed_forward_width
from gpueval.units import GIB

EngineName = Literal["vllm", "vllm-cpu", "llama.cpp"]

DEFAULT_UTILISATION = 0.92
"""vLLM's default since 0.24; 0.90 before."""


@dataclass(frozen=True, slots=True)
class Range:
    """A quantity that is known within bounds, in the unit its name says."""

    low: float
    mid: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.mid + other.mid, self.high + other.high)

    def plus(self, amount: float) -> Range:
        """The range moved by an exact amount."""
        return Range(self.low + amount, self.mid + amount, self.high + amount)


@dataclass(frozen=True, slots=True)
class Load:
    """What the model has to do.

    Attributes:
        context_tokens: Longest sequence, prompt and reply.
        concurrency: Sequences at once.
        kv_dtype: Format of the KV cache; ``auto`` is the model's own.
        ranks: Tensor-parallel ranks.
        utilisation: Share of a GPU's memory that vLLM takes.
        batch_tokens: Most tokens of one step.
        block_tokens: Tokens per block.
        draft_tokens: Speculative tokens per step.
        graphs: CUDA graphs are captured.
        prefix_caching: Shared prefixes are kept.
    """

    context_tokens: int = 8192
    concurrency: int = 1
    kv_dtype: str = "auto"
    ranks: int = 1
    utilisation: float = DEFAULT_UTILISATION
    batch_tokens: int = 8192
    block_tokens: int = 16
    draft_tokens: int = 0
    graphs: bool = True
    prefix_caching: bool = True


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What one rank needs and has, in bytes.

    Attributes:
        weights: Weights.
        kv_per_token: What each further token of a sequence adds.
        kv_per_sequence_fixed: Full windows and states of a sequence.
        kv_cache: Cache for the load.
        overhead: Everything else, term by term.
        available: What the engine may take at all; None when the device's memory is unknown.
        kv_available: What is left for the cache; may be negative.
        max_context_tokens: Longest sequence at the load's concurrency; 0 when none fits.
        max_concurrency: Sequences of the load's length at once; 0 when none fits.
        fits: ``yes`` even with the high overhead, ``tight`` with the middle one, ``no``, or ``unknown``.
    """

    weights: int
    kv_per_token: float
    kv_per_sequence_fixed: float
    kv_cache: int
    overhead: dict[str, Range]
    available: int | None
    kv_available: Range | None
    max_context_tokens: int
    max_concurrency: float
    fits: str
    layout: Layout | None = field(default=None, repr=False)

    @property
    def overhead_total(self) -> Range:
        """Sum of the overhead terms."""
        return _sum(self.overhead)

    @property
    def total(self) -> Range:
        """Weights, cache and overhead."""
        return self.overhead_total.plus(self.weights + self.kv_cache)


def _sum(terms: Mapping[str, Range]) -> Range:
    total = Range(0, 0, 0)
    for term in terms.values():
        total = total + term
    return total


def kv_element_bytes(kv_dtype: str, model: ModelSpec) -> float:
    """Bytes of a number in the KV cache.

    Raises:
        UsageError: Unknown format.
    """
    if kv_dtype not in KV_BYTES:
        raise UsageError(f"Unknown format '{kv_dtype}' of the KV cache.", f"Known: {', '.join(KV_BYTES)}")
    return float(model.model_bytes) if kv_dtype == "auto" else KV_BYTES[kv_dtype]


def estimate(
    model: ModelSpec,
    load: Load,
    engine: EngineName,
    available_bytes: int | None,
    measured_overhead_bytes: float | None = None,
) -> MemoryEstimate:
    """Estimate one rank.

    Args:
        model: The model.
        load: The work.
        engine: Engine whose rules apply.
        available_bytes: What the engine may take on the rank's device.
        measured_overhead_bytes: Overhead that this machine showed at an earlier launch; replaces the prior.
    """
    element, ranks = kv_element_bytes(load.kv_dtype, model), load.ranks
    weights = model.rank_bytes(ranks, padded=engine.startswith("vllm"))
    overhead = _overhead(model, load, engine)
    if measured_overhead_bytes is not None:
        overhead = {
            "measured": Range(0.95 * measured_overhead_bytes, measured_overhead_bytes, 1.1 * measured_overhead_bytes)
        }
    cut = None
    if engine != "llama.cpp":
        cut = layout(
            model.layers,
            element_bytes=element,
            model_bytes=model.model_bytes,
            ranks=ranks,
            block_tokens=load.block_tokens,
            draft_tokens=load.draft_tokens,
            prefix_caching=load.prefix_caching,
        )
    sized = _Sized(model, load, element, cut)
    kv = sized.cache(load.context_tokens, load.concurrency)
    total = _sum(overhead)
    left = None
    longest, most, fits = 0, 0.0, "unknown"
    if available_bytes is not None:
        rest = available_bytes - weights
        left = Range(rest - total.high, rest - total.mid, rest - total.low)
        fits = "yes" if kv <= left.low else "tight" if kv <= left.mid else "no"
        longest, most = sized.longest(left.mid), sized.most(left.mid)
    return MemoryEstimate(
        weights=weights,
        kv_per_token=growing_bytes_per_token(model.layers, element, ranks),
        kv_per_sequence_fixed=fixed_bytes_per_sequence(
            model.layers, element, model.model_bytes, ranks, load.context_tokens
        ),
        kv_cache=kv,
        overhead=overhead,
        available=available_bytes,
        kv_available=left,
        max_context_tokens=longest,
        max_concurrency=most,
        fits=fits,
        layout=cut,
    )


@dataclass(frozen=True, slots=True)
class _Sized:
    """The cache as a function of length and number of sequences."""

    model: ModelSpec
    load: Load
    element: float
    cut: Layout | None

    def cache(self, tokens: int, sequences: int) -> int:
        if self.cut is not None:
            return self.cut.blocks_per_sequence(tokens, self._in_flight()) * sequences * self.cut.bytes_per_block
        growing = growing_bytes_per_token(self.model.layers, self.element, self.load.ranks)
        fixed = fixed_bytes_per_sequence(
            self.model.layers, self.element, self.model.model_bytes, self.load.ranks, tokens
        )
        return round((growing * tokens + fixed) * sequences)

    def _in_flight(self) -> int:
        return 2 * self.load.batch_tokens

    def most(self, available: float) -> float:
        need = self.cache(self.load.context_tokens, 1)
        return max(0.0, available / need) if need else float(self.load.concurrency)

    def longest(self, available: float) -> int:
        low, high = 0, self.model.shape.max_context or 1 << 22
        if self.cache(high, self.load.concurrency) <= available:
            return high
        while high - low > 1:
            middle = (low + high) // 2
            if self.cache(middle, self.load.concurrency) <= available:
                low = middle
            else:
                high = middle
        return low


def activation_bytes(model: ModelSpec, load: Load) -> float:
    """Peak of one prefill step of ``load.batch_tokens`` tokens on one rank; the formula is the module's."""
    shape, ranks, t = model.shape, load.ranks, load.batch_tokens
    logits = max(load.concurrency, 1) * shape.vocab * 6 / ranks
    last = shape.n_layers - 1
    feed = t * 2 * feed_forward_width(shape, last) / ranks * 2
    if model.experts[0]:
        feed = t * model.experts[1] * (2 * expert_width(shape, last) / ranks + shape.hidden) * 2
    kv = max((layer.kv_heads for layer in model.layers if isinstance(layer, Attention)), default=shape.heads)
    attention = t * (shape.heads + 2 * kv) * shape.head_dim / ranks * 2
    return logits + feed + 5 * t * shape.hidden * 2 + attention


def _overhead(model: ModelSpec, load: Load, engine: EngineName) -> dict[str, Range]:
    if engine == "llama.cpp":
        ubatch = min(512, load.batch_tokens)
        buffer = ubatch * (model.shape.vocab * 4 + 24 * model.shape.hidden * 2)
        return {
            "compute_buffer": Range(0.7 * buffer, buffer, 2.0 * buffer),
            "context": Range(0.15 * GIB, 0.35 * GIB, 0.7 * GIB),
        }
    peak = activation_bytes(model, load)
    if engine == "vllm-cpu":
        return {"activation": Range(0.5 * peak, peak, 2 * peak), "libraries": Range(0.9 * GIB, 1.4 * GIB, 2.4 * GIB)}
    terms = {
        "activation": Range(0.7 * peak, peak, 1.5 * peak),
        "context": Range(0.35 * GIB, 0.7 * GIB, 1.8 * GIB)
        if load.ranks == 1
        else Range(0.5 * GIB, 1.1 * GIB, 2.6 * GIB),
    }
    if load.graphs:
        terms["graphs"] = Range(0.1 * GIB, 0.5 * GIB, 1.2 * GIB)
    return terms
