"""Predicted against what public vLLM start-up logs report, row by row.

    python benchmarks/startup_logs.py DATA/sizing [--out benchmarks/results/startup_logs.jsonl]

``weights``: bytes per GPU. ``kv tokens`` and ``concurrency``: from the available cache that the log gives (rounded to
0.01 GiB there, so the last block may differ). ``kv needed``: cache for one request of full length. ``budget``: cache
predicted from total memory, utilisation, weights and the prior for overhead alone, as a share of the budget. A row
whose model has no published configuration among the presets, or that names no figure to predict, is listed with the
reason.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from statistics import median
from typing import Any

from result_rows import emit

from gpueval.sizing.kv_blocks import layout
from gpueval.sizing.memory import Load, estimate, kv_element_bytes
from gpueval.sizing.model import ModelSpec, from_config, load_model, presets
from gpueval.units import GIB

MODELS = {
    "Llama-3.1-70B-Instruct": ("llama-3.1-70b", "int8"),
    "DeepSeek-R1 (4-bit)": ("deepseek-r1", "int4"),
    "Llama-3.1-8B": ("llama-3.1-8b", None),
    "Llama-3-8B": ("llama-3-8b", None),
    "gpt-oss-120b": ("gpt-oss-120b", None),
    "gpt-oss-20b": ("gpt-oss-20b", None),
    "Qwen3-30B-A3B": ("qwen3-30b-a3b", None),
    "Qwen3.6-27B": ("qwen3.6-27b", "int4"),
    "Qwen3.6-35B-A3B": ("qwen3.6-35b-a3b", None),
    "MiniMax-M2.7": ("minimax-m2.7", "awq-int4"),
    "Qwen2.5-VL-72B": ("qwen2.5-72b", None),
    "Kimi-K2-Thinking": ("kimi-k2", "int4"),
    "gemma-4-31B": ("gemma-4-31b", "awq-int4"),
    "gemma-4-31b": ("gemma-4-31b", "awq-int4"),
    "gemma-4-26B": ("gemma-4-26b-a4b", None),
    "Qwen2.5-1.5B": ("qwen2.5-1.5b", None),
    "Qwen3.5-122B-A10B": ("qwen3.5-122b-a10b", "nvfp4"),
}
WEIGHTS_UNKNOWN = {"25": "vision tower", "59": "mixed NVFP4 build", "2": "mixed 4-bit build", "56": "rounded to 1 GiB"}
NO_TOKENS = {
    "20": "an older version's report and layout",
    "44": "the report is concurrency x max_model_len, and max_model_len is not recorded",
    "59": "an older version's report of a hybrid model",
}
DRAFT_TOKENS = {"17": 3, "19": 3}
OLD_REPORT = ("0.6", "0.7", "0.8", "0.11", "0.20", "older")


def number(row: dict[str, str], key: str) -> float | None:
    """A field as a number."""
    return float(row[key]) if row[key] else None


def predict(row: dict[str, str]) -> dict[str, Any]:
    """Compare one row."""
    found: dict[str, Any] = {"id": row["id"], "model": row["model"], "engine": row["engine"]}
    if row["model"] == "Llama-3.1-405B-FP8":
        spec = meta_405b_fp8()
    elif row["model"] in MODELS:
        spec = load_model(*MODELS[row["model"]])
    else:
        return found | {"skipped": "no published configuration of this model among the presets"}
    ranks, kv_dtype = (
        int(row["tp"] or 1),
        "fp8" if row["kv_dtype"].startswith("fp8") and "bf16" not in row["kv_dtype"] else "auto",
    )
    drafts = DRAFT_TOKENS.get(row["id"], 0)
    length = number(row, "max_model_len")
    load = Load(int(length or 8192), ranks=ranks, kv_dtype=kv_dtype, draft_tokens=drafts)
    weights = number(row, "weights_gib_per_gpu")
    if weights and row["id"] not in WEIGHTS_UNKNOWN:
        found["weights_gib"] = pair(spec.rank_bytes(ranks, padded=True) / GIB, weights)
    layers = [*spec.layers, *[spec.layers[-1]] * bool(drafts)]
    cut = layout(
        layers,
        element_bytes=kv_element_bytes(kv_dtype, spec),
        model_bytes=spec.model_bytes,
        ranks=ranks,
        draft_tokens=drafts,
    )
    available, needed = number(row, "kv_available_gib"), number(row, "kv_needed_gib")
    tokens, concurrency = number(row, "kv_tokens_reported"), number(row, "max_concurrency")
    if needed and length:
        found["kv_needed_gib"] = pair(cut.blocks_per_sequence(int(length)) * cut.bytes_per_block / GIB, needed)
    if row["id"] in NO_TOKENS:
        found["kv_tokens_unpredictable"] = NO_TOKENS[row["id"]]
    elif available and tokens and "metal" not in row["engine"]:
        lowest, highest = (int_tokens(cut, row, available + d, length) for d in (-0.005, 0.005))
        dcp = 8 if "DCP8" in row["engine"] else 1
        value = int_tokens(cut, row, available, length) * dcp
        within = lowest * dcp <= tokens <= highest * dcp
        found["kv_tokens"] = pair(value, tokens) | {"within_the_logs_rounding": within}
        if concurrency and length:
            found["concurrency"] = pair(
                round(cut.concurrency(cut.blocks(available * GIB), int(length)), 2), concurrency
            )
    elif tokens and concurrency and length:
        found["concurrency"] = pair(round(tokens / length, 2), concurrency)
    total, share = number(row, "total_gib"), number(row, "gpu_memory_utilization")
    if total and share and weights and available:
        batch = int(length) if length and "0.6" in row["engine"] else 8192
        load = Load(
            int(length or 8192), ranks=ranks, kv_dtype=kv_dtype, utilisation=share, batch_tokens=batch, concurrency=256
        )
        left = estimate(spec, load, "vllm", int(total * share * GIB)).kv_available
        error = (left.mid + spec.rank_bytes(ranks, padded=True) - weights * GIB) / GIB - available
        inside = left.low / GIB <= available <= left.high / GIB
        found["budget"] = {
            "predicted_kv_gib": round(left.mid / GIB, 2),
            "reported_kv_gib": available,
            "error_of_budget": round(error / (total * share), 4),
            "range_gib": [round(left.low / GIB, 2), round(left.high / GIB, 2)],
            "inside": inside,
        }
    if len(found) == 3:
        found["skipped"] = "no weights, cache or concurrency to predict: " + (row["notes"] or "figures are missing")
    return found


def meta_405b_fp8() -> ModelSpec:
    """Meta's first FP8 build: only the feed-forward matrices of layers 1 to 124 are fp8, and it has 16 KV heads."""
    config = presets()["llama-3.1-405b"]["config"] | {"num_key_value_heads": 16}
    plain = ["model.layers.*.self_attn", "model.layers.0.mlp", "model.layers.125.mlp"]
    config["quantization_config"] = {"quant_method": "fbgemm_fp8", "modules_to_not_convert": plain}
    return from_config(config, "llama-3.1-405b-fp8", "as published first")


def int_tokens(cut: Any, row: dict[str, str], available_gib: float, length: float | None) -> int:
    """Tokens as the row's vLLM reports them."""
    blocks = cut.blocks(available_gib * GIB)
    if any(word in row["engine"] for word in OLD_REPORT) or not length:
        return blocks * cut.block_tokens // sum(group.copies for group in cut.groups)
    return int(cut.concurrency(blocks, int(length)) * length)


def pair(predicted: float, reported: float) -> dict[str, float]:
    """Both figures and the relative error."""
    return {"predicted": round(predicted, 4), "reported": reported, "error": round(predicted / reported - 1, 5)}


def main() -> None:
    """Compare all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [predict(row) for row in csv.DictReader((options.data / "vllm_startup_logs.csv").open())]
    for row in rows:
        print(json.dumps(row))
    summary: dict[str, Any] = {
        "benchmark": "startup_logs",
        "rows": len(rows),
        "skipped": sum("skipped" in row for row in rows),
    }
    for name in ("weights_gib", "kv_needed_gib", "kv_tokens", "concurrency"):
        errors = sorted(abs(row[name]["error"]) for row in rows if name in row)
        summary[name] = {
            "n": len(errors),
            "median": median(errors),
            "worst": errors[-1],
            "within_0.1_percent": sum(e < 0.001 for e in errors),
        }
    budget = [abs(row["budget"]["error_of_budget"]) for row in rows if "budget" in row]
    summary["budget"] = {
        "n": len(budget),
        "median": median(budget),
        "worst": max(budget),
        "inside_range": sum(row["budget"]["inside"] for row in rows if "budget" in row),
    }
    emit(summary, options.out)


if __name__ == "__main__":
    main()
