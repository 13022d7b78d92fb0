"""Batched bootstrap of means: one call for all columns, the same draws on every device and every shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval_kernels.bootstrap import reference
from gpueval_kernels.choice import Implementation, choose, device_of, launched_on, to_numpy, to_tensor


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Resampled estimates.

    Attributes:
        estimates: (resamples, columns) float64; NaN where every drawn unit weighs nothing in a column.
        implementation: What ran.
    """

    estimates: NDArray[np.float64]
    implementation: Implementation


def bootstrap(
    sums: Any,
    weights: Any = None,
    *,
    resamples: int = 2000,
    seed: int = 0,
    first_resample: int = 0,
    implementation: Implementation | None = None,
) -> Bootstrap:
    """Resample units with replacement and return the ratio ``sum(sums) / sum(weights)`` of every resample.

    For a mean of samples the units are the samples, ``sums`` their values and ``weights`` ones. For clustered data the
    units are the clusters, ``sums`` their sums and ``weights`` their sizes. For paired differences ``sums`` are the
    differences. A value that is missing in one column has the sum 0 and the weight 0 there. All columns of a call share
    their draws, so the differences of columns are paired.

    Resample b draws for position i the unit ``floor(w n / 2^32)``, where w is word ``i mod 4`` of Philox4x32-10
    (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011) with the key ``seed`` and the counter
    ``(i div 4, b, 0, 0)``. A unit's chance differs from 1/n by less than 2^-32.

    Args:
        sums: (n,) or (n, columns); NumPy array or torch tensor. Missing as above, never NaN.
        weights: Same shape as ``sums``, not negative; None is ones.
        resamples: B, at least 1.
        seed: 0 <= seed < 2^64. Same seed and n, same draws.
        first_resample: Number of the first resample; shards that take turns get the draws of one large call.
        implementation: Forces one; None is Triton for tensors on a GPU.

    Returns:
        The estimates. O(resamples x n) time, memory of the estimates and one block.

    Raises:
        ValueError: Shapes do not go together, n is 0, or a number is out of range.
    """
    values, n_resamples = sums, resamples
    if values.ndim == 1:
        values, weights = values[:, None], None if weights is None else weights[:, None]
    if values.ndim != 2 or not 0 < len(values) < 1 << 31:
        raise ValueError(f"sums have shape {tuple(sums.shape)}; (n,) or (n, columns) with at least one row are needed")
    if weights is not None and tuple(weights.shape) != tuple(values.shape):
        raise ValueError(f"weights have shape {tuple(weights.shape)}, sums {tuple(values.shape)}")
    if n_resamples < 1 or first_resample < 0 or first_resample + n_resamples > 1 << 31 or not 0 <= seed < 1 << 64:
        raise ValueError("resamples, first_resample or seed is out of range")
    chosen = choose(implementation, values)
    if chosen == "triton":
        from gpueval_kernels.bootstrap import triton_kernel

        device = device_of(values)
        weighted = None if weights is None else to_tensor(weights, device)
        with launched_on(device):
            found = to_numpy(triton_kernel.run(to_tensor(values, device), weighted, n_resamples, seed, first_resample))
    else:
        weighted = None if weights is None else to_numpy(weights).astype(np.float64)
        found = reference.run(to_numpy(values).astype(np.float64), weighted, n_resamples, seed, first_resample)
    return Bootstrap(found, chosen)
