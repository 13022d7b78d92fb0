"""From a run folder to a file of labels to fill in, and from the filled-in file to a calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpueval.calibration import labels
from gpueval.calibration.fit import calibrate
from gpueval.calibration.record import FORMAT, Calibration, Unit, of_run
from gpueval.errors import DataError, UsageError
from gpueval.run_folder import pretty_json, read_run, write_atomically


def sample_rows(folder: Path, n: int, metric: str, unit: Unit, out: Path, *, seed: int = 0) -> tuple[int, int]:
    """Write ``n`` rows of a run that are worth a label; see :func:`gpueval.calibration.labels.pick`.

    Returns:
        Rows written, and rows that could have been.

    Raises:
        UsageError: The run is not finished, or was scored with a calibration.
        PrerequisiteError: The file exists.
    """
    _uncalibrated(folder)
    every = labels.items(folder, metric, unit)
    picked = labels.pick([item.score for item in every], n, seed=seed)
    labels.write(out, folder, metric, every, picked)
    return len(picked), len(every)


def calibrate_run(
    folder: Path | str,
    labels_file: Path | str,
    metric: str = "faithfulness",
    out: Path | str | None = None,
    *,
    seed: int = 0,
) -> Calibration:
    """Hold a run's judge against labels and write the calibration file; the function behind ``gpueval calibrate``.

    Args:
        folder: Run folder.
        labels_file: Labels; see :func:`gpueval.calibration.labels.read`.
        metric: Metric of rows that name none.
        out: Calibration file, written over; None is ``calibration.json`` in the run folder.
        seed: Same seed, same figures.

    Raises:
        DataError: The labels are wrong or all the same.
        UsageError: The run is not finished, or was scored with a calibration.
    """
    folder, file = Path(folder), Path(labels_file)
    facts = _uncalibrated(folder)
    found = {}
    for name, rows in labels.read(file, metric).items():
        unit: Unit = "answer" if rows[0].claim is None else "claim"
        every = labels.items(folder, name, unit)
        matched = labels.match(rows, every, str(file))
        try:
            found[name] = calibrate(every, matched, unit, facts["settings"]["threshold"], seed=seed)
        except ValueError as error:
            raise DataError(str(error), file=str(file), field="label", remedy="Label more rows.") from error
    calibration = Calibration(format=FORMAT, metrics=found, **of_run(facts))
    write_atomically(Path(out) if out else folder / "calibration.json", pretty_json(calibration))
    return calibration


def _uncalibrated(folder: Path) -> dict[str, Any]:
    facts = read_run(folder)
    if facts.get("calibration"):
        raise UsageError(
            f"{folder} was scored with a calibration, so the judge's own probabilities are not in its scores.",
            f"First: gpueval rescore {folder} --no-calibration",
        )
    return facts
