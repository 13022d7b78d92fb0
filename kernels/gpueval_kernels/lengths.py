"""Lengths of vectors, and which vectors take part: the same rule for every operation and implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SHORTEST = 2.0**-45
"""A vector below this length counts as one of length 0: its squares leave float32's range."""


def lengths(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return (n,) lengths; infinite for a vector with a NaN or an infinity, or whose squared length exceeds float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        made = vectors.astype(np.float32, copy=False)
        square = np.einsum("ij,ij->i", made, made)
    length: NDArray[np.float32] = np.sqrt(np.where(np.isfinite(square), square, np.float32(np.inf)))
    return length


def prepared(vectors: NDArray[np.floating], length: NDArray[np.float32], *, unit: bool) -> NDArray[np.float32]:
    """Return a float32 copy, 0 for what takes no part; with ``unit`` of length 1, or 0 below :data:`SHORTEST`."""
    fit = np.isfinite(length)
    with np.errstate(over="ignore"):
        made = vectors.astype(np.float32)
    made[~fit] = 0
    if not unit:
        return made
    return np.divide(made, length[:, None], out=np.zeros_like(made), where=(fit & (length >= SHORTEST))[:, None])


def lengths_of_tensor(vectors: Any) -> Any:
    """Do as :func:`lengths`, without a float copy of all vectors."""
    import torch

    length = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float32)
    return torch.where(torch.isfinite(length * length), length, float("inf"))


def scale(length: Any, cosine: bool = True) -> Any:
    """Return what a product is multiplied by: 1 / length, 0 for length 0, NaN where a vector takes no part."""
    import torch

    made = torch.where(length >= SHORTEST, 1 / length, 0.0) if cosine else torch.ones_like(length)
    return torch.where(torch.isfinite(length), made, float("nan"))
