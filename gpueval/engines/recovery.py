"""Goes on after an engine's death: keeps what was answered, restarts, and finds the request that kills."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpueval.engines.base import Engine
from gpueval.errors import EngineDied
from gpueval.records import Completion, Request, State


class Recovering:
    """An engine that survives the death of the one it wraps.

    After a death the requests that it had taken and not answered are suspects: the first half of them runs on a new
    engine, then the other half; a half that dies is halved again, so one poison request among n costs about log2(n)
    restarts. It ends as ``engine_error`` with ``fatal`` set and is not asked again by a later run. A single suspect
    that dies twice is needed for that: the first death may be chance.

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
        self._closed = False
        self._turn = threading.Lock()
        self._most_deaths = most_deaths
        self.fingerprint = self._engine.fingerprint
        self.max_prompt_tokens = self._engine.max_prompt_tokens

    def count_tokens(self, text: str) -> int:
        """Count with the wrapped engine; one that turns out to be dead is started again."""
        engine = self._engine
        try:
            return engine.count_tokens(text)
        except EngineDied as death:  # samples are planned while others are asked
            if self._closed:
                raise
            self._restart(engine, death)
            return self._engine.count_tokens(text)

    def facts(self) -> Mapping[str, Any]:
        """The wrapped engine's facts and the number of deaths."""
        return dict(self._engine.facts()) | ({"engine_deaths": self._deaths} if self._deaths else {})

    def close(self) -> None:
        """Close the wrapped engine; a run that still waits for it ends with its death."""
        self._closed = True
        self._engine.close()

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Answer every request; see the class."""
        yield from self._answer(requests, suspected=False)

    def _answer(self, requests: Iterable[Request], *, suspected: bool) -> Iterator[Completion]:
        taken: dict[bytes, Request] = {}
        rest = _Noted(requests, taken)
        while True:
            engine = self._engine
            try:
                for completion in engine.run(rest):
                    taken.pop(completion.key, None)
                    yield completion
                return
            except EngineDied as death:
                if self._closed:
                    raise
                left = list(taken.values())
                taken.clear()
                self._restart(engine, death)
                if suspected and len(left) == 1:
                    yield Completion(left[0].key, failure=State.ENGINE_ERROR, message=death.message, fatal=True)
                else:
                    middle = len(left) // 2
                    for part in (left[:middle], left[middle:]):
                        if part:
                            yield from self._answer(part, suspected=True)

    def _restart(self, dead: Engine, death: EngineDied) -> None:
        """Start anew, once, whichever threads find the engine dead."""
        with self._turn:
            if self._engine is not dead:
                return
            self._deaths += 1
            if self._deaths > self._most_deaths:
                raise EngineDied(
                    f"The engine died {self._deaths} times; the last time: {death.message}",
                    "What was answered is kept: mend the cause and run the same command to go on.",
                ) from death
            print(f"gpueval: the engine died ({death.message}); starting it again", file=sys.stderr)
            dead.close()
            self._engine = self._start()


class _Noted(Iterator[Request]):
    """Requests, each noted when it is taken; may go on after its end, as the iterator below it may."""

    def __init__(self, requests: Iterable[Request], taken: dict[bytes, Request]) -> None:
        self._requests, self._taken = iter(requests), taken

    def __next__(self) -> Request:
        request = next(self._requests)
        self._taken[request.key] = request
        return request
