"""How vLLM is set up on a processor, the same for the engine in this process and for the server."""

from __future__ import annotations

from typing import Any

from gpueval.machine import cores

BLOCK_TOKENS = 32
"""Smallest KV block of vLLM's CPU attention; its default of 128 never caches a shorter shared prefix."""

_FEW_CORES = 4

ARGUMENTS: dict[str, Any] = {"enforce_eager": True, "block_size": BLOCK_TOKENS}
"""Without minutes of compilation, and with small blocks."""


def environment(kv_cache_gib: int) -> dict[str, str]:
    """Return the environment variables for a cache of ``kv_cache_gib`` GiB.

    vLLM's own choice of cores keeps one for its scheduler, which is half of a machine with two: up to
    :data:`_FEW_CORES` the model gets all of them.
    """
    found, own = {"VLLM_CPU_KVCACHE_SPACE": str(kv_cache_gib)}, cores()
    if len(own) <= _FEW_CORES:
        found["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, own))
    return found
