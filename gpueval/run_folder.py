"""Files of a run folder: written whole or not at all, read with clear errors, and locked while a run works in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpueval.errors import DataError, PrerequisiteError, UsageError
from gpueval.records import Sample, Summary

Line = TypeVar("Line")


def read_run(folder: Path) -> dict[str, Any]:
    """Read ``run.json``.

    Raises:
        UsageError: The folder is no run folder.
    """
    try:
        facts = msgspec.json.decode((folder / "run.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{folder} is not a run folder: run.json is missing or damaged.") from error
    return facts


def read_summary(folder: Path) -> dict[str, Any]:
    """Read ``summary.json`` as records.

    Raises:
        UsageError: The run has not finished.
    """
    try:
        content = (folder / "summary.json").read_bytes()
        body = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        return {
            "metrics": msgspec.json.decode(body["metrics"], type=dict[str, Summary]),
            "groups": msgspec.json.decode(body["groups"], type=dict[str, dict[str, Summary]]),
            "warnings": msgspec.json.decode(body["warnings"], type=list[str]),
        }
    except (OSError, KeyError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{folder} has no readable summary.json.", f"Finish the run, or: gpueval rescore {folder}"
        ) from error


def is_retrieval(folder: Path) -> bool:
    """Tell whether a folder was left by ``gpueval retrieve``."""
    return (folder / "retrieve.json").is_file() and not (folder / "run.json").is_file()


def read_retrieval(folder: Path) -> dict[str, Any]:
    """Read ``retrieve.json``.

    Raises:
        UsageError: It is damaged.
    """
    try:
        body = msgspec.json.decode((folder / "retrieve.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{folder} has no readable retrieve.json.", "Run gpueval retrieve again.") from error
    return body


def write_samples(path: Path, samples: Iterable[Sample]) -> int:
    """Write samples as JSONL and return their number.

    Raises:
        DataError: A text is not valid Unicode.
    """
    encoder, n = msgspec.json.Encoder(), 0
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        for sample in samples:
            try:
                file.write(encoder.encode(sample) + b"\n")
            except UnicodeEncodeError as error:
                raise DataError("holds text that is not valid Unicode", file=sample.id) from error
            n += 1
    partial.replace(path)
    return n


def read_samples(path: Path) -> Iterator[Sample]:
    """Read samples back, one by one."""
    decode = msgspec.json.Decoder(Sample).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def read_scores(folder: Path, kind: type[Line]) -> Iterator[tuple[Sample, Line]]:
    """Read ``samples.jsonl`` and ``scores.jsonl`` side by side.

    Args:
        folder: Run folder.
        kind: What a line of ``scores.jsonl`` is decoded as.

    Raises:
        UsageError: One is missing or damaged, or they do not belong together.
    """
    decode = msgspec.json.Decoder(kind).decode
    try:
        with (folder / "scores.jsonl").open("rb") as lines:
            for line, sample in zip(lines, read_samples(folder / "samples.jsonl"), strict=True):
                yield sample, decode(line)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{folder} has no scores.jsonl that fits its samples.jsonl.", f"Write it anew: gpueval rescore {folder}"
        ) from error


def pretty_json(body: Any) -> bytes:
    """Return indented JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write a mapping as indented JSON."""
    write_atomically(path, pretty_json(body))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(content)
    partial.replace(path)


@contextmanager
def locked(folder: Path, remedy: str = "Wait for it, or choose another --out.") -> Iterator[None]:
    """Keep a second process out of a folder; the lock dies with the process."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise PrerequisiteError(f"The folder {folder} cannot be written: {error.strerror}.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"Another process is working in {folder}.", remedy) from error
        try:
            yield
        except OSError as error:
            raise PrerequisiteError(
                f"A file operation failed: {error}.",
                "What was judged is kept: mend the cause and run the same command to go on.",
            ) from error
