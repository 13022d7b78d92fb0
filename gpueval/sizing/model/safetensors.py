"""Exact weight bytes from safetensors headers: no tensor is read, no model library is needed.

A file starts with eight bytes, the little-endian length of a JSON header that names every tensor's dtype, shape and
place (https://github.com/huggingface/safetensors, "Format"). Lengths are checked against the file before memory is
spent on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import DataError
from gpueval.sizing.model.formats import SAFETENSORS_BITS

_MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""


def weight_files(folder: Path) -> list[Path]:
    """List the safetensors files that make up the model of a folder.

    Where an index is there, the files it names and no others: a folder may hold the same weights twice.

    Raises:
        DataError: The index is broken, or names files that are not there.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        found = read_json(index).get("weight_map")
        if not isinstance(found, dict) or not found:
            raise DataError("is missing or empty", file=str(index), field="weight_map", remedy="Copy the model again.")
        names = sorted({str(name) for name in found.values()})
        absent = [name for name in names if "/" in name or not (folder / name).is_file()]
        if absent:
            raise DataError(
                f"names {len(absent)} of {len(names)} files that are not there, first {absent[0]}",
                file=str(index),
                remedy="Copy the whole model folder.",
            )
        return [folder / name for name in names]
    found_files = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    whole = [file for file in found_files if file.name.startswith("model")]
    return whole or found_files


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: It is none.
    """
    try:
        found = msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"is no JSON: {error}", file=str(file), remedy="Copy the file again.") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(file)) from error
    if not isinstance(found, dict):
        raise DataError("is not a JSON object", file=str(file))
    return found


def tensor_table(file: Path) -> Iterator[tuple[str, tuple[int, ...], str, int]]:
    """Yield name, shape, dtype and bytes of every tensor of a file.

    Raises:
        DataError: The file is empty, truncated or lies about its tensors.
    """
    where = str(file)
    size = file.stat().st_size
    if size < 8:
        raise DataError(f"is {size} bytes long; a safetensors file has a header", file=where, remedy="Copy it again.")
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > min(size - 8, _MOST_HEADER_BYTES):
            raise DataError(
                f"announces a header of {length:,} bytes and has {size - 8:,}: it is truncated or no safetensors file",
                file=where,
                remedy="Copy it again.",
            )
        raw = stream.read(length)
    try:
        header = msgspec.json.decode(raw)
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, RecursionError) as error:
        raise DataError("has a header that is no JSON object", file=where, remedy="Copy it again.") from error
    data = size - 8 - length
    for name, entry in tensors.items():
        yield name, *_checked(name, entry, data, where)


def _checked(name: str, entry: Any, data: int, where: str) -> tuple[tuple[int, ...], str, int]:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        counted = math.prod(shape)
        if not all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end)):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise DataError("has no dtype, shape and data_offsets", file=where, field=name) from error
    if not isinstance(dtype, str) or dtype not in SAFETENSORS_BITS:
        raise DataError(
            f"has the unknown dtype {dtype!r}", file=where, field=name, remedy=f"Known: {', '.join(SAFETENSORS_BITS)}"
        )
    if end - begin != -(-counted * SAFETENSORS_BITS[dtype] // 8):
        raise DataError(
            f"has {end - begin:,} bytes for shape {list(shape)} of {dtype}",
            file=where,
            field=name,
            remedy="The header is wrong: copy the file again.",
        )
    if end > data:
        raise DataError(
            f"ends at byte {end:,} of {data:,}: the file is truncated", file=where, field=name, remedy="Copy it again."
        )
    return shape, dtype, end - begin
