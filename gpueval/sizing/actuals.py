"""What engines really got on this machine, beside what was predicted; the next prediction starts from it.

One JSON line per launch in ``sizing.jsonl`` in ``$GPUEVAL_CACHE``, else ``$XDG_CACHE_HOME/gpueval``, else
``~/.cache/gpueval``. A line that cannot be read is passed over. Keys: device name, engine and its version, model
digest.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpueval.machine import cache_folder
from gpueval.units import GIB

_KEPT = 5
"""Latest launches that a prior is taken from."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What earlier launches of a model showed.

    Attributes:
        overhead_bytes: Memory beside weights and cache, by ranks and tokens of a step.
        speed_ratio: Speed of whole runs over the predicted one; None where no run was long enough.
        launches: Launches behind it.
    """

    overhead_bytes: Mapping[tuple[int, int], float]
    speed_ratio: float | None
    launches: int


def no_prior() -> Prior:
    """A machine that has launched nothing yet."""
    return Prior({}, None, 0)


def store_path() -> Path:
    """The file of this user."""
    return cache_folder() / "sizing.jsonl"


def remember(record: Mapping[str, Any], path: Path | None = None) -> None:
    """Append a launch; a folder that cannot be written costs the memory of it, not the run."""
    file = path or store_path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as stream:
            stream.write(msgspec.json.encode(record) + b"\n")
    except OSError:
        return


def launches(path: Path | None = None) -> Iterator[dict[str, Any]]:
    """All launches that can be read, oldest first."""
    file = path or store_path()
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(found, dict) and isinstance(found.get("actual"), dict):
            yield found


def prior(device: str, engine: str, digest: str, path: Path | None = None) -> Prior:
    """Take the median of the latest launches of this model on this device with this engine, in its latest version."""
    found = [
        line
        for line in launches(path)
        if (line.get("device"), line.get("engine"), line.get("model_digest")) == (device, engine, digest)
    ]
    found = [line for line in found if line.get("engine_version") == found[-1].get("engine_version")][-_KEPT:]
    overhead: dict[tuple[int, int], list[float]] = defaultdict(list)
    speed: list[float] = []
    for line in found:
        actual = line["actual"]
        if isinstance(actual.get("overhead_bytes"), int | float):
            overhead[int(line.get("ranks") or 1), int(line.get("batch_tokens") or 0)].append(actual["overhead_bytes"])
        if isinstance(actual.get("speed_ratio"), int | float) and actual["speed_ratio"] > 0:
            speed.append(actual["speed_ratio"])
    return Prior(
        {key: statistics.median(values) for key, values in overhead.items()},
        statistics.median(speed) if speed else None,
        len(found) if overhead or speed else 0,
    )


_LOG = {
    "weights_bytes": (r"Model loading took ([\d.]+) GiB", GIB),
    "kv_cache_bytes": (r"Available KV cache memory: (-?[\d.]+) GiB", GIB),
    "kv_cache_tokens": (r"(?:GPU|CPU) KV cache size: ([\d,]+) tokens", 1),
    "max_concurrency": (r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", 1),
    "graphs_bytes": (r"Graph capturing finished in .*?took (-?[\d.]+) GiB", GIB),
}


def read_log(file: Path) -> dict[str, float]:
    """Read what vLLM's start-up log reports; of repeated lines the last one counts."""
    text = file.read_text(errors="replace") if file.is_file() else ""
    found: dict[str, float] = {}
    for name, (pattern, unit) in _LOG.items():
        values = re.findall(pattern, text)
        if values:
            number = float(values[-1].replace(",", "")) * unit
            found[name] = round(number) if unit == GIB else number
    return found
