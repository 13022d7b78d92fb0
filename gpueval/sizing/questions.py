"""The questions a person asks: does it fit, how fast, how to launch it. Joins files, machine, history and
arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpueval.fingerprint import model_digest
from gpueval.sizing import actuals
from gpueval.sizing.alternatives import alternatives
from gpueval.sizing.estimate import Sizing, default_engine, size_on
from gpueval.sizing.hardware import Hardware, detect, find
from gpueval.sizing.memory import DEFAULT_UTILISATION, EngineName, Load
from gpueval.sizing.model import ModelSpec, load_model
from gpueval.sizing.plan import Plan, Workload, make_plan
from gpueval.units import GIB

_LAUNCH_OPTIONS = ("--max-model-len", "--kv-dtype", "--tensor-parallel")


def size(
    model: str,
    *,
    hardware: str | Hardware | None = None,
    quant: str | None = None,
    load: Load | None = None,
    tensor_parallel: int | None = None,
    engine: EngineName | None = None,
) -> Sizing:
    """Size a model; the function behind ``gpueval size``.

    Args:
        model: Folder, ``.gguf`` file, ``config.json`` or preset.
        hardware: A name of the catalogue, or what was detected; None reads this machine.
        quant: Weight format of a preset.
        load: The work; None is one sequence of 8,192 tokens.
        tensor_parallel: Devices to use; None takes the fewest that fit.
        engine: Engine whose rules apply; None follows from model and hardware.

    Raises:
        DataError: The model's files are damaged.
        PrerequisiteError: There is no such model.
        UsageError: Unknown name or impossible options.
    """
    spec = load_model(model, quant)
    machine = find(hardware) if isinstance(hardware, str) else hardware or detect()
    known = prior_of(spec, machine, engine)
    return size_on(spec, machine, load or Load(), tensor_parallel, engine, known)


def with_alternatives(found: Sizing) -> dict[str, Any]:
    """The stable JSON of a sizing; where it does not fit, with what would."""
    options = alternatives(found, 0, None) if found.fits == "no" else ()
    return found.to_dict() | {"alternatives": [option.to_dict() for option in options]}


def plan(
    model: str | ModelSpec,
    *,
    hardware: str | Hardware | None = None,
    quant: str | None = None,
    work: Workload | None = None,
    context_tokens: int | None = None,
    utilisation: float = DEFAULT_UTILISATION,
    kv_dtype: str = "auto",
    tensor_parallel: int | None = None,
    engine: EngineName | None = None,
    reserved_bytes: int = 0,
) -> Plan:
    """Choose how to launch a judge; see :func:`gpueval.sizing.plan.make_plan`.

    Args:
        model: Folder, ``.gguf`` file, ``config.json`` or preset, or what was read from one.
        hardware: A name of the catalogue, or what was detected; None reads this machine.
        quant: Weight format of a preset.
        work: What the run asks.
        context_tokens: Longest sequence.
        utilisation: Share of a GPU's memory.
        kv_dtype: Format of the KV cache.
        tensor_parallel: Devices to use; None takes the fewest that fit.
        engine: Engine; None follows from model and hardware.
        reserved_bytes: Memory on the device that something else of the same run takes (the embedding model).

    Raises:
        DataError: The model's files are damaged.
        PrerequisiteError: There is no such model.
        UsageError: Unknown name or impossible options.
    """
    spec = load_model(model, quant) if isinstance(model, str) else model
    machine = find(hardware) if isinstance(hardware, str) else hardware or detect()
    if reserved_bytes:
        devices = tuple(
            replace(device, memory_free_bytes=max(0, device.memory_free_bytes - reserved_bytes))
            if device.memory_free_bytes is not None
            else device
            for device in machine.devices
        )
        machine = replace(machine, devices=devices)
    return make_plan(
        spec,
        machine,
        workload=work,
        context_tokens=context_tokens,
        utilisation=utilisation,
        kv_dtype=kv_dtype,
        ranks=tensor_parallel,
        engine=engine,
        prior=prior_of(spec, machine, engine),
    )


def does_not_fit(found: Plan) -> str:
    """Say what is missing and what would fit; an option is named where ``run`` and ``serve`` have it."""
    memory, device = found.sizing.memory, found.sizing.device
    lines = [
        f"{found.sizing.model.name} does not fit on {found.sizing.hardware.name}: it needs about "
        f"{memory.total.mid / GIB:.1f} GiB for one sequence of {found.sizing.load.context_tokens:,} tokens "
        f"(weights {memory.weights / GIB:.1f}, KV cache {memory.kv_cache / GIB:.1f}, "
        f"overhead {memory.overhead_total.mid / GIB:.1f}), and {(memory.available or 0) / GIB:.1f} GiB "
        f"are there ({device.name})."
    ]
    for option in found.alternatives:
        typed = f" ({option.option})" if option.option.startswith(_LAUNCH_OPTIONS) else ""
        lines.append(f"  would fit: {option.change}{typed}, {option.total_bytes / GIB:.1f} GiB")
    return "\n".join(lines)


def digest_of(model: ModelSpec) -> str:
    """Digest of a model folder; empty for a preset or a file."""
    folder = Path(model.name)
    return model_digest(folder) if folder.is_dir() else ""


def prior_of(model: ModelSpec, machine: Hardware, engine: EngineName | None) -> actuals.Prior:
    """What earlier launches of this model on this machine showed."""
    digest = digest_of(model)
    if machine.supposed or not digest or not machine.devices:
        return actuals.no_prior()
    return actuals.prior(machine.devices[0].name, engine or default_engine(model, machine), digest)
