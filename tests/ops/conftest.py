"""The kernels run under Triton's interpreter, or compiled on a GPU where GPUEVAL_GPU_CHECK is set.

Triton decides when it is imported, for the whole process, so these tests have a process of their own:
``TRITON_INTERPRET=1 python -m pytest tests/ops``.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

ON_GPU = bool(os.environ.get("GPUEVAL_GPU_CHECK"))
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Runner:
    """Runs an operation by one implementation, with its arrays where that implementation wants them."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation
        self.is_triton = implementation == "triton"

    def __call__(self, operation: Any, *arrays: Any, **options: Any) -> Any:
        """Call; arrays become tensors for Triton."""
        if self.is_triton:
            import torch

            device = "cuda" if ON_GPU else "cpu"
            arrays = tuple(
                torch.from_numpy(array).to(device) if isinstance(array, np.ndarray) else array for array in arrays
            )
        with np.errstate(all="ignore" if self.is_triton else "raise", under="ignore"):  # a GPU does not warn of a NaN
            found = operation(*arrays, implementation=self.implementation, **options)
        assert found.implementation == self.implementation
        return found


@pytest.fixture(params=["reference", "triton"])
def run(request: pytest.FixtureRequest) -> Runner:
    """Run both implementations; Triton's is skipped where it cannot run. On a GPU nothing is skipped."""
    if request.param == "triton" and not ON_GPU:
        pytest.importorskip("torch", reason="the Triton kernels need torch")
        pytest.importorskip("triton", reason="the Triton kernels need Triton, which has no build for this system")
        if not INTERPRETED:
            pytest.skip("the interpreter wants a process of its own: TRITON_INTERPRET=1 python -m pytest tests/ops")
    return Runner(request.param)
