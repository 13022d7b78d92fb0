"""Sample files, read row by row: JSONL, JSON, CSV, TSV and Parquet, plain or gzip.

Memory does not grow with the file, but for ``.json`` (one array), which is read whole.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from gpueval.data.columns import Columns, to_sample
from gpueval.errors import DataError
from gpueval.fingerprint import text_digest
from gpueval.lazy import require
from gpueval.records import Sample

_FORMATS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_LONGEST_CELL_BYTES = 1 << 28


def load(path: Path, columns: Columns) -> Iterator[Sample]:
    """Yield the samples of a file.

    A row without an id gets its line number. After the last row the ids are checked: a repeated one is an error.

    Args:
        path: ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` (no quoting) or ``.parquet``; all but Parquet also ``.gz``.
        columns: Column mapping.

    Raises:
        DataError: The file or a row is wrong; says file, line and field.
    """
    seen = bytearray()
    n = 0
    for line, row in rows(path):
        sample = to_sample(row, columns, file=str(path), line=line)
        seen += text_digest(sample.id)[:8]
        n += 1
        yield sample
    if n == 0:
        raise DataError("holds no samples", file=str(path))
    digests = np.frombuffer(bytes(seen), dtype=np.uint64)
    values, counts = np.unique(digests, return_counts=True)
    if len(values) < n:
        _report_repeated(path, columns, set(values[counts > 1].tolist()))


def rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line, row)``; lines count from 1 as an editor shows them, rows of Parquet from 1.

    Raises:
        DataError: The format is unknown or the content cannot be read.
    """
    name = str(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    kind = suffixes[-2] if zipped and len(suffixes) > 1 else (suffixes[-1] if suffixes else "")
    if kind not in _FORMATS or (zipped and kind == ".parquet"):
        raise DataError(f"unknown format '{kind or path.name}'", file=name, remedy=f"Known: {', '.join(_FORMATS)}, .gz")
    if not path.is_file():
        raise DataError("does not exist or is not a file", file=name)
    if kind == ".parquet":
        yield from _parquet(path)
        return
    try:
        with gzip.open(path, "rb") if zipped else path.open("rb") as file:
            if kind in (".jsonl", ".ndjson"):
                yield from _jsonl(file, name)  # type: ignore[arg-type]
            elif kind == ".json":
                yield from _json(file.read(), name)
            else:
                yield from _delimited(file, name, tab=kind == ".tsv")  # type: ignore[arg-type]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"not a complete gzip file: {error}", file=name) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=name) from error


def _jsonl(file: IO[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    decode = msgspec.json.Decoder().decode
    for line, raw in enumerate(file, start=1):
        text = raw.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            continue
        try:
            row = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", file=name, line=line) from error
        if not isinstance(row, dict):
            raise DataError("expected a JSON object", file=name, line=line)
        yield line, row


def _json(content: bytes, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        items = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", file=name) from error
    if isinstance(items, dict):  # RAGChecker and DeepEval wrap their rows
        items = next((value for value in items.values() if isinstance(value, list)), None)
    if not isinstance(items, list):
        raise DataError("expected an array of objects", file=name)
    for line, row in enumerate(items, start=1):
        if not isinstance(row, dict):
            raise DataError("expected a JSON object", file=name, line=line)
        yield line, row


def _delimited(file: IO[bytes], name: str, *, tab: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(_LONGEST_CELL_BYTES)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = (
        csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        if tab
        else csv.reader(text, delimiter=",", strict=True)
    )
    header: list[str] | None = None
    start = 1
    try:
        for cells in reader:
            line, start = start, reader.line_num + 1
            if not cells:
                continue
            if header is None:
                header = cells
                repeated = {column for column in header if header.count(column) > 1}
                if repeated:
                    raise DataError(f"column '{min(repeated)}' stands twice in the header", file=name, line=line)
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{len(cells)} cells where the header has {len(header)} columns",
                    file=name,
                    line=line,
                    remedy="Tabs inside a cell are not possible in .tsv; use .csv or .jsonl." if tab else "",
                )
            yield line, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", file=name, line=reader.line_num) from error
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=name, line=reader.line_num + 1) from error
    finally:
        text.detach()


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    parquet = require("pyarrow.parquet", "parquet")
    arrow = require("pyarrow", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            line = 0
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    line += 1
                    yield line, row
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"not a Parquet file: {error}", file=str(path)) from error


def _report_repeated(path: Path, columns: Columns, repeated: set[int]) -> None:
    first: dict[str, int] = {}
    for line, row in rows(path):
        sample_id = to_sample(row, columns, file=str(path), line=line).id
        if int.from_bytes(text_digest(sample_id)[:8], "little") in repeated:
            if sample_id in first:
                raise DataError(
                    f"id '{sample_id}' was used in line {first[sample_id]} already",
                    file=str(path),
                    line=line,
                    field="id",
                    remedy="Ids must differ; without an id column the line number is taken.",
                )
            first[sample_id] = line
