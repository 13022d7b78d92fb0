"""Every kernel compiles to machine code for the GPU generations in use, which needs no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_kernels.py"


def test_kernels_compile() -> None:
    pytest.importorskip("torch", reason="the kernels' modules need torch")
    pytest.importorskip("triton", reason="Triton has no build for this system")
    ran = subprocess.run([sys.executable, str(SCRIPT), "--json"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = json.loads(ran.stdout)
    assert {row["sm"] for row in rows} == {80, 90, 100, 120}
    assert {row["kernel"].split()[0] for row in rows} == {"bootstrap", "cosine_topk", "greedy_match"}
    for row in rows:
        assert row["cubin_bytes"] > 0, row
        assert row["registers"] <= 255, row
        assert row["spilled_bytes"] <= 64, row  # a few bytes outside the inner loop cost nothing
        assert row["shared_bytes"] <= 99 * 1024, row  # what a block of the smallest of these GPUs can have
