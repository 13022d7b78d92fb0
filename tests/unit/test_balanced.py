"""Several judges as one: groups stay together, nobody waits, a lost member's work goes to the others."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

import pytest

from gpueval.engines.balanced import Balanced
from gpueval.engines.pace import Pace
from gpueval.errors import EngineDied, EngineError, UsageError
from gpueval.judge.prompts import SUPPORT
from gpueval.records import Completion, Request


class Member:
    """Answers up to ``width`` requests together, ``pause_s`` each time; may be told to die after some answers."""

    max_prompt_tokens = 100

    def __init__(self, pause_s=0.0, width=16, dies_after=None, fingerprint="same", error=EngineDied):
        self.pause_s, self.width, self.dies_after, self.fingerprint = pause_s, width, dies_after, fingerprint
        self.error = error
        self.answered: list[Request] = []
        self.closed = False

    def count_tokens(self, text):
        return len(text)

    def facts(self):
        return {"width": self.width}

    def close(self):
        self.closed = True

    def run(self, requests):
        waiting = iter(requests)
        while True:
            batch = []
            while len(batch) < self.width and (request := next(waiting, None)) is not None:
                batch.append(request)
            if not batch:
                return
            time.sleep(self.pause_s)
            for request in batch:
                if self.dies_after is not None and len(self.answered) >= self.dies_after:
                    raise self.error("gone")
                self.answered.append(request)
                yield Completion(request.key, labels=(1.0, 0.0, 0.0))


def requests(n_passages, of_each):
    return [
        Request(f"{p}:{i}".encode().ljust(16), SUPPORT, (f"passage {p}", "", f"claim {i}"))
        for p in range(n_passages)
        for i in range(of_each)
    ]


def test_each_request_is_answered_once_and_passages_stay_together() -> None:
    members = [Member(0.01), Member(0.01), Member(0.01)]
    asked = requests(200, 5)
    found = [completion.key for completion in Balanced(members).run(asked)]
    assert sorted(found) == sorted(request.key for request in asked)
    places = defaultdict(set)
    for number, member in enumerate(members):
        assert member.answered
        for request in member.answered:
            places[request.parts[0]].add(number)
    assert all(len(of_passage) == 1 for of_passage in places.values())


def test_the_faster_member_takes_more_and_nobody_waits_at_the_end() -> None:
    slow, fast = Member(0.04, width=4), Member(0.002, width=4)
    assert len(list(Balanced([slow, fast]).run(requests(300, 1)))) == 300
    assert len(fast.answered) > 3 * len(slow.answered) > 0


def test_one_passage_of_many_claims_is_shared_out() -> None:
    members = [Member(0.002), Member(0.002)]
    assert len(list(Balanced(members).run(requests(1, 1000)))) == 1000
    assert all(len(member.answered) > 200 for member in members)


def test_a_lost_member_costs_nothing(capsys) -> None:
    dying, other = Member(0.001, dies_after=20), Member(0.001)
    asked = requests(40, 5)
    found = [completion.key for completion in Balanced([dying, other]).run(asked)]
    assert sorted(found) == sorted(request.key for request in asked)
    assert len(dying.answered) == 20
    assert "a judge is lost (gone); the others go on" in capsys.readouterr().err


def test_a_lost_member_comes_back(monkeypatch) -> None:
    monkeypatch.setattr("gpueval.engines.balanced._FIRST_PAUSE_S", 0.05)
    back, other = Member(0.001, dies_after=20), Member(0.01, width=2)

    def mend() -> None:
        back.dies_after = None

    threading.Timer(0.1, mend).start()
    assert len(list(Balanced([back, other]).run(requests(100, 4)))) == 400
    assert len(back.answered) > 100


def test_all_lost_ends_the_run_with_what_was_answered() -> None:
    members = [Member(dies_after=10), Member(dies_after=30)]
    found = []
    with pytest.raises(EngineDied, match="gone"):
        found.extend(Balanced(members).run(requests(40, 5)))


def test_an_error_that_no_other_member_can_mend_is_raised_at_once() -> None:
    members = [Member(dies_after=10, error=EngineError), Member(0.01)]
    with pytest.raises(EngineError, match="gone"):
        list(Balanced(members).run(requests(400, 5)))


def test_leaving_early_leaves_no_thread() -> None:
    before = threading.active_count()
    replies = Balanced([Member(0.001), Member(0.001)]).run(requests(100, 5))
    next(replies)
    replies.close()
    assert threading.active_count() == before


def test_members_that_differ_are_refused() -> None:
    with pytest.raises(UsageError, match="The judges differ"):
        Balanced([Member(), Member(fingerprint="other")])


def test_facts_say_what_differs_and_close_closes_all() -> None:
    members = [Member(), Member(width=8)]
    both = Balanced(members)
    assert both.facts() == {"width": 16, "replicas": 2, "replicas_differ": [{}, {"width": 8}]}
    both.close()
    assert all(member.closed for member in members)


def test_pace_doubles_per_round_trip_then_halves_once_and_grows_slowly() -> None:
    pace, now = Pace(256, 100.0), 0.0
    assert pace.limit == 64
    now += 1
    for _ in range(pace.limit):  # one round trip
        pace.served(now - 1, now)
    assert pace.limit == 128
    for _ in range(10):  # ten refusals of one round trip
        pace.strained(now, now + 1)
    assert pace.limit == 64
    now += 2
    for _ in range(pace.limit):
        pace.served(now, now + 1)
    assert pace.limit == 64  # nearly one more
    pace.served(now, now + 1)
    pace.served(now, now + 1)
    assert pace.limit == 65


def test_pace_stays_within_its_bounds_and_follows_the_deadline() -> None:
    pace = Pace(20, 10.0)
    for i in range(100):
        pace.served(i, i + 1)
    assert pace.limit == 20
    pace.served(100, 104)  # neither quick nor slow
    assert pace.limit == 20
    for i in range(10):
        pace.served(200 + 100 * i, 208 + 100 * i)  # more than three quarters of the deadline
    assert pace.limit == 1


def test_a_lost_member_does_not_keep_the_others_from_counting_tokens() -> None:
    class Lost(Member):
        def count_tokens(self, text):
            raise EngineDied("gone")

    assert Balanced([Lost(), Member()]).count_tokens("four") == 4
    with pytest.raises(EngineDied):
        Balanced([Lost(), Lost()]).count_tokens("four")


def test_a_request_that_a_member_leaves_out_is_a_failure_and_holds_nobody() -> None:
    class Forgetful(Member):
        def run(self, requests):
            for completion in super().run(requests):
                if not completion.key.startswith(b"0:1"):
                    yield completion

    replies = list(Balanced([Forgetful(), Forgetful()]).run(requests(2, 3)))
    assert len(replies) == 6
    assert [reply.failure for reply in replies if reply.failure] == ["engine_error"]
