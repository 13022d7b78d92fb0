"""Windows of samples overlap: one engine asked by several threads, results in order, nobody left waiting."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import gpueval
from gpueval.engines.balanced import Balanced
from gpueval.engines.scripted import Scripted
from gpueval.engines.shared import Shared, Stopped
from gpueval.errors import EngineDied
from gpueval.judge.prompts import SUPPORT
from gpueval.records import Completion, Request

TIMEOUT_S = 20


def request(name: str) -> Request:
    return Request(name.encode().ljust(16), SUPPORT, ("passage", "", name))


class Held:
    """Takes everything, and answers only when told; notes what it was asked."""

    fingerprint, max_prompt_tokens = "held", 100

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.taken, self.go = threading.Event(), threading.Event()
        self.answers = lambda request: Completion(request.key, labels=(1.0, 0.0, 0.0))

    def run(self, requests):
        held = []
        for one in requests:
            self.asked.append(one.key)
            held.append(one)
        self.taken.set()
        assert self.go.wait(TIMEOUT_S)
        for one in held:
            if (reply := self.answers(one)) is not None:
                yield reply

    def facts(self):
        return {}


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as made:
        yield made


def keys(shared, names):
    return [completion.key.decode().strip() for completion in shared.run([request(name) for name in names])]


def test_what_one_caller_waits_for_is_not_asked_again_for_another(pool) -> None:
    engine = Held()
    shared = Shared(engine, at_once=False)
    first = pool.submit(keys, shared, ["a", "b"])
    assert engine.taken.wait(TIMEOUT_S)
    second = pool.submit(keys, shared, ["b", "c"])
    while b"c".ljust(16) not in {one.key for one in shared._waiting}:
        pass
    engine.go.set()
    assert sorted(first.result(TIMEOUT_S)) == ["a", "b"]
    assert sorted(second.result(TIMEOUT_S)) == ["b", "c"]
    assert len(engine.asked) == 3
    shared.close()


def test_an_engine_that_dies_lets_every_caller_know_now_and_later(pool) -> None:
    engine = Held()
    shared = Shared(engine, at_once=False)

    def die(one):
        raise EngineDied("gone")

    engine.answers = die
    callers = [pool.submit(keys, shared, [name]) for name in "ab"]
    engine.go.set()
    for caller in callers:
        with pytest.raises(EngineDied, match="gone"):
            caller.result(TIMEOUT_S)
    with pytest.raises(EngineDied, match="gone"):
        keys(shared, ["c"])


def test_a_closed_engine_lets_its_callers_go(pool) -> None:
    engine = Held()
    shared = Shared(engine, at_once=False)
    caller = pool.submit(keys, shared, ["a"])
    assert engine.taken.wait(TIMEOUT_S)
    threading.Thread(target=shared.close).start()
    with pytest.raises(Stopped):
        caller.result(TIMEOUT_S)
    engine.go.set()


def test_a_model_that_answers_blocks_gets_all_that_waits_as_a_list() -> None:
    given = []

    class Model(Held):
        def run(self, requests):
            given.append(requests[:])
            return map(self.answers, requests)

    shared = Shared(Model(), at_once=True)
    assert keys(shared, ["a", "b"]) == ["a", "b"]
    assert keys(shared, ["b", "c"]) == ["b", "c"]
    assert [len(some) for some in given] == [2, 1]
    shared.close()


def test_a_request_that_failed_is_asked_again_at_once() -> None:
    replies = iter(["timeout", ""])
    shared = Shared(Scripted(lambda one: Completion(one.key, failure=next(replies))), at_once=False)
    assert [next(iter(shared.run([request("a")]))).failure for _ in range(2)] == ["timeout", ""]
    shared.close()


def test_a_reply_that_never_comes_does_not_hold_the_others(pool) -> None:
    engine = Held()
    engine.answers = lambda one: None if one.key.startswith(b"b") else Completion(one.key)
    engine.go.set()
    shared = Shared(engine, at_once=False)
    assert pool.submit(keys, shared, ["a", "b", "c"]).result(TIMEOUT_S) == ["a", "c"]
    shared.close()


def test_several_judges_take_what_is_asked_while_they_answer() -> None:
    feed = [request("a")]

    class Later:
        def __iter__(self):
            return self

        def __next__(self):
            if not feed:
                raise StopIteration
            return feed.pop()

    def reply(one):
        if one.key == request("a").key:
            feed.append(request("b"))
        return Completion(one.key)

    replies = Balanced([Scripted(reply, "same"), Scripted(reply, "same")]).run(Later())
    assert [one.key for one in replies] == [request("a").key, request("b").key]


SAMPLES = [
    {"id": str(i), "question": f"q{i}?", "answer": f"It is number {i}.", "contexts": [f"This is number {i}."]}
    for i in range(8)
]


def test_the_next_window_is_asked_before_the_first_is_answered(tmp_path) -> None:
    seen, second = threading.Event(), "number 3"

    class Engine(Scripted):
        def run(self, requests):
            held = []
            while True:
                for one in requests:
                    held.append(one)
                    if second in one.parts[0]:
                        seen.set()
                if seen.wait(0.01):  # until then nothing is answered: window by window it never comes
                    break
            yield from map(self._reply, held)

    engine = Engine(lambda one: Completion(one.key, labels=(0.9, 0.1, 0.0)), "held")
    done: list[gpueval.Result] = []
    options = {"metrics": ["faithfulness"], "window_samples": 2}
    thread = threading.Thread(
        target=lambda: done.append(gpueval.evaluate(SAMPLES, judge=engine, out=tmp_path / "a", **options)), daemon=True
    )
    thread.start()
    thread.join(TIMEOUT_S)
    assert done, "the second window was not asked while the first was open"
    assert [line["id"] for line in done[0].cells()] == [row["id"] for row in SAMPLES]
    whole = gpueval.evaluate(
        SAMPLES,
        judge=Scripted(engine._reply, "other"),
        out=tmp_path / "b",
        metrics=["faithfulness"],
    )
    assert list(done[0].cells()) == list(whole.cells())


def test_progress_tells_of_the_window_that_is_due(tmp_path) -> None:
    told: list[tuple[str, int, int]] = []
    engine = Scripted(lambda one: Completion(one.key, labels=(0.9, 0.1, 0.0)), "told")
    gpueval.evaluate(
        SAMPLES,
        judge=engine,
        out=tmp_path,
        metrics=["faithfulness"],
        window_samples=2,
        progress=lambda *report: told.append(report),
    )
    assert [done for stage, done, _ in told if stage == "samples"] == [2, 4, 6, 8]
    ends = [i for i, (stage, _, _) in enumerate(told) if stage == "samples"]
    for begin, end in zip([0, *(i + 1 for i in ends)], ends, strict=False):
        within = [done for stage, done, _ in told[begin:end] if stage == "verdicts"]
        assert within == sorted(within)


def test_an_engine_that_dies_in_the_second_window_ends_the_run_and_keeps_the_first(tmp_path) -> None:
    def reply(one):
        if "number 3" in one.parts[0]:
            raise EngineDied("gone")
        return Completion(one.key, labels=(0.9, 0.1, 0.0))

    options = {"metrics": ["faithfulness"], "window_samples": 2, "out": tmp_path}
    with pytest.raises(EngineDied, match="gone"):
        gpueval.evaluate(SAMPLES, judge=Scripted(reply, "same"), **options)
    asked = []

    def again(one):
        asked.append(one)
        return Completion(one.key, labels=(0.9, 0.1, 0.0))

    result = gpueval.evaluate(SAMPLES, judge=Scripted(again, "same"), **options)
    assert result.metrics["faithfulness"].n_scored == 8
    assert len(asked) < 8


def test_tokens_of_a_reply_for_two_callers_count_once_and_the_clock_runs_while_it_answers(pool) -> None:
    engine = Held()
    engine.answers = lambda one: Completion(one.key, prompt_tokens=10)
    shared = Shared(engine, at_once=False)
    callers = [pool.submit(lambda: list(shared.run([request("a")]))) for _ in range(2)]
    assert engine.taken.wait(TIMEOUT_S)
    while sum(map(len, shared._inboxes.values())) < 2:
        pass
    engine.go.set()
    found = [caller.result(TIMEOUT_S)[0].prompt_tokens for caller in callers]
    assert sorted([*found, next(shared.run([request("a")])).prompt_tokens]) == [0, 0, 10]
    assert shared.busy_s > 0
    shared.close()


def test_one_engine_never_runs_in_two_threads(pool) -> None:
    """After an interrupt a thread may still be in the engine when it is used again."""
    inside, most = [], []

    class Slow(Held):
        def run(self, requests):
            for one in requests:
                inside.append(1)
                most.append(len(inside))
                assert self.go.wait(TIMEOUT_S)
                inside.pop()
                yield Completion(one.key)

    engine = Slow()
    first, second = Shared(engine, at_once=False), Shared(engine, at_once=False)
    callers = [pool.submit(keys, shared, [name]) for shared, name in ((first, "a"), (second, "b"))]
    while not inside:
        pass
    engine.go.set()
    assert [caller.result(TIMEOUT_S) for caller in callers] == [["a"], ["b"]]
    assert max(most) == 1
