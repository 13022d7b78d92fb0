"""NVIDIA devices through NVML (nvidia-ml-py): real numbers where the driver gives them, the catalogue where it does
not.

NVML reports half the data rate as memory clock, so bandwidth = 2 * clock * bus width / 8; where the catalogue has the
board, the data sheet's figure stands. A MIG slice has its parent's bandwidth times its memory slices over eight.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gpueval.errors import PrerequisiteError
from gpueval.lazy import require
from gpueval.sizing.hardware import catalogue
from gpueval.sizing.hardware.device import Device, Origin
from gpueval.sizing.hardware.memory import host_memory
from gpueval.units import GIB

_TROUBLE = {
    4: "the NVIDIA driver refuses access (no permission): run as a user of the device's group",
    9: "the NVIDIA driver is not loaded: nvidia-smi on this machine shows the cause",
    15: "a GPU is lost (it fell off the bus): reset or reboot the machine",
    18: "the NVIDIA driver and its library differ in version: reboot, or load the installed driver's module",
}


def read() -> tuple[list[Device], list[str]]:
    """Read all visible NVIDIA devices.

    Returns:
        Devices and notes; no device and no note where there is no NVIDIA driver. Never raises for a machine's state.
    """
    try:
        nvml = require("pynvml", "dev")
    except PrerequisiteError:
        return [], ["the package nvidia-ml-py is not installed: NVIDIA devices cannot be read"]
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return [], []
        return [], [_TROUBLE.get(error.value, f"the NVIDIA driver answers: {error}")]
    try:
        return _devices(nvml)
    except nvml.NVMLError as error:
        return [], [_TROUBLE.get(error.value, f"the NVIDIA driver answers: {error}")]
    finally:
        nvml.nvmlShutdown()


def _devices(nvml: Any) -> tuple[list[Device], list[str]]:
    ask = _asker(nvml)
    devices: list[Device] = []
    notes: list[str] = []
    driver = ask(nvml.nvmlSystemGetDriverVersion)
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            notes.append(f"GPU {index}: {_TROUBLE.get(error.value, str(error))}")
            continue
        whole = _device(nvml, handle, index, driver)
        slices = _slices(nvml, handle, whole)
        devices += slices or [whole]
        if slices:
            notes.append(f"GPU {index} ({whole.name}) is split into {len(slices)} MIG slices; each is a device")
    return _visible(devices, notes)


def _asker(nvml: Any) -> Callable[..., Any]:
    def ask(call: Callable[..., Any], *arguments: Any) -> Any:
        """Answer of a query, None where the device or the driver has none."""
        try:
            return call(*arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    return ask


def _device(nvml: Any, handle: Any, index: int, driver: str | None) -> Device:
    ask = _asker(nvml)
    name = str(ask(nvml.nvmlDeviceGetName, handle) or f"GPU {index}")
    sources: dict[str, Origin] = {}
    total, free, unified, trouble = _memory(nvml, handle)
    bus = ask(nvml.nvmlDeviceGetMemoryBusWidth, handle)
    clock = ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM)
    known = catalogue.by_reported_name(name, None if unified else total, bus)
    derived = 2 * clock * 1e6 * bus / 8 if clock and bus else None
    bandwidth = known.device.bandwidth_bytes_per_s if known else derived
    flops = known.device.flops_16bit if known else _shader_flops(nvml, handle)
    if total:
        sources["memory_total_bytes"] = sources["memory_free_bytes"] = "read"
    if bandwidth:
        sources["bandwidth_bytes_per_s"] = "table" if known else "derived"
    if flops:
        sources["flops_16bit"] = "table" if known else "derived"
    capability = ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    details: dict[str, str | int | float | bool] = {"index": index}
    for key, value in {
        "driver": driver,
        "uuid": ask(nvml.nvmlDeviceGetUUID, handle),
        "power_limit_w": (ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle) or 0) / 1000 or None,
        "nvlinks": sum(ask(nvml.nvmlDeviceGetNvLinkState, handle, link) == 1 for link in range(18)) or None,
        "display": bool(ask(nvml.nvmlDeviceGetDisplayActive, handle)) or None,
        "derived_gb_per_s": round(derived / 1e9, 1) if derived else None,
        "catalogue": known.device.name if known else None,
        "memory_trouble": trouble,
    }.items():
        if value is not None:
            details[key] = value
    return Device(
        name,
        "nvidia",
        total,
        free,
        bandwidth,
        flops,
        known.device.flops_8bit if known else None,
        f"{capability[0]}.{capability[1]}" if capability else None,
        unified=unified,
        used_by_others_bytes=_others(nvml, handle),
        details=details,
        sources=sources,
    )


def _memory(nvml: Any, handle: Any) -> tuple[int | None, int | None, bool, str | None]:
    """Total and free bytes, whether they are the machine's, and what stood in the way.

    Only boards that share the machine's memory do not support the query; any other failure leaves it unknown.
    """
    for version in (getattr(nvml, "nvmlMemory_v2", None), None):
        try:
            found = nvml.nvmlDeviceGetMemoryInfo(handle, version) if version else nvml.nvmlDeviceGetMemoryInfo(handle)
            return int(found.total), int(found.free), False, None
        except nvml.NVMLError as error:
            code, text = error.value, str(error)
    if code == nvml.NVML_ERROR_NOT_SUPPORTED:
        return *host_memory(), True, None
    return None, None, False, _TROUBLE.get(code, text)


def _shader_flops(nvml: Any, handle: Any) -> float | None:
    """Twice the fp32 shader rate: the tensor rate of GeForce boards, a lower bound elsewhere."""
    ask = _asker(nvml)
    cores = ask(nvml.nvmlDeviceGetNumGpuCores, handle)
    clock = ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
    return 2 * 2 * cores * clock * 1e6 if cores and clock else None


def _others(nvml: Any, handle: Any) -> int:
    found = _asker(nvml)(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    return sum(int(process.usedGpuMemory or 0) for process in found if process.pid != os.getpid())


def _slices(nvml: Any, handle: Any, whole: Device) -> list[Device]:
    ask = _asker(nvml)
    mode = ask(nvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return []
    found = []
    for number in range(ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if part is None:
            continue
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, part)
        attributes = ask(nvml.nvmlDeviceGetAttributes, part)
        share = None
        if memory and whole.memory_total_bytes and not whole.unified:
            share = min(1.0, round(8 * memory.total / whole.memory_total_bytes) / 8)
        compute = attributes.gpuInstanceSliceCount / 7 if attributes else None
        name = str(ask(nvml.nvmlDeviceGetName, part) or whole.name)
        sources: dict[str, Origin] = {"memory_total_bytes": "read", "memory_free_bytes": "read"} if memory else {}
        if share and whole.bandwidth_bytes_per_s:
            sources["bandwidth_bytes_per_s"] = "derived"
        if compute and whole.flops_16bit:
            sources["flops_16bit"] = "derived"
        found.append(
            Device(
                name if "MIG" in name else f"{name} MIG {number}",
                "nvidia",
                int(memory.total) if memory else None,
                int(memory.free) if memory else None,
                whole.bandwidth_bytes_per_s * share if whole.bandwidth_bytes_per_s and share else None,
                whole.flops_16bit * compute if whole.flops_16bit and compute else None,
                whole.flops_8bit * compute if whole.flops_8bit and compute else None,
                whole.compute_capability,
                details=whole.details | {"mig": True, "uuid": str(ask(nvml.nvmlDeviceGetUUID, part))},
                sources=sources,
            )
        )
    return found


def _visible(devices: list[Device], notes: list[str]) -> tuple[list[Device], list[str]]:
    """Keep what CUDA_VISIBLE_DEVICES leaves, and say what a person should know of the rest."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is not None:
        chosen = []
        for word in filter(None, (part.strip() for part in wanted.split(","))):
            if word == "-1":  # CUDA stops at the first invalid entry
                break
            same = [
                d for d in devices if word == str(d.details.get("index")) or str(d.details.get("uuid")).startswith(word)
            ]
            chosen += same[:1]  # of a card that is split, CUDA shows one slice
        names = {device.name for device in devices}
        if len(names) > 1 and any(word.strip().isdigit() for word in wanted.split(",")):
            notes.append(
                "CUDA_VISIBLE_DEVICES counts the fastest GPU first unless CUDA_DEVICE_ORDER=PCI_BUS_ID; use UUIDs"
            )
        devices = chosen
        notes.append(f"CUDA_VISIBLE_DEVICES={wanted} leaves {len(devices)} device(s)")
    for device in devices:
        if trouble := device.details.get("memory_trouble"):
            notes.append(f"{device.name}: its memory cannot be read: {trouble}")
        if device.used_by_others_bytes > 256 << 20:
            notes.append(f"{device.name}: other processes hold {device.used_by_others_bytes / GIB:.1f} GiB")
        if device.details.get("display"):
            notes.append(f"{device.name}: drives a display, which takes memory and can take more")
        if device.unified and device.memory_total_bytes:
            notes.append(
                f"{device.name}: shares the machine's memory; the page cache of a weight file counts against it"
            )
        if device.bandwidth_bytes_per_s is None:
            notes.append(
                f"{device.name}: not in the catalogue, and its driver gives no bandwidth: no speed can be told"
            )
    if len({device.name for device in devices}) > 1:
        notes.append(
            "the devices differ: with tensor parallelism the smallest decides, so one device is used unless told"
        )
    return devices, notes
