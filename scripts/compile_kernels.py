"""Compile every Triton kernel for the GPU generations in use, without a GPU, and print what each needs.

    python scripts/compile_kernels.py            sm_80, sm_90, sm_100, sm_120
    python scripts/compile_kernels.py --json     one object per kernel and generation

Exit code 1 where a kernel does not compile.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # what Triton 3.9 does anyway, without its warning

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from gpueval_kernels.bootstrap import triton_kernel as bootstrap
from gpueval_kernels.cosine_topk import triton_kernel as cosine_topk
from gpueval_kernels.greedy_match import triton_kernel as greedy_match

GENERATIONS = (80, 90, 100, 120)
Variant = tuple[str, Any, dict[str, str], dict[str, int | bool], int]


def variants() -> Iterator[Variant]:
    """Yield name, kernel, types of the arguments, constants and warps of every variant that is launched."""
    numbers = dict.fromkeys(("n", "m", "columns", "dimensions", "groups", "picked", "first_resample"), "i32")
    for weighted in (False, True):
        types = numbers | dict.fromkeys(("sums", "weights", "out"), "*fp64") | {"seed": "i64"}
        constants = {"WEIGHTED": weighted, "QUADS": bootstrap._QUADS, "COLUMNS": bootstrap._COLUMNS}
        yield "bootstrap" + (" weighted" if weighted else ""), bootstrap.bootstrap_kernel, types, constants, 4
        if not weighted:  # Triton makes an argument of 1 a constant
            yield "bootstrap of one unit", bootstrap.bootstrap_kernel, types, constants | {"n": 1}, 4
    for dtype, size in (("fp16", 2), ("bf16", 2), ("fp32", 4)):
        types = numbers | dict.fromkeys(("queries", "documents", "tokens"), f"*{dtype}")
        types |= dict.fromkeys(("q_scale", "d_scale", "scale", "best_out"), "*fp32") | {"at_out": "*i32"}
        types |= dict.fromkeys(("ranges", "chosen", "out_begin"), "*i64") | {"out": "*fp32", "mask": "*u8"}
        types |= dict.fromkeys(("first_begin", "first_size", "second_begin", "second_size"), "*i64")
        for masked in (False, True):
            flags = {"RANGED": masked, "MASKED": masked, "GROUP": cosine_topk._GROUP}
            tile = {
                "QUERIES": cosine_topk._QUERIES,
                "DOCUMENTS": cosine_topk._DOCUMENTS,
                "DEPTH": cosine_topk._DEPTH_BYTES // size,
            }
            name = f"{dtype} masked" if masked else dtype
            yield f"cosine_topk max {name}", cosine_topk.group_max_kernel, types, flags | tile, 8
            flags["DEPTH"] = cosine_topk._SCORE_DEPTH
            yield f"cosine_topk score {name}", cosine_topk.group_score_kernel, types, flags, 4
        constants = {
            "ROWS": greedy_match._ROWS,
            "COLUMNS": greedy_match._COLUMNS,
            "DEPTH": greedy_match._DEPTH_BYTES // size,
        }
        yield f"greedy_match {dtype}", greedy_match.match_kernel, types, constants, 4


def compiled(variant: Variant, generation: int) -> dict[str, int]:
    """Compile to cubin; returns registers per thread, bytes spilled, shared memory and size."""
    _, kernel, types, constants, warps = variant
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    fixed = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, constexprs=fixed)
    made = triton.compile(source, target=GPUTarget("cuda", generation, 32), options={"num_warps": warps})
    (target,) = re.findall(r"^\.target (\w+)", made.asm["ptx"], re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernel.ptx"
        ptx.write_text(made.asm["ptx"])
        command = [get_ptxas(generation).path, "-v", f"--gpu-name={target}", str(ptx), "-o", f"{folder}/kernel.cubin"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {
        "registers": max(int(number) for number in re.findall(r"Used (\d+) registers", said)),
        "spilled_bytes": sum(int(number) for number in re.findall(r"(\d+) bytes spill", said)),
        "shared_bytes": made.metadata.shared,
        "cubin_bytes": len(made.asm["cubin"]),
    }


def main() -> int:
    """Compile everything and print a table."""
    rows: list[dict[str, Any]] = []
    as_json = "--json" in sys.argv
    if not as_json:
        print(f"{'kernel':<28} {'sm':>4} {'registers':>9} {'spilled':>8} {'shared':>8} {'cubin':>8}")
    for variant in variants():
        for generation in GENERATIONS:
            row: dict[str, Any] = {"kernel": variant[0], "sm": generation}
            try:
                row |= compiled(variant, generation)
                told = "{registers:>9} {spilled_bytes:>8} {shared_bytes:>8} {cubin_bytes:>8}".format(**row)
            except Exception as error:
                told = row["error"] = str(error).strip()
            rows.append(row)
            if not as_json:
                print(f"{row['kernel']:<28} {generation:>4} {told}", flush=True)
    if as_json:
        print(json.dumps(rows, indent=2))
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
