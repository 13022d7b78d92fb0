"""The kernels run under Triton's interpreter, or compiled on a GPU where GPUEVAL_GPU_CHECK is set.

Triton decides when it is imported, for the whole process, so these tests have a process of their own:
``TRITON_INTERPRET=1 python -m pytest tests/ops``. On a GPU (scripts/gpu_check.sh) a skipped test is a failed one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

ON_GPU = bool(os.environ.get("GPUEVAL_GPU_CHECK"))
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Fail what is skipped on a GPU: nothing is missing there."""
    report = yield
    if ON_GPU and report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped, though a GPU is to be checked: {report.longrepr[2]}"
    return report


def poisoned(empty: Callable[..., Any]) -> Callable[..., Any]:
    """Fill new memory with what must not come out: NaN, or a number no result can have."""

    def filled(*shape: Any, **options: Any) -> Any:
        made = empty(*shape, **options)
        kind = str(made.dtype).removeprefix("torch.")
        made[...] = -77 if kind.startswith("int") else 77 if kind.startswith(("uint", "bool")) else float("nan")
        return made

    return filled


class Runner:
    """Runs an operation by one implementation, with its arrays where that implementation wants them."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation
        self.is_triton = implementation == "triton"
        self.on_gpu = ON_GPU
        self.device = "cuda" if ON_GPU and self.is_triton else "cpu"

    def __call__(self, operation: Any, *arrays: Any, **options: Any) -> Any:
        """Call twice; arrays become tensors for Triton. Memory that is not written, or a race, does not pass."""
        if self.is_triton:
            import torch

            arrays = tuple(
                torch.from_numpy(array).to(self.device) if isinstance(array, np.ndarray) else array for array in arrays
            )
        with np.errstate(all="ignore" if self.is_triton else "raise", under="ignore"):  # a GPU does not warn of a NaN
            found, again = (operation(*arrays, implementation=self.implementation, **options) for _ in range(2))
        assert found.implementation == self.implementation
        for name in found.__slots__:
            np.testing.assert_array_equal(getattr(found, name), getattr(again, name))
        return found


@pytest.fixture(params=["reference", "triton"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run both implementations in poisoned memory; Triton's is skipped where it cannot run."""
    monkeypatch.setattr(np, "empty", poisoned(np.empty))
    if request.param == "triton":
        torch = pytest.importorskip("torch", reason="the Triton kernels need torch")
        pytest.importorskip("triton", reason="the Triton kernels need Triton, which has no build for this system")
        if not (INTERPRETED or ON_GPU):
            pytest.skip("the interpreter wants a process of its own: TRITON_INTERPRET=1 python -m pytest tests/ops")
        monkeypatch.setattr(torch, "empty", poisoned(torch.empty))
    return Runner(request.param)
