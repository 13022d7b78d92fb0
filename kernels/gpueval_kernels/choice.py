"""Which implementation of an operation runs."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Implementation = Literal["reference", "triton"]

_FIRST_CAPABILITY = (8, 0)


def choose(wanted: Implementation | None, *arrays: Any) -> Implementation:
    """Choose Triton for tensors on an NVIDIA GPU of compute capability 8.0 or later, else the reference.

    Args:
        wanted: Forces one; None follows ``GPUEVAL_KERNELS`` (``reference`` or ``triton``), then the arrays.
        arrays: Inputs: NumPy arrays or torch tensors.

    Raises:
        ValueError: An unknown implementation is asked for.
    """
    asked = wanted or os.environ.get("GPUEVAL_KERNELS")
    if asked == "triton":
        return "triton"
    if asked == "reference":
        return "reference"
    if asked:
        raise ValueError(f"unknown implementation '{asked}'; it is 'reference' or 'triton'")
    if not any(getattr(array, "is_cuda", False) for array in arrays) or find_spec("triton") is None:
        return "reference"
    import torch

    return "triton" if torch.cuda.get_device_capability() >= _FIRST_CAPABILITY else "reference"


def to_numpy(array: Any) -> NDArray[Any]:
    """Return a NumPy array of an array or a tensor of any device; bfloat16, which NumPy lacks, becomes float32."""
    if not hasattr(array, "detach"):
        return np.asarray(array)
    tensor = array.detach().cpu()
    found: NDArray[Any] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    return found


def to_tensor(array: Any, like: Any = None) -> Any:
    """Return a contiguous torch tensor, on the device of ``like`` where that is a tensor."""
    import torch

    tensor = array if isinstance(array, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(array))
    return (tensor.to(like.device) if isinstance(like, torch.Tensor) else tensor).contiguous()
