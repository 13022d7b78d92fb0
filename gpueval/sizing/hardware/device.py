"""What sizing knows of a device, and where each number came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Origin = Literal["measured", "read", "table", "derived", "given"]


@dataclass(frozen=True, slots=True)
class Device:
    """One device that can hold a model.

    Attributes:
        name: Name as the driver reports it or as the catalogue lists it.
        kind: ``nvidia``, ``apple``, ``amd`` or ``cpu``.
        memory_total_bytes: Memory a process can have at most; None when it cannot be known.
        memory_free_bytes: Free now.
        bandwidth_bytes_per_s: Memory bandwidth.
        flops_16bit: Dense 16-bit rate with 32-bit accumulation, FLOP/s.
        flops_8bit: Dense fp8 rate, FLOP/s; None where the device has none.
        compute_capability: NVIDIA's, such as ``9.0``.
        unified: The processor's memory is the device's.
        used_by_others_bytes: Memory other processes hold.
        details: Facts for people: driver, index, power limit, cores.
        sources: Origin of every number, by field name.
    """

    name: str
    kind: str
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    bandwidth_bytes_per_s: float | None = None
    flops_16bit: float | None = None
    flops_8bit: float | None = None
    compute_capability: str | None = None
    unified: bool = False
    used_by_others_bytes: int = 0
    details: dict[str, str | int | float | bool] = field(default_factory=dict)
    sources: dict[str, Origin] = field(default_factory=dict)

    @property
    def capability(self) -> float:
        """NVIDIA's compute capability as a number; 0 where there is none."""
        return float(self.compute_capability or 0)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The devices of a machine, real or supposed.

    Attributes:
        devices: What was found; a machine without an accelerator has its processor here.
        notes: What a person should know: driver trouble, memory in use, guesses.
        supposed: From the catalogue, not from this machine.
    """

    devices: tuple[Device, ...]
    notes: tuple[str, ...] = ()
    supposed: bool = False

    @property
    def kind(self) -> str:
        """Kind of the devices that a model would use."""
        return self.devices[0].kind if self.devices else "none"

    @property
    def name(self) -> str:
        """One line: ``2 x NVIDIA A100-SXM4-80GB``."""
        names = [device.name for device in self.devices]
        counts = {name: names.count(name) for name in names}
        return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in counts.items())
