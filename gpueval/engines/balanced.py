"""One engine made of several that give the same replies: servers, or the replicas of a cluster.

Requests that share a passage go to one member, so that its prefix cache pays. A member takes the next group when it has
room for it: a faster one simply takes more. What a lost member had taken and not answered goes to the others.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from gpueval.engines.base import Engine
from gpueval.errors import EngineDied, UsageError
from gpueval.records import Completion, Request, State

_LONGEST_GROUP = 64
"""Requests of one passage that are given out together."""

_ALWAYS = 32
"""Requests that a member may have in flight however few are left; above, no more than its share of the rest."""

_LOOK_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 30.0, 300.0
_LEAVE_S = 2.0


class Balanced:
    """Spreads requests over engines.

    A member that dies is tried again after a pause, as long as another one works.

    Args:
        members: Engines with equal fingerprints.

    Raises:
        UsageError: They differ in what decides a reply.
    """

    def __init__(self, members: Sequence[Engine]) -> None:
        first, *others = members
        for other in others:
            if other.fingerprint != first.fingerprint:
                raise UsageError(
                    f"The judges differ: {first.fingerprint} and {other.fingerprint}.",
                    "Give every server or node the same model: their verdicts are averaged as one judge's.",
                )
        self._members = members
        self.fingerprint = first.fingerprint
        self.max_prompt_tokens = min(getattr(member, "max_prompt_tokens", 0) for member in members)

    def count_tokens(self, text: str) -> int:
        """Count with the first member that is there.

        Raises:
            EngineDied: None is.
        """
        *others, last = self._members
        for member in others:
            with contextlib.suppress(EngineDied):
                return member.count_tokens(text)
        return last.count_tokens(text)

    def facts(self) -> Mapping[str, Any]:
        """The first member's facts, counts (``n_…``) of all together, and what the others' facts differ in."""
        every = [dict(member.facts()) for member in self._members]
        counts = {key: sum(one.get(key, 0) for one in every) for key in every[0] if key.startswith("n_")}
        apart = [{key: value for key, value in one.items() if value != every[0].get(key)} for one in every]
        return every[0] | counts | {"replicas": len(every), "replicas_differ": apart}

    def close(self) -> None:
        """Close every member."""
        for member in self._members:
            member.close()

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Answer every request; see the class.

        Raises:
            EngineDied: All members are lost at the same time.
        """
        work = _Work(requests, len(self._members))
        replies: queue.SimpleQueue[tuple[int, Completion | BaseException]] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=_serve, args=(number, member, work, replies), daemon=True)
            for number, member in enumerate(self._members)
        ]
        for thread in threads:
            thread.start()
        lost: set[int] = set()
        n_answered = 0
        try:
            while n_answered < work.n_requests:
                number, reply = replies.get()
                if isinstance(reply, Completion):
                    lost.discard(number)
                    n_answered += 1
                    work.take_more()
                    yield reply
                    continue
                lost.add(number)
                if not isinstance(reply, EngineDied) or len(lost) == len(self._members):
                    raise reply
                print(f"gpueval: a judge is lost ({reply}); the others go on", file=sys.stderr)
        finally:
            work.finished.set()
            for thread in threads:
                thread.join(_LEAVE_S)


class _Work:
    """Groups of requests that nobody has taken yet; shared by the members' threads."""

    def __init__(self, requests: Iterable[Request], n_members: int) -> None:
        self.finished = threading.Event()
        self._lock = threading.Lock()
        self._n_members = n_members
        self._groups: deque[list[Request]] = deque()
        self._n_waiting = self.n_requests = 0
        self._requests = iter(requests)
        self.take_more()

    def take_more(self) -> None:
        """Take what the requests' iterator has by now."""
        for _, same in groupby(self._requests, key=lambda request: (request.ask.kind, request.parts[0])):
            group = list(same)
            with self._lock:
                self.n_requests += len(group)
                self._n_waiting += len(group)
                self._groups += [group[i : i + _LONGEST_GROUP] for i in range(0, len(group), _LONGEST_GROUP)]

    def next_group(self, n_taken: int) -> list[Request]:
        """Take a group; none while the member has its share of what is left."""
        with self._lock:
            most = max(_ALWAYS, self._n_waiting // self._n_members)
            if not self._groups or n_taken >= most or self.finished.is_set():
                return []
            group = self._groups.popleft()
            self._n_waiting -= len(group)
            return group

    def give_back(self, requests: Sequence[Request]) -> None:
        """Put back what a lost member leaves, behind all others: one of them may be why it is lost."""
        with self._lock:
            self._groups += [[request] for request in requests]
            self._n_waiting += len(requests)


class _Feed(Iterator[Request]):
    """What one member takes; ends for the moment when there is nothing for it."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._group: deque[Request] = deque()
        self.taken: dict[bytes, Request] = {}

    def __next__(self) -> Request:
        if not self._group:
            self._group.extend(self._work.next_group(len(self.taken)))
            if not self._group:
                raise StopIteration
        request = self._group.popleft()
        self.taken[request.key] = request
        return request

    def give_back(self) -> None:
        """Leave everything that is not answered to the others."""
        self._work.give_back([*self.taken.values(), *self._group])
        self.taken.clear()
        self._group.clear()


def _serve(
    number: int, member: Engine, work: _Work, replies: queue.SimpleQueue[tuple[int, Completion | BaseException]]
) -> None:
    """Let one member answer until all is answered; runs in a thread of its own."""
    feed, pause_s = _Feed(work), _FIRST_PAUSE_S
    while not work.finished.is_set():
        try:
            for completion in member.run(feed):
                del feed.taken[completion.key]
                replies.put((number, completion))
                pause_s = _FIRST_PAUSE_S
                if work.finished.is_set():
                    return
        except BaseException as error:  # handed to the caller's thread
            feed.give_back()
            replies.put((number, error))
            if not isinstance(error, EngineDied):
                return
            work.finished.wait(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
        else:
            for key in list(feed.taken):
                del feed.taken[key]
                replies.put((number, Completion(key, failure=State.ENGINE_ERROR, message="the judge gave no reply")))
            work.finished.wait(_LOOK_S)  # for what another member may leave
