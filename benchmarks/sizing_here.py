"""Predicted against measured on this machine: the KV cache vLLM sets up, prefill and decode tokens per second.

    python benchmarks/sizing_here.py MODEL_FOLDER [MODEL_FOLDER ...]

Each model is planned from its headers and the machine's own numbers alone, then started by vLLM with the plan's
arguments. Measured: a batch of distinct 1,000-token prompts with one token to write (prefill), and 96 tokens written
by 1 and by 8 sequences (decode). One line of JSON per model.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from gpueval.sizing import questions, throughput

PROMPT_TOKENS, PROMPTS, WRITTEN = 1000, 6, 96


def main(folder: str) -> dict[str, object]:
    """Measure one model."""
    plan = questions.plan(folder)
    sizing = plan.sizing
    arguments = dict(plan.arguments)
    cpu = sizing.engine == "vllm-cpu"
    if cpu:
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(arguments.pop("kv_cache_gib"))
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, sorted(os.sched_getaffinity(0)))))
        arguments |= {"enforce_eager": True, "block_size": sizing.load.block_tokens}
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    import vllm

    llm = vllm.LLM(
        model=folder, generation_config="vllm", enable_prefix_caching=False, disable_log_stats=True, **arguments
    )
    cache = llm.llm_engine.vllm_config.cache_config
    one = vllm.SamplingParams(max_tokens=1, ignore_eos=True, temperature=0, detokenize=False)
    many = vllm.SamplingParams(max_tokens=WRITTEN, ignore_eos=True, temperature=0, detokenize=False)

    def prompts(n: int, tokens: int) -> list[dict[str, list[int]]]:
        return [{"prompt_token_ids": [100 + (17 * i + 7 * j) % 5000 for j in range(tokens)]} for i in range(n)]

    def seconds(batch: list[dict[str, list[int]]], params: object) -> float:
        began = time.perf_counter()
        llm.generate(batch, params, use_tqdm=False)
        return time.perf_counter() - began

    seconds(prompts(2, 300), many)  # kernels of new shapes are compiled on first use
    seconds(prompts(2, PROMPT_TOKENS), one)
    rates = {"prefill": PROMPTS * PROMPT_TOKENS / seconds(prompts(PROMPTS, PROMPT_TOKENS), one)}
    predicted = {
        "prefill": throughput.prefill(
            sizing.model, sizing.device, sizing.engine, replace(sizing.load, context_tokens=PROMPT_TOKENS)
        )
    }
    for batch in (1, 8):
        start = prompts(batch, 32)
        rates[f"decode_{batch}"] = batch * (WRITTEN - 1) / (seconds(start, many) - seconds(start, one))
        load = replace(sizing.load, concurrency=batch, context_tokens=2 * (32 + WRITTEN // 2))
        predicted[f"decode_{batch}"] = throughput.decode(sizing.model, sizing.device, sizing.engine, load)
    layout = sizing.memory.layout
    space = int(os.environ.get("VLLM_CPU_KVCACHE_SPACE", 0)) << 30 if cpu else 0
    blocks = layout.blocks(space) if cpu else cache.num_gpu_blocks
    length = arguments["max_model_len"]
    return {
        "benchmark": "sizing_here",
        "model": Path(folder).name,
        "device": sizing.device.name,
        "bandwidth_gb_per_s": round(sizing.device.bandwidth_bytes_per_s / 1e9, 1),
        "tflops_16bit": round(sizing.device.flops_16bit / 1e12, 3),
        "kv_blocks": [blocks, cache.num_gpu_blocks],
        "kv_tokens": [int(layout.concurrency(blocks, length) * length), cache.kv_cache_size_tokens],
        "concurrency": [round(layout.concurrency(blocks, length), 4), round(cache.kv_cache_max_concurrency, 4)],
        "speed": {
            name: {"predicted": [round(s.low, 2), round(s.mid, 2), round(s.high, 2)], "measured": round(rates[name], 2)}
            for name, s in predicted.items()
        },
    }


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(main(sys.argv[1])))
    else:
        import subprocess

        for path in sys.argv[1:]:
            subprocess.run([sys.executable, __file__, path], check=True)
