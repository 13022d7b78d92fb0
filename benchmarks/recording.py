"""An engine that passes everything on and remembers what it was asked and how long that took."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpueval.engines.base import Engine
from gpueval.records import Completion, Request


class Recording:
    """Wraps an engine or an embedder.

    Attributes:
        requests: Everything asked, in order.
        seconds: From the first request of each round to its last reply, summed up.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.fingerprint = engine.fingerprint
        self.max_prompt_tokens = getattr(engine, "max_prompt_tokens", 0)
        self.requests: list[Request] = []
        self.seconds = 0.0

    def count_tokens(self, text: str) -> int:
        """As the engine counts."""
        return self._engine.count_tokens(text)

    def facts(self) -> Mapping[str, Any]:
        """The engine's."""
        return self._engine.facts()

    def close(self) -> None:
        """Leave the engine to whoever made it."""

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Pass on, remember, time."""
        asked = list(requests)
        self.requests += asked
        began = time.perf_counter()
        yield from self._engine.run(asked)
        self.seconds += time.perf_counter() - began
