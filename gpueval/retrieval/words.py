"""Columns of white-space separated files as arrays, without a Python object per word.

A TREC run of 100,000 queries x 100 results has 60 million words. Here a block of the file is a byte array; the
borders of all words come from one comparison, identifiers become 64-bit hashes eight bytes at a time, and numbers
are read eight digits at a time over whole columns. Python sees one array per column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpueval.errors import DataError

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]
T = TypeVar("T")

BLOCK_BYTES = 2 << 20
_PAD = 24
_U = np.uint64
_PRIME_1, _PRIME_2 = _U(0x9E3779B97F4A7C15), _U(0xC2B2AE3D27D4EB4F)
_ALL = ~_U(0)
_LOW, _HIGH = _U(0x0101010101010101), _U(0x8080808080808080)
_DOTS, _ZEROS, _TENS = _U(0x2E2E2E2E2E2E2E2E), _U(0x3030303030303030), _U(0x0A0A0A0A0A0A0A0A)
_EXACT_DIGITS = 15
"""Decimal digits that a double holds exactly; longer numbers are read one by one."""
_POWERS = 10.0 ** np.arange(_EXACT_DIGITS + 1)


@dataclass(frozen=True, slots=True)
class Block:
    """Words of one part of a file.

    Attributes:
        data: Bytes of the part, with zero bytes behind.
        starts: First byte of each word, shape (lines, columns).
        ends: One behind the last byte.
        whole: The whole file.
        offset: Where the part begins in it.
    """

    data: Bytes
    starts: Ints
    ends: Ints
    whole: memoryview
    offset: int

    def text(self, line: int, column: int) -> str:
        """A word as text."""
        return bytes(self.data[self.starts[line, column] : self.ends[line, column]]).decode("utf-8", "backslashreplace")

    def line_number(self, line: int) -> int:
        """1-based number of a line in the file."""
        return bytes(self.whole[: self.offset + int(self.starts[line, 0])]).count(b"\n") + 1


def read_blocks(
    data: memoryview, columns: int, file: str, read: Callable[[Block], T], threads: int, block_bytes: int = BLOCK_BYTES
) -> list[T]:
    """Apply a function to a file's blocks of whole lines, several at a time: NumPy works outside Python's lock.

    Args:
        data: The file.
        columns: Words of a line; more are not looked at, blank lines are passed over.
        file: Name for errors.
        read: What to do with a block.
        threads: Blocks at a time.
        block_bytes: Size of a block.

    Raises:
        DataError: A line has fewer words; of several the first.
    """

    def work(border: tuple[int, int]) -> T | None:
        block = _split(data, *border, columns, file)
        return read(block) if len(block.starts) else None

    with ThreadPoolExecutor(threads) as pool:
        return [found for found in pool.map(work, _borders(data, block_bytes)) if found is not None]


def _borders(data: memoryview, block_bytes: int) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(data):
        end = min(begin + block_bytes, len(data))
        while end < len(data):
            cut = bytes(data[end : end + 65536]).find(b"\n") + 1
            end = min(end + (cut or 65536), len(data))
            if cut:
                break
        yield begin, end
        begin = end


def _split(whole: memoryview, begin: int, end: int, columns: int, file: str) -> Block:
    part = bytes(whole[begin:end])
    data = np.frombuffer(part + (b"" if part.endswith(b"\n") else b"\n") + bytes(_PAD), np.uint8)
    text = data[:-_PAD]
    gaps = np.flatnonzero(text <= 32)
    if len(gaps) % columns == 0:  # as most files are written: one blank between words
        ends = gaps.reshape(-1, columns)
        starts = np.empty_like(ends)
        starts[:, 1:] = ends[:, :-1] + 1
        starts[1:, 0] = ends[:-1, -1] + 1
        starts[0, 0] = 0
        breaks = data[ends] == 10
        if breaks[:, -1].all() and np.count_nonzero(breaks) == len(breaks) and bool((ends > starts).all()):
            return Block(data, starts, ends, whole, begin)
    visible = text > 32
    edge = np.flatnonzero(visible[1:] != visible[:-1]) + 1
    if visible[0]:
        edge = np.concatenate([[0], edge])
    first, last = edge[0::2], edge[1::2]
    per_line = np.diff(np.searchsorted(first, np.flatnonzero(text == 10)), prepend=0)
    wrong = np.flatnonzero((per_line < columns) & (per_line != 0))
    if len(wrong):
        raise DataError(
            f"has {per_line[wrong[0]]} columns; at least {columns} are needed",
            file=file,
            line=bytes(whole[:begin]).count(b"\n") + int(wrong[0]) + 1,
            remedy="A run's line is 'query Q0 document rank score tag', a judgment's 'query 0 document grade'.",
        )
    heads = (np.cumsum(per_line) - per_line)[per_line > 0]
    wanted = heads[:, None] + np.arange(columns)  # what stands behind is not looked at, as in trec_eval
    return Block(data, first[wanted], last[wanted], whole, begin)


def _words(data: Bytes) -> Hashes:
    """View the eight bytes from every position on as a number."""
    view: Hashes = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    return view


def hashes(block: Block, column: int) -> Hashes:
    """Hash every word of a column to 64 bits."""
    starts = block.starts[:, column]
    lengths = block.ends[:, column] - starts
    words, longest = _words(block.data), int(lengths.max())
    found = lengths.astype(np.uint64) * _PRIME_2
    live: Any = slice(None)
    for offset in range(0, longest, 8):
        if offset:
            live = np.flatnonzero(lengths > offset)
        left = np.minimum(lengths[live] - offset, 8).astype(np.uint64)
        word = words[starts[live] + offset] & (_ALL >> (_U(64) - _U(8) * left))
        mixed = (found[live] ^ word) * _PRIME_1
        found[live] = mixed ^ (mixed >> _U(29))
    found *= _PRIME_2
    return found ^ (found >> _U(32))


def numbers(block: Block, column: int, file: str, field: str) -> Floats:
    """Read a column of decimal numbers, correctly rounded.

    Digits before and after the point are read as two numbers of at most eight digits. Together they are an exact
    integer over an exact power of ten, so one division rounds as ``float`` does; all others go through ``float`` one
    by one.

    Raises:
        DataError: A word is no finite number.
    """
    starts, ends = block.starts[:, column], block.ends[:, column]
    negative = block.data[starts] == 45
    begins = starts + negative
    lengths = ends - begins
    words = _words(block.data)
    first = words[begins]
    point = np.minimum(_first_dot(first), lengths)
    far = point >= 8
    if far.any():  # a point behind eight digits, or none: the other way decides
        point = np.where(far, np.minimum(lengths, 8), point)
    fraction = np.maximum(lengths - point - 1, 0)
    left, good_left = _digits(first, point)
    right, good_right = _digits(words[np.minimum(begins + point + 1, len(words) - 1)], np.minimum(fraction, 8))
    good = good_left & good_right & (point + fraction <= _EXACT_DIGITS) & (fraction <= 8) & (point + fraction > 0)
    good &= ~far | (lengths == point)
    places = np.minimum(fraction, 8)
    value = (left.astype(np.float64) * _POWERS[places] + right) / _POWERS[places]
    found = np.where(negative, -value, value)
    for line in np.flatnonzero(~good):
        found[line] = _number(block, int(line), column, file, field)
    return found


def _first_dot(word: Hashes) -> Ints:
    """Position of the first ``.`` among eight bytes; 8 where there is none."""
    other = word ^ _DOTS
    marks = (other - _LOW) & ~other & _HIGH
    below = (marks & (~marks + _U(1))) - _U(1)
    return np.bitwise_count(below).astype(np.int64) >> 3


def _digits(word: Hashes, count: Ints) -> tuple[Hashes, NDArray[np.bool_]]:
    """Value of the first ``count`` (at most eight) characters, and whether all are digits."""
    keep = count.astype(np.uint64) * _U(8)
    shift = _U(64) - keep
    # aligned to the right with zeros before: the last digit stands in the highest byte
    aligned = np.where(count > 0, word << np.minimum(shift, _U(63)), _U(0))
    aligned |= np.where(count > 0, _ZEROS & ~(_ALL << np.minimum(shift, _U(63))), _ZEROS)
    if_eight = count >= 8
    aligned = np.where(if_eight, word, aligned)
    figures = aligned ^ _ZEROS
    good = ((figures | (figures + (_HIGH - _TENS))) & _HIGH) == 0
    pairs = (figures * _U(10) + (figures >> _U(8))) & _U(0x00FF00FF00FF00FF)
    fours = (pairs * _U(100) + (pairs >> _U(16))) & _U(0x0000FFFF0000FFFF)
    return (fours * _U(10000) + (fours >> _U(32))) & _U(0xFFFFFFFF), good


def _number(block: Block, line: int, column: int, file: str, field: str) -> float:
    text = block.text(line, column)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise DataError(f"is '{text}', no finite number", file=file, line=block.line_number(line), field=field)
    return value
