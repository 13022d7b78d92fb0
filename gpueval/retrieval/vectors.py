"""Vectors on disk, keyed by the text they belong to, so that nothing is encoded twice and memory holds one block.

A folder holds ``vectors.f32`` (rows of float32) and ``keys.bin`` (16 bytes of each row's text). Vectors are written
before their keys; after a crash the shorter of the two decides, and what lies behind is overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpueval.engines.text_encoder import Kind, Vectors
from gpueval.fingerprint import DIGEST_BYTES, digest, text_digest

Rows = NDArray[np.int64]


class Encoder(Protocol):
    """Turns texts into unit vectors."""

    dimensions: int
    block_texts: int
    """Texts that it is given at a time."""

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Return (texts, dimensions) float32."""
        ...


class VectorStore:
    """Vectors of one encoder and kind of text.

    Args:
        folder: Where they lie; made when absent.
        dimensions: Length of a vector.
    """

    def __init__(self, folder: Path, dimensions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._keys, self._vectors, self._dimensions = folder / "keys.bin", folder / "vectors.f32", dimensions
        for file in (self._keys, self._vectors):
            file.touch()
        whole = min(self._keys.stat().st_size // DIGEST_BYTES, self._vectors.stat().st_size // (4 * dimensions))
        os.truncate(self._keys, whole * DIGEST_BYTES)
        os.truncate(self._vectors, whole * 4 * dimensions)
        raw = self._keys.read_bytes()
        self._row = {raw[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES]: i for i in range(whole)}

    def __len__(self) -> int:
        return len(self._row)

    def add(
        self, texts: Iterable[str], encoder: Encoder, kind: Kind, progress: Callable[[int], None] = lambda done: None
    ) -> Rows:
        """Encode what is not there yet, block by block.

        Returns:
            (texts,) row of every text.
        """
        rows: list[int] = []
        for block in _blocks(texts, encoder.block_texts):
            keys = [text_digest(text) for text in block]
            new = {key: text for key, text in zip(keys, block, strict=True) if key not in self._row}
            if new:
                vectors = encoder.encode(list(new.values()), kind)
                with self._vectors.open("ab") as stream:
                    stream.write(np.ascontiguousarray(vectors, "<f4").tobytes())
                with self._keys.open("ab") as stream:
                    stream.write(b"".join(new))
                for key in new:
                    self._row[key] = len(self._row)
            rows += [self._row[key] for key in keys]
            progress(len(rows))
        return np.array(rows, np.int64)

    def digest_of(self, rows: Rows) -> str:
        """Identify the texts behind some rows, in their order, whatever rows they have here."""
        keys = np.frombuffer(self._keys.read_bytes(), np.uint8).reshape(-1, DIGEST_BYTES)
        return digest(keys[rows].tobytes()).hex()

    def take(self, rows: Rows) -> Vectors:
        """Read the vectors of some rows."""
        if not len(rows):
            return np.empty((0, self._dimensions), np.float32)
        mapped = np.memmap(self._vectors, "<f4", "r", shape=(len(self._row), self._dimensions))
        return np.array(mapped[rows], np.float32)

    def blocks(self, rows: Rows, size: int = 65_536) -> Iterator[Vectors]:
        """Read rows in blocks."""
        for start in range(0, len(rows), size):
            yield self.take(rows[start : start + size])


def _blocks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    block: list[str] = []
    for text in texts:
        block.append(text)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block
