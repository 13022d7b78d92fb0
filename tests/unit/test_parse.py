"""Replies of all kinds of judges, read without ever raising."""

from __future__ import annotations

import pytest

from gpueval.judge import parse
from gpueval.records import Completion, State

KEY = b"k" * 16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', {"a": 1}),
        ('Sure! Here you are:\n```json\n{"a": 1}\n```\nAnything else?', {"a": 1}),
        ('<think>{"a": "draft"}</think>{"a": [1,],}', {"a": [1]}),
        ('reasoning {"a": "draft"} </think> {"a": 2}', {"a": 2}),
        ('{"a": 1} no, rather {"a": 2}', {"a": 2}),
        ('{"a": "brace } and quote \\" inside"}', {"a": 'brace } and quote " inside'}),
        ('{"a": "never closed', None),
        ("[1, 2]", None),
        ("", None),
        ("{" * 5000, None),
    ],
)
def test_json_object(text, expected) -> None:
    assert parse.json_object(text) == expected


def test_verdict_is_the_share_of_yes_among_the_labels() -> None:
    verdict = parse.verdict([Completion(KEY, labels=(0.6, 0.2, 0.0))])
    assert verdict.p == pytest.approx(0.75)
    assert verdict.mass == pytest.approx(0.8)


def test_a_failed_window_fails_the_verdict_unless_another_says_yes() -> None:
    failed = Completion(KEY, failure="timeout")
    low, high = Completion(KEY, labels=(0.1, 0.9, 0.0)), Completion(KEY, labels=(0.9, 0.1, 0.0))
    assert parse.verdict([failed, low]).state == State.TIMEOUT
    assert parse.verdict([failed, high]).p == pytest.approx(0.9)
    assert parse.verdict([low, high]).windows == 2


def test_no_reply_is_an_engine_error() -> None:
    assert parse.verdict([None]).state == State.ENGINE_ERROR
    assert parse.similarity(None).state == State.ENGINE_ERROR


def test_nan_probabilities_are_invalid_not_a_number() -> None:
    assert parse.verdict([Completion(KEY, labels=(float("nan"), 0.1, 0.0))]).state == State.INVALID_VERDICT


@pytest.mark.parametrize(
    "text",
    ['{"claims":[{"sentence":"1","claim":"x"}]}', '{"claims":[{"claim":"x"}]}', '{"claims":["x"]}', '{"claims":{}}'],
)
def test_claims_of_another_shape_are_not_guessed_at(text) -> None:
    assert parse.claims(Completion(KEY, text=text), 3) == ((), State.PARSE_FAILED)
