"""Weights and KV cache of ten models beside llmfit's figures and the truth.

    pip install llmfit==1.1.17
    python benchmarks/sizing_peers.py [--out benchmarks/results/sizing_peers.jsonl]

One sequence of 8,192 tokens with a 16-bit cache; weights as Q4_K_M. Both tools answer by model name, offline. Truth
of the cache: layer by layer from the published configuration, windows and latent vectors counted as vLLM and
llama.cpp keep them (``gpueval size`` reproduces 29 such vectors exactly, see tests/unit/test_model_spec.py). Truth
of the weights: the size of the published Q4_K_M file where its tensor bytes are known.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path

from result_rows import emit

from gpueval.sizing.model import load_model
from gpueval.sizing.model.layers import fixed_bytes_per_sequence, growing_bytes_per_token

MODELS = {
    "llama-3.1-8b": ("meta-llama/Llama-3.1-8B-Instruct", 4.58),
    "llama-3.1-70b": ("meta-llama/Llama-3.1-70B-Instruct", 39.59),
    "qwen3-8b": ("Qwen/Qwen3-8B", 4.68),
    "qwen3-30b-a3b": ("Qwen/Qwen3-30B-A3B", None),
    "qwen3-32b": ("Qwen/Qwen3-32B", None),
    "gpt-oss-20b": ("openai/gpt-oss-20b", None),
    "gemma-3-27b": ("google/gemma-3-27b-it", 15.41),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", None),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-Instruct-v0.1", None),
    "qwen3.5-27b": ("Qwen/Qwen3.5-27B", None),
}
TOKENS = 8192


def llmfit(name: str) -> tuple[float, float]:
    """Weights and cache in GiB as llmfit plans them."""
    command = [
        "llmfit",
        "--ram",
        "64G",
        "--json",
        "plan",
        name,
        "--context",
        str(TOKENS),
        "--quant",
        "Q4_K_M",
        "--kv-quant",
        "fp16",
    ]
    plan = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    cache = next(entry["kv_cache_gb"] for entry in plan["kv_alternatives"] if entry["kv_quant"] == plan["kv_quant"])
    return plan["disk_size_gb"] * 1e9 / 2**30, cache


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not shutil.which("llmfit"):
        raise SystemExit("llmfit is not installed: pip install llmfit==1.1.17")
    for preset, (published, file_gib) in MODELS.items():
        spec = load_model(preset, "q4_k_m")
        cache = growing_bytes_per_token(spec.layers, 2) * TOKENS + fixed_bytes_per_sequence(
            spec.layers, 2, 2, 1, TOKENS
        )
        their_weights, their_cache = llmfit(published)
        emit(
            {
                "benchmark": "sizing_peers",
                "model": preset,
                "tokens": TOKENS,
                "weights_gib": {
                    "gpueval": round(spec.weight_bytes / 2**30, 2),
                    "llmfit": round(their_weights, 2),
                    "file": file_gib,
                },
                "kv_gib": {"gpueval": round(cache / 2**30, 3), "llmfit": round(their_cache, 3)},
            },
            options.out,
        )


if __name__ == "__main__":
    main()
