"""Which implementation of an operation runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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

    device = next(array.device for array in arrays if getattr(array, "is_cuda", False))
    return "triton" if torch.cuda.get_device_capability(device) >= _FIRST_CAPABILITY else "reference"


def to_numpy(array: Any) -> NDArray[Any]:
    """Return a NumPy array of an array or a tensor of any device; bfloat16, which NumPy lacks, becomes float32."""
    if not hasattr(array, "detach"):
        return np.asarray(array)
    tensor = array.detach().cpu()
    found: NDArray[Any] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    return found


def device_of(*arrays: Any) -> Any:
    """Return the device of the first tensor on a GPU, else the processor."""
    import torch

    on_gpu = (array.device for array in arrays if getattr(array, "is_cuda", False))
    return next(on_gpu, torch.device("cpu"))


def to_tensor(array: Any, device: Any) -> Any:
    """Return a contiguous torch tensor on a device."""
    import torch

    if isinstance(array, torch.Tensor):
        return array.to(device).contiguous()
    given = np.ascontiguousarray(array)
    return torch.from_numpy(given if given.flags.writeable else given.copy()).to(device)


def to_floats(array: Any, device: Any) -> Any:
    """Return a tensor of a type that the kernels multiply: others than float16, bfloat16 and float32 become float32."""
    import torch

    tensor = to_tensor(array, device)
    return tensor if tensor.dtype in (torch.float16, torch.bfloat16, torch.float32) else tensor.float()


@contextmanager
def launched_on(device: Any) -> Iterator[None]:
    """Launch kernels on a device: Triton asks for the current one, not for that of its tensors."""
    import torch

    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        yield
