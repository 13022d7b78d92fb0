"""Data for the page: JSON, gzip, base64, in blocks that the browser unpacks one by one as they are looked at."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable
from typing import Any

import msgspec

_BLOCK_BYTES = 1 << 18
"""JSON of one block: large enough to compress well, small enough to unpack within a frame or two."""
_DIGITS = 4


def pack(body: Any) -> str:
    """Return a value as base64 of gzipped JSON: ASCII without a character that means something in HTML."""
    return _packed(msgspec.json.encode(body))


def pack_rows(rows: Iterable[Any]) -> tuple[list[str], list[int]]:
    """Pack rows in blocks.

    Args:
        rows: Read once; one block is held at a time.

    Returns:
        The blocks, and the number of the first row of each.
    """
    blocks: list[str] = []
    starts: list[int] = []
    held: list[bytes] = []
    size = 0
    for n, row in enumerate(rows):
        encoded = msgspec.json.encode(row)
        if held and size + len(encoded) > _BLOCK_BYTES:
            blocks.append(_packed(b"[" + b",".join(held) + b"]"))
            held, size = [], 0
        if not held:
            starts.append(n)
        held.append(encoded)
        size += len(encoded)
    if held:
        blocks.append(_packed(b"[" + b",".join(held) + b"]"))
    return blocks, starts


def short(value: Any) -> Any:
    """Round every number in nested lists and mappings to four digits: what a page shows of them."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: short(item) for key, item in value.items()}
    return [short(item) for item in value] if isinstance(value, list) else value


def _packed(body: bytes) -> str:
    return base64.b64encode(gzip.compress(body, compresslevel=6, mtime=0)).decode("ascii")
