"""Where a judge's replicas go: as many as there are devices for, on this machine or on a Ray cluster."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec

from gpueval.config import RunConfig
from gpueval.engines import as_one
from gpueval.engines.base import Embedder, Engine
from gpueval.engines.ray_replica import Recipe, connect, somewhere, start_replicas
from gpueval.machine import cores
from gpueval.sizing.hardware import Hardware, detect
from gpueval.sizing.plan import Plan

_EMBEDDER_SHARE = 0.1
"""Of a GPU: what a replica of the judge leaves to one of the embedding model."""


def hardware_for(config: RunConfig) -> Hardware | None:
    """Return what one replica's node has; None for this machine as it is.

    On a cluster it is looked up on a node, one with a GPU where the cluster has any: the driver may have none. On a
    machine without GPU the replicas share its memory, bandwidth and cores.

    Raises:
        PrerequisiteError: Ray is missing or no cluster answers.
    """
    n = config.replicas or 1
    if config.ray:
        ray = connect(config.ray)
        found: Hardware = somewhere(detect, gpu=ray.cluster_resources().get("GPU", 0) > 0)
        return found
    if n == 1:
        return None
    found = detect()
    if found.kind != "cpu":
        return found
    shared = [
        replace(
            device,
            memory_total_bytes=_part(device.memory_total_bytes, n),
            memory_free_bytes=_part(device.memory_free_bytes, n),
            bandwidth_bytes_per_s=device.bandwidth_bytes_per_s / n if device.bandwidth_bytes_per_s else None,
            flops_16bit=device.flops_16bit / n if device.flops_16bit else None,
        )
        for device in found.devices
    ]
    return replace(found, devices=tuple(shared))


def replicas_for(config: RunConfig, plan: Plan | None) -> int:
    """Return the number of replicas; 1 without Ray means an engine in this process.

    Tensor parallelism takes the fewest GPUs that hold the model, because splitting a model costs time in every layer;
    the GPUs that are left take further replicas, which cost none.
    """
    if config.replicas:
        return config.replicas
    each = _gpus(plan)
    if config.ray:
        there = int(connect(config.ray).cluster_resources().get("GPU", 0))
        return max(1, there // max(1, each))
    if plan is None or not each:
        return 1
    there = len(plan.sizing.hardware.devices)
    n = max(1, there // each)
    if n > 1 and find_spec("ray") is None:
        print(
            f"gpueval: {each} of {there} GPUs used: {n} replicas would use more, with pip install 'gpueval[ray]'",
            file=sys.stderr,
        )
        return 1
    return n


def start_judges(config: RunConfig, options: dict[str, object], plan: Plan | None, n: int) -> Engine:
    """Start ``n`` replicas of the judge as one engine.

    Raises:
        PrerequisiteError: Ray is missing or no cluster answers.
        NoPlace: There is no room for so many.
        EngineError: An engine does not start.
    """
    connect(config.ray)
    gpus = float(_gpus(plan))
    if gpus == 1.0 and config.embedder and config.embed_device != "cpu":
        gpus -= _EMBEDDER_SHARE
    arguments = (config.judge, config.engine, options)
    cpus = 1.0 if gpus else float(max(1, len(cores()) // n))
    recipe = Recipe("gpueval.engines:load_judge", arguments, gpus=gpus, cpus=cpus)
    return as_one(start_replicas(recipe, n))


def start_embedders(config: RunConfig, plan: Plan | None, n: int) -> Embedder:
    """Start ``n`` replicas of the embedding model as one; on a GPU beside a judge of one GPU, else on processors.

    Raises:
        NoPlace: There is no room for so many.
        EngineError: The model cannot be loaded.
    """
    connect(config.ray)
    gpus = _EMBEDDER_SHARE if _gpus(plan) == 1 and config.embed_device != "cpu" else 0.0
    arguments = (config.embedder, config.embed_device if gpus else "cpu")
    recipe = Recipe("gpueval.engines:start_embedder", arguments, gpus=gpus, cpus=0.0, whole=True)
    return as_one(start_replicas(recipe, n))


def _gpus(plan: Plan | None) -> int:
    """GPUs that one judge takes; 0 on a machine without."""
    return plan.sizing.load.ranks if plan and plan.sizing.hardware.kind == "nvidia" else 0


def _part(value: int | None, n: int) -> int | None:
    return None if value is None else value // n
