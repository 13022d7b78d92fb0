"""One engine asked by several threads, so that windows of samples overlap: while one waits for its last replies, the
next is planned and asked, and the engine never runs dry.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from gpueval.engines.base import Embedder, Engine
from gpueval.records import Completion, Request

_LEAVE_S = 2.0
_REMEMBERED = 32_768
_TURNS: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
"""One thread at a time per engine: after an interrupt the one before may still wait for a last reply."""

_Inbox = queue.SimpleQueue[Completion | BaseException | None]


class Stopped(Exception):
    """The run ends: what is still asked is not answered."""


class Shared:
    """Hands the requests of all callers to one engine, which a thread of its own keeps busy.

    A request that is in flight for one caller, or was answered a moment ago (its reply may not be in the store yet), is
    not asked again for another: both get the reply. One that failed is.

    Args:
        engine: What answers.
        at_once: Hand it everything that waits as a list; else it takes requests as it has room, and more may come.

    Attributes:
        busy_s: Seconds in which the engine had something to answer.
    """

    def __init__(self, engine: Engine | Embedder, *, at_once: bool) -> None:
        self._engine: Any = engine
        self._at_once = at_once
        self.fingerprint = engine.fingerprint
        self._changed = threading.Condition()
        self._waiting: deque[Request] = deque()
        self._inboxes: dict[bytes, list[_Inbox]] = {}
        self._answered: OrderedDict[bytes, Completion] = OrderedDict()
        self._end: BaseException | None = None
        self.busy_s = 0.0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def facts(self) -> Mapping[str, Any]:
        """The engine's facts."""
        facts: Mapping[str, Any] = self._engine.facts()
        return facts

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Ask, and yield the replies as they come; may be called from several threads at once.

        Raises:
            Stopped: :meth:`close` was called.
            BaseException: What ended the engine, for every caller.
        """
        inbox: _Inbox = queue.SimpleQueue()
        n_asked = 0
        with self._changed:
            if self._end is not None:
                raise self._end
            for request in requests:
                n_asked += 1
                if (known := self._answered.get(request.key)) is not None:
                    inbox.put(known)
                    continue
                if request.key not in self._inboxes:
                    self._waiting.append(request)
                self._inboxes.setdefault(request.key, []).append(inbox)
            self._changed.notify()
        for _ in range(n_asked):
            reply = inbox.get()
            if isinstance(reply, BaseException):
                raise reply
            if reply is not None:  # else the engine left this request out
                yield reply

    def close(self) -> None:
        """Let every caller go and end the thread; the engine itself stays open."""
        self._finish(Stopped())
        self._thread.join(_LEAVE_S)

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and self._end is None:
                    self._changed.wait()
            if self._end is not None:
                return
            feed = _Feed(self._waiting)
            try:
                with _TURNS.setdefault(self._engine, threading.Lock()):
                    since = time.monotonic()
                    for completion in self._engine.run(list(feed) if self._at_once else feed):
                        now = time.monotonic()
                        self.busy_s += now - since
                        since = now
                        self._deliver(completion)
                        if self._end is not None:
                            return
            except BaseException as error:  # handed to the callers' threads
                self._finish(error)
                return
            self._let_go_of_what_was_left_out(idle=not feed.n_taken)

    def _deliver(self, completion: Completion) -> None:
        with self._changed:
            again = msgspec.structs.replace(completion, prompt_tokens=0, cached_tokens=0, output_tokens=0)
            for number, inbox in enumerate(self._inboxes.pop(completion.key, [])):
                inbox.put(again if number else completion)  # its tokens were read once
            if not completion.failure:
                self._answered[completion.key] = again
                if len(self._answered) > _REMEMBERED:
                    self._answered.popitem(last=False)

    def _let_go_of_what_was_left_out(self, *, idle: bool) -> None:
        with self._changed:
            if idle:  # it takes nothing: asking it for ever would not change that
                self._waiting.clear()
            waiting = {request.key for request in self._waiting}
            for key in [key for key in self._inboxes if key not in waiting]:
                for inbox in self._inboxes.pop(key):
                    inbox.put(None)

    def _finish(self, error: BaseException) -> None:
        with self._changed:
            self._end = self._end or error
            for inboxes in self._inboxes.values():
                for inbox in inboxes:
                    inbox.put(self._end)
            self._inboxes.clear()
            self._waiting.clear()
            self._changed.notify()


class _Feed(Iterator[Request]):
    """What waits; ends for the moment when nothing does."""

    def __init__(self, waiting: deque[Request]) -> None:
        self._waiting = waiting
        self.n_taken = 0

    def __next__(self) -> Request:
        try:
            request = self._waiting.popleft()
        except IndexError:
            raise StopIteration from None
        self.n_taken += 1
        return request
