"""Ranked lists and judgments from JSON lines: a retriever's own log, or the samples of a run.

A line may hold ``query_id`` (or ``id``), ``retrieved_ids`` with ``scores``, and ``relevant_ids`` or ``grades`` (an
object from document to grade), and a ``group``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import DataError


@dataclass(frozen=True, slots=True)
class Lists:
    """What the lines of a file say, by query.

    Attributes:
        retrieved: Documents in the order returned.
        scores: Their scores, where given.
        grades: Judgments; relevant documents without a grade have 1.
        groups: Group of a query, where given.
    """

    retrieved: dict[str, list[str]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)
    grades: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)


def read_lists(path: Path) -> Lists:
    """Read a ``.jsonl`` file, plain or ``.gz``.

    Raises:
        DataError: A line is wrong; says line and field.
    """
    found, file = Lists(), str(path)
    for line, row in read_rows(path):
        query = str(row.get("query_id", row.get("qid", row.get("id", line))))
        if query in found.retrieved or query in found.grades:
            raise DataError(f"'{query}' is used twice", file=file, line=line, field="id")
        if (retrieved := row.get("retrieved_ids")) is not None:
            found.retrieved[query] = _texts(retrieved, file, line, "retrieved_ids")
            if (scores := row.get("scores")) is not None:
                found.scores[query] = _numbers(scores, len(retrieved), file, line)
        if (grades := row.get("grades")) is not None:
            if not isinstance(grades, dict) or not all(_finite(value) for value in grades.values()):
                raise DataError("must be an object from document to a number", file=file, line=line, field="grades")
            found.grades[query] = {str(document): float(grade) for document, grade in grades.items()}
        elif (relevant := row.get("relevant_ids")) is not None:
            found.grades[query] = dict.fromkeys(_texts(relevant, file, line, "relevant_ids"), 1.0)
        if row.get("group") is not None:
            found.groups[query] = str(row["group"])
    if not found.retrieved and not found.grades:
        raise DataError("has neither retrieved_ids nor relevant_ids nor grades", file=file)
    return found


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and object of every line that is not blank.

    Raises:
        DataError: A line is no JSON object.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as stream:
            for line, raw in enumerate(stream, start=1):
                if not raw.strip():
                    continue
                try:
                    row = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise DataError(f"is no JSON: {error}", file=str(path), line=line) from error
                if not isinstance(row, dict):
                    raise DataError("is not a JSON object", file=str(path), line=line)
                yield line, row
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {error}", file=str(path)) from error


def _texts(value: Any, file: str, line: int, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str | int) for item in value):
        raise DataError("must be a list of document ids", file=file, line=line, field=name)
    return [str(item) for item in value]


def _numbers(value: Any, wanted: int, file: str, line: int) -> list[float]:
    if not isinstance(value, list) or len(value) != wanted or not all(_finite(item) for item in value):
        raise DataError(f"must be {wanted} numbers, one per retrieved id", file=file, line=line, field="scores")
    return [float(item) for item in value]


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
