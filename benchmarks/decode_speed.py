"""How well single-stream decode speed is predicted on hardware that the fit has not seen.

    python benchmarks/decode_speed.py DATA/sizing [--out benchmarks/results/decode_speed.jsonl]

Fits the constants of ``gpueval.sizing.throughput.FITTED`` to the rows of decode_speed.csv marked ``use_for_fit``, with
every hardware weighing the square root of its rows. Each row is then predicted by constants that were fitted without
any row of its hardware (leave one hardware out). Baseline: 0.55 x bandwidth / size, llmfit's rule. Layers are not in
the data and are taken as 17 x (parameters / 1e9)^0.36, which is 17 to 80 for 1B to 70B.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np
from result_rows import emit
from scipy.optimize import least_squares

from gpueval.sizing.hardware.catalogue import entries
from gpueval.sizing.hardware.device import Device
from gpueval.sizing.throughput import FITTED, SPREAD, Constants, family_of, fitted_constants, step_seconds

CLASSES = {"F16": "16", "Q8_0": "8", "Q4_0": "4", "q4": "4", "q4f16": "4", "NVFP4": "4", "Q4_K_M": "K", "Q4": "K"}
BITS = {"16": 16, "8": 8.5, "4": 4.55, "K": 4.85}
OTHER_NAMES = {"Apple M4 Pro (24 GB)": "Apple M4 Pro (20-core GPU)"}


def rows(folder: Path) -> list[dict[str, object]]:
    """Rows to fit, with their device from the catalogue."""
    devices = {entry.device.name: entry.device for entry in entries()}
    found = []
    for row in csv.DictReader((folder / "decode_speed.csv").open()):
        if row["use_for_fit"] != "1":
            continue
        device: Device = devices[OTHER_NAMES.get(row["hardware"], row["hardware"])]
        kind = CLASSES[row["quant"]]
        size = float(row["weights_gib"]) * 2**30
        found.append(
            {
                "hardware": row["hardware"],
                "device": device,
                "family": family_of(device),
                "class": kind,
                "bytes": size,
                "layers": 17 * (size * 8 / BITS[kind] / 1e9) ** 0.36,
                "seconds": 1 / float(row["tokens_per_s_per_stream"]),
            }
        )
    return found


def seconds(row: dict[str, object], known: Constants) -> float:
    """Predicted time of a token."""
    device = row["device"]
    return step_seconds(
        read_bytes=row["bytes"],
        weight_bytes=row["bytes"],
        layers=row["layers"],
        weight_class=row["class"],
        bandwidth=device.bandwidth_bytes_per_s,
        flops=device.flops_16bit,
        known=known,
    )


def fit(data: list[dict[str, object]]) -> dict[str, float]:
    """Fit all constants at once on log time; weak priors keep what the data do not decide near plausible values."""
    names = list(FITTED)
    prior = {
        name: 0.85
        if name.endswith("efficiency")
        else 50.0
        if name.endswith("layer_us")
        else 30.0
        if "unpack_4" in name
        else 40.0
        if name == "apple.unpack_K"
        else 1.0
        for name in names
    }
    width = {name: 0.15 if name.endswith("efficiency") else 1.0 if name.endswith("layer_us") else 0.4 for name in names}
    centre = np.log([prior[name] for name in names])
    spread = np.array([width[name] for name in names])
    counts = Counter(row["hardware"] for row in data)
    weights = np.array([counts[row["hardware"]] ** -0.5 for row in data])
    target = np.log([row["seconds"] for row in data])

    def residuals(theta: np.ndarray) -> np.ndarray:
        fitted = dict(zip(names, np.exp(theta), strict=True))
        times = [seconds(row, fitted_constants(fitted, row["family"], row["device"].name)) for row in data]
        return np.concatenate([weights * (np.log(times) - target) / 0.08, (theta - centre) / spread])

    best = least_squares(residuals, centre, loss="soft_l1", diff_step=1e-4).x
    return {name: float(value) for name, value in zip(names, np.exp(best), strict=True)}


def main() -> None:
    """Fit, test, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = rows(options.data)
    fitted = fit(data)
    ratio = np.empty(len(data))  # predicted time over measured time
    for hardware in sorted({row["hardware"] for row in data}):
        others = fit([row for row in data if row["hardware"] != hardware])
        for i, row in enumerate(data):
            if row["hardware"] == hardware:
                ratio[i] = seconds(row, fitted_constants(others, row["family"], row["device"].name)) / row["seconds"]
    error = np.abs(1 / ratio - 1)
    inside = [low <= 1 / r <= high for r, (low, high) in zip(ratio, (bounds(row) for row in data), strict=True)]
    base = [abs(0.55 * row["device"].bandwidth_bytes_per_s / row["bytes"] * row["seconds"] - 1) for row in data]
    shipped = [
        abs(row["seconds"] / seconds(row, fitted_constants(FITTED, row["family"], row["device"].name)) - 1)
        for row in data
    ]
    per_hardware = {
        h: [error[i] for i, row in enumerate(data) if row["hardware"] == h] for h in {row["hardware"] for row in data}
    }
    groups = {
        key: [error[i] for i, row in enumerate(data) if group(row) == key]
        for key in sorted({group(row) for row in data})
    }
    result = {
        "benchmark": "decode_speed",
        "rows": len(data),
        "hardware": len(per_hardware),
        "unseen_hardware": summary(error) | {"range_covers": round(float(np.mean(inside)), 3)},
        "unseen_hardware_each_counted_once": summary([float(np.median(e)) for e in per_hardware.values()]),
        "by_group": {
            key: summary(values)
            | {
                "quantiles_of_time": [
                    round(float(q), 3)
                    for q in np.quantile(
                        [1 / ratio[i] for i, row in enumerate(data) if group(row) == key], [0.05, 0.95]
                    )
                ]
            }
            for key, values in groups.items()
        },
        "worst_hardware": sorted(
            ((h, round(float(np.median(e)), 3), len(e)) for h, e in per_hardware.items()), key=lambda x: -x[1]
        )[:6],
        "shipped_constants_same_rows": summary(shipped),
        "baseline_055": summary(base),
        "fitted": {name: round(value, 4) for name, value in fitted.items()},
    }
    emit(result, options.out)


def group(row: dict[str, object]) -> str:
    """Family, with the class where the spread differs by it."""
    key = f"{row['family']}.{row['class']}"
    return key if key in SPREAD else str(row["family"])


def bounds(row: dict[str, object]) -> tuple[float, float]:
    """Bounds of measured over predicted time."""
    return SPREAD[group(row)]


def summary(errors: list[float]) -> dict[str, float]:
    """Median and 90th percentile of absolute relative errors."""
    return {
        "median": round(float(np.median(errors)), 4),
        "p90": round(float(np.quantile(errors, 0.9)), 4),
        "max": round(float(np.max(errors)), 3),
    }


if __name__ == "__main__":
    main()
