"""What a judge can read at once, as the engine says it and as the store remembers it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gpueval.fingerprint import digest, text_digest
from gpueval.judge import windows
from gpueval.judge.store import Store


class PlainReader:
    """The judge's limits as the engine gives them.

    Args:
        max_prompt_tokens: The judge's limit.
        count: The engine's token counter; None bounds a text by its bytes.
    """

    def __init__(self, max_prompt_tokens: int, count: Callable[[str], int] | None) -> None:
        self.max_prompt_tokens = max_prompt_tokens
        self._count = count

    def count_tokens(self, text: str) -> int:
        """Count tokens, or bytes without a counter."""
        return self._count(text) if self._count else len(text.encode("utf-8", "surrogatepass"))

    def windows(self, texts: tuple[str, ...], budget_tokens: int) -> tuple[str, ...]:
        """Lay out a passage; see :func:`gpueval.judge.windows.windows`."""
        return windows.windows(texts, budget_tokens, self)


class StoredReader:
    """The judge's limits, with token counts and window layouts remembered in the store, so that a rescore without a
    model lays passages out the same way.

    Args:
        store: The run's store.
        fingerprint: The engine's: another judge counts otherwise.
        max_prompt_tokens: The judge's limit.
        count: The engine's token counter; None without an engine.
    """

    def __init__(
        self, store: Store, fingerprint: str, max_prompt_tokens: int, count: Callable[[str], int] | None
    ) -> None:
        self.max_prompt_tokens = max_prompt_tokens
        self._store, self._engine = store, PlainReader(max_prompt_tokens, count)
        self._remembers = count is not None
        self._salt = digest(fingerprint.encode(), max_prompt_tokens.to_bytes(8, "little"))

    def count_tokens(self, text: str) -> int:
        """Count tokens, once per text."""
        key = digest(b"count", self._salt, text_digest(text))
        known = self._store.fact(key)
        if known is not None:
            return int.from_bytes(known, "little")
        counted = self._engine.count_tokens(text)
        if self._remembers:
            self._store.remember(key, counted.to_bytes(8, "little"))
        return counted

    def windows(self, texts: tuple[str, ...], budget_tokens: int) -> tuple[str, ...]:
        """Lay out a passage, once per passage and budget."""
        if sum(map(len, texts)) * 4 + 128 * len(texts) <= budget_tokens:
            return self._engine.windows(texts, budget_tokens)
        key = digest(b"windows", self._salt, str(budget_tokens).encode(), *(text_digest(text) for text in texts))
        known = self._store.fact(key)
        if known is not None:
            return msgspec.msgpack.decode(known, type=tuple[str, ...])
        found = self._engine.windows(texts, budget_tokens)
        if self._remembers:
            self._store.remember(key, msgspec.msgpack.encode(found))
        return found
