"""Goes on after an engine's death: keeps what was answered, restarts, and finds the request that kills."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpueval.engines.base import Engine
from gpueval.errors import EngineDied
from gpueval.records import Completion, Request, State

_FIRST_SUSPECTS = 1024


class Recovering:
    """An engine that survives the death of the one it wraps.

    After a death the unanswered requests near it are suspects: the first half of them runs on a new engine, then the
    other half; a half that dies is halved again, so one poison request among n costs about log2(n) restarts. It ends
    as ``engine_error`` with ``fatal`` set and is not asked again by a later run. A single suspect that dies twice is
    needed for that: the first death may be chance.

    Args:
        start: Makes an engine; called once here and once per death.
        most_deaths: Deaths after which the run gives up.

    Raises:
        EngineDied: ``most_deaths`` is reached.
    """

    def __init__(self, start: Callable[[], Engine], most_deaths: int = 24) -> None:
        self._start = start
        self._engine = start()
        self._deaths = 0
        self._most_deaths = most_deaths
        self.fingerprint = self._engine.fingerprint
        self.max_prompt_tokens = self._engine.max_prompt_tokens

    def count_tokens(self, text: str) -> int:
        """Count with the wrapped engine."""
        return self._engine.count_tokens(text)

    def facts(self) -> Mapping[str, Any]:
        """The wrapped engine's facts and the number of deaths."""
        return dict(self._engine.facts()) | ({"engine_deaths": self._deaths} if self._deaths else {})

    def close(self) -> None:
        """Close the wrapped engine."""
        self._engine.close()

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Answer every request; see the class."""
        yield from self._answer(requests, suspected=False)

    def _answer(self, requests: Sequence[Request], *, suspected: bool) -> Iterator[Completion]:
        answered: set[bytes] = set()
        try:
            for completion in self._engine.run(requests):
                answered.add(completion.key)
                yield completion
        except EngineDied as death:
            left = [request for request in requests if request.key not in answered]
            self._restart(death)
            if suspected and len(left) <= 1:
                for request in left:
                    yield Completion(request.key, failure=State.ENGINE_ERROR, message=death.message, fatal=True)
                return
            near, others = left[:_FIRST_SUSPECTS], left[_FIRST_SUSPECTS:]
            middle = len(near) // 2
            for part, under_suspicion in ((near[:middle], True), (near[middle:], True), (others, False)):
                if part:
                    yield from self._answer(part, suspected=under_suspicion)

    def _restart(self, death: EngineDied) -> None:
        self._deaths += 1
        if self._deaths > self._most_deaths:
            raise EngineDied(
                f"The engine died {self._deaths} times; the last time: {death.message}",
                "What was answered is kept: mend the cause and run the same command to go on.",
            ) from death
        print(f"gpueval: the engine died ({death.message}); starting it again", file=sys.stderr)
        self._engine.close()
        self._engine = self._start()
