"""The engine that dies: what was answered is kept, the poison is found, the others are answered."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from gpueval.engines.interrupts import interruptible
from gpueval.engines.recovery import Recovering
from gpueval.errors import EngineDied
from gpueval.judge.prompts import SUPPORT
from gpueval.records import Completion, Request, State


class Mortal:
    """Dies at poison, and by chance at the calls named; keeps count of answers over all its lives."""

    fingerprint = "mortal"
    max_prompt_tokens = 100

    def __init__(self, poison, answered, chance):
        self.poison, self.answered, self.chance = poison, answered, chance

    def count_tokens(self, text):
        return len(text)

    def facts(self):
        return {}

    def close(self):
        pass

    def run(self, requests):
        batch = []
        for request in requests:
            if request.key in self.poison or len(self.answered) + len(batch) in self.chance:
                self.chance.discard(len(self.answered) + len(batch))
                raise EngineDied("killed")
            batch.append(request.key)
            if len(batch) == 8:  # replies come in batches: those of the batch that dies are lost
                for key in batch:
                    self.answered.append(key)
                    yield Completion(key, labels=(0.9, 0.1, 0.0))
                batch = []
        for key in batch:
            self.answered.append(key)
            yield Completion(key, labels=(0.9, 0.1, 0.0))


def requests(n):
    return [Request(i.to_bytes(16, "big"), SUPPORT, (str(i),)) for i in range(n)]


@pytest.mark.parametrize("poison", [[], [0], [63], [17, 18], [3, 40, 99]])
def test_only_poison_is_lost(poison) -> None:
    asked, answered, starts = requests(100), [], []
    bad = {asked[i].key for i in poison}

    def start():
        starts.append(1)
        return Mortal(bad, answered, set())

    found = list(Recovering(start).run(asked))
    assert sorted(c.key for c in found) == [r.key for r in asked]
    assert {c.key for c in found if c.failure} == bad
    assert all(c.fatal and c.failure == State.ENGINE_ERROR for c in found if c.failure)
    assert len(answered) == len(set(answered)) == 100 - len(poison)
    assert len(starts) <= 1 + 8 * max(1, len(poison))


def test_a_death_by_chance_loses_nothing() -> None:
    asked, answered, chance = requests(100), [], {30}
    found = list(Recovering(lambda: Mortal(set(), answered, chance)).run(asked))
    assert not [c for c in found if c.failure]
    assert len(found) == 100


def test_a_lone_request_must_kill_twice_to_be_given_up() -> None:
    asked, answered = requests(1), []
    chance = {0}
    (found,) = Recovering(lambda: Mortal(set(), answered, chance)).run(asked)
    assert not found.failure


def test_an_engine_that_always_dies_is_given_up() -> None:
    asked = requests(100)
    engine = Recovering(lambda: Mortal({r.key for r in asked}, [], set()), most_deaths=5)
    with pytest.raises(EngineDied, match="died 6 times"):
        list(engine.run(asked))


def test_what_was_closed_is_not_started_again() -> None:
    starts = []

    def start():
        starts.append(1)
        return Mortal({requests(5)[3].key}, [], set())

    engine = Recovering(start)
    replies = engine.run(requests(20))
    engine.close()
    with pytest.raises(EngineDied):
        list(replies)
    assert starts == [1]


def test_a_dead_engine_that_is_asked_to_count_is_started_again_once() -> None:
    starts = []

    class Counter(Mortal):
        def __init__(self):
            super().__init__(set(), [], set())
            self.dead = not starts
            starts.append(1)

        def count_tokens(self, text):
            if self.dead:
                raise EngineDied("gone")
            return len(text)

    engine = Recovering(Counter)
    assert [engine.count_tokens("four"), engine.count_tokens("four")] == [4, 4]
    assert (len(starts), engine.facts()["engine_deaths"]) == (2, 1)


def test_an_interrupt_is_kept_where_a_library_swallows_it() -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible(), contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)  # vLLM's zmq_socket_ctx swallows it as suppress does
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_of_the_caller_stays() -> None:
    got = []
    before = signal.signal(signal.SIGTERM, lambda *_: got.append(1))
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
        assert got == [1]
    finally:
        signal.signal(signal.SIGTERM, before)
