"""The judgment store: every reply of an engine, keyed by content, in one SQLite file of the run folder.

SQLite is the well-kept library for this: transactions survive ``kill -9``, a torn write is rolled back, memory does
not grow with the number of replies, and a user can look inside with any SQLite tool. Replies are only ever added; a
failed one gives way to a later success.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from gpueval.errors import PrerequisiteError, UsageError
from gpueval.records import Completion

COMMIT_INTERVAL_S = 1.0
"""Longest time an answered request waits for its commit: what a ``kill -9`` can lose."""

_COMMIT_ROWS = 50_000
_IN_LIMIT = 500
_CACHE_KIB = 65_536
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, failed INTEGER NOT NULL, reply BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Completion).decode


class Store:
    """Replies by key, and small facts (token counts, window layouts) that make a rescore possible without a model.
    Several threads may use it.

    Args:
        path: The SQLite file; made when absent.

    Raises:
        UsageError: The file is not a store, or is damaged.
        PrerequisiteError: The disk is full or the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[tuple[bytes, str, int, bytes]] = []
        self._last_commit = time.monotonic()
        self._turn = threading.RLock()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise _explained(error, path) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            self.commit()
            self._db.close()

    def get(self, keys: Sequence[bytes], *, with_failed: bool = False) -> dict[bytes, Completion]:
        """Return the stored replies among ``keys``.

        Args:
            keys: Request keys.
            with_failed: Return failures too (a rescore reads them); else only those that must not be asked again.
        """
        self.commit()
        found: dict[bytes, Completion] = {}
        for start in range(0, len(keys), _IN_LIMIT):
            some = keys[start : start + _IN_LIMIT]
            marks = ",".join("?" * len(some))
            for (packed,) in self._execute(f"SELECT reply FROM replies WHERE key IN ({marks})", some):
                completion = _decode(packed)
                if with_failed or not completion.failure or completion.fatal:
                    found[completion.key] = completion
        return found

    def put(self, completion: Completion, kind: str) -> None:
        """Add a reply; it is on disk after :data:`COMMIT_INTERVAL_S` or :meth:`commit`."""
        row = (completion.key, kind, int(bool(completion.failure)), _encode(completion))
        with self._turn:
            self._waiting.append(row)
            if len(self._waiting) >= _COMMIT_ROWS or time.monotonic() - self._last_commit > COMMIT_INTERVAL_S:
                self.commit()

    def commit(self) -> None:
        """Write what waits, in one transaction.

        Raises:
            PrerequisiteError: The disk is full or the file cannot be written; nothing already stored is lost.
        """
        with self._turn:
            self._last_commit = time.monotonic()
            if not self._waiting:
                return
            try:
                self._waiting.sort(key=_key)  # neighbours in the tree are written together
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", self._waiting)
                self._db.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                if self._db.in_transaction:  # most failures have rolled back by themselves
                    self._db.execute("ROLLBACK")
                raise _explained(error, self.path) from error
            self._waiting.clear()

    def fact(self, key: bytes) -> bytes | None:
        """Return a remembered fact."""
        rows = self._execute("SELECT value FROM facts WHERE key = ?", (key,))
        return bytes(rows[0][0]) if rows else None

    def remember(self, key: bytes, value: bytes) -> None:
        """Remember a fact."""
        self._execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return per kind the number of good and of failed replies."""
        self.commit()
        rows = self._execute("SELECT kind, COUNT(*) - SUM(failed), SUM(failed) FROM replies GROUP BY kind")
        return {kind: (int(good), int(failed)) for kind, good, failed in rows}

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._turn:
                return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise _explained(error, self.path) from error


def _key(row: tuple[bytes, str, int, bytes]) -> bytes:
    return row[0]


def _explained(error: sqlite3.DatabaseError, path: Path) -> UsageError | PrerequisiteError:
    text = str(error)
    if "full" in text or "readonly" in text or "unable to open" in text or "I/O" in text:
        return PrerequisiteError(
            f"The judgment store {path} cannot be written: {text}.",
            "Free disk space or choose another folder with --out, then run the same command: it goes on.",
        )
    return UsageError(
        f"The judgment store {path} cannot be read: {text}.",
        "It is not a store of gpueval or it is damaged; move it away and run the same command to judge anew.",
    )
