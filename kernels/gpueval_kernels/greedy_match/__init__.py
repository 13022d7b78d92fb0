"""Greedy matching of tokens: for many pairs of texts, each token's most similar token in the other text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval_kernels.choice import Implementation, choose, device_of, to_floats, to_numpy
from gpueval_kernels.greedy_match import reference


@dataclass(frozen=True, slots=True)
class Matches:
    """Best matches of every pair, in the order of the pairs; T and U are sums over all pairs.

    Attributes:
        precision: (pairs,) weighted mean of the first text's best similarities; 0 without weight.
        recall: (pairs,) the same of the second text.
        f1: (pairs,) ``2 P R / (P + R)``; 0 where P + R is not positive.
        first_best: (T,) best cosine of each token of the first text; 0 without a match.
        first_at: (T,) position of that match in the second text, the first of equals; -1 without a match.
        first_offsets: (pairs + 1,) where each pair's tokens begin.
        second_best, second_at, second_offsets: The same for the second text, (U,) and (pairs + 1,).
        implementation: What ran.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    first_best: NDArray[np.float32]
    first_at: NDArray[np.int32]
    first_offsets: NDArray[np.int64]
    second_best: NDArray[np.float32]
    second_at: NDArray[np.int32]
    second_offsets: NDArray[np.int64]
    implementation: Implementation


def greedy_match(
    tokens: Any,
    offsets: NDArray[np.int64],
    pairs: NDArray[np.int64],
    *,
    weights: NDArray[np.floating] | None = None,
    implementation: Implementation | None = None,
) -> Matches:
    """Match tokens of pairs of texts by their cosine.

    With the first text x and the second y of a pair: ``P = sum_i w_i max_j cos(x_i, y_j) / sum_i w_i`` and R the same
    with x and y exchanged: BERTScore (Zhang et al., BERTScore: evaluating text generation with BERT, ICLR 2020), with
    x the candidate, y the reference and w inverse document frequencies or ones. MaxSim of a query x is
    ``sum(first_best)`` of its pair. ``first_at`` aligns a claim with its evidence.

    A token of length 0 (below 2^-45) has the cosine 0 with all. A token with a NaN or an infinity, or whose squared
    length exceeds float32, matches nothing and is matched by nothing; its own best is 0 and counts with its weight.

    Args:
        tokens: (n, d) vectors of all texts, one text after the other; float32, float16 or bfloat16, NumPy or torch.
        offsets: (texts + 1,) where each text begins, from 0 to n.
        pairs: (pairs, 2) numbers of the texts to match; a text may stand in many pairs.
        weights: (n,) weight of each token, not negative; a token of weight 0 can still be matched. None is ones.
        implementation: Forces one; None is Triton for tensors on a GPU.

    Returns:
        The matches. O(sum over pairs of |x| |y| d) time; memory O(sum over pairs of |x| + |y|): a pair's table of
        cosines is never kept.

    Raises:
        ValueError: Shapes do not go together, or a pair names a text that is not there.
    """
    offsets, pairs = np.asarray(offsets, np.int64), np.asarray(pairs, np.int64).reshape(-1, 2)
    n = len(tokens)
    if tokens.ndim != 2 or offsets.ndim != 1 or not len(offsets):
        raise ValueError("tokens must have two dimensions and offsets one, with at least one entry")
    if offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must rise from 0 to the number of tokens, {n}")
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < len(offsets) - 1):
        raise ValueError(f"pairs name texts outside 0 to {len(offsets) - 2}")
    w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any():
        raise ValueError(f"weights must be {n} finite numbers, none below 0")
    chosen = choose(implementation, tokens)
    best: Any
    if chosen == "triton":
        from gpueval_kernels.greedy_match import triton_kernel

        best = triton_kernel.Matcher(to_floats(tokens, device_of(tokens)), offsets)
    else:
        best = reference.Matcher(to_numpy(tokens), offsets)
    sides: list[tuple[Any, ...]] = []
    for x, y in ((0, 1), (1, 0)):
        lengths = np.diff(offsets)[pairs[:, x]]
        begins = np.concatenate([[0], np.cumsum(lengths)])
        value, at = best.of(pairs[:, x], pairs[:, y], begins)
        own = w[np.arange(begins[-1]) - np.repeat(begins[:-1] - offsets[:-1][pairs[:, x]], lengths)]
        pair = np.repeat(np.arange(len(pairs)), lengths)
        total = np.bincount(pair, own, len(pairs))
        score = np.bincount(pair, own * value, len(pairs))
        sides.append((np.divide(score, total, out=np.zeros(len(pairs)), where=total > 0), value, at, begins))
    (precision, first_best, first_at, first_offsets), (recall, second_best, second_at, second_offsets) = sides
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros(len(pairs)), where=both > 0)
    return Matches(
        precision, recall, f1, first_best, first_at, first_offsets, second_best, second_at, second_offsets, chosen
    )
