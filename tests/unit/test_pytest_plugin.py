"""The pytest plugin in sessions of its own: one batch, every way to name samples, xdist, selections, failures."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

RULES = [
    {"kind": "support", "contains": "wrong", "labels": [0.1, 0.9, 0.0]},
    {"kind": "support", "labels": [0.9, 0.1, 0.0]},
]
ROWS = [
    {"id": "good", "question": "Which?", "answer": "It is red.", "contexts": ["The house is red."]},
    {"id": "bad", "question": "Which?", "answer": "It is wrong.", "contexts": ["The house is red."]},
]
TESTS = """
    import pytest

    CALLS = []

    def pipeline():
        CALLS.append(1)
        return [{"id": "f", "question": "Q?", "answer": "It is blue.", "contexts": ["Blue."]}]

    @pytest.mark.gpueval({"question": "Q?", "answer": "It is red.", "contexts": ["Red."]})
    def test_one(scored):
        assert scored.value("faithfulness") == 1.0
        scored.check(faithfulness=0.8)

    @pytest.mark.gpueval("cases.jsonl", each=True)
    def test_each(scored):
        scored.check(faithfulness=0.8)

    @pytest.mark.gpueval("cases.jsonl")
    def test_all(scored):
        assert scored.ids == ["good", "bad"]
        scored.check_mean(faithfulness=0.5)
        assert scored.values("faithfulness") == {"good": 1.0, "bad": 0.0}

    @pytest.mark.gpueval(samples=pipeline)
    def test_function(scored):
        scored.check(faithfulness=0.8)
        assert CALLS == [1]

    @pytest.mark.gpueval(samples=pipeline, metrics=["faithfulness", "exact_match"])
    def test_function_again(scored):
        assert scored.states("exact_match") == {"f": "not_applicable"}
        assert CALLS == [1]

    def test_without():
        pass
"""


@pytest.fixture
def session(pytester, monkeypatch):
    """Make a project with the tests above; the returned function runs pytest in a process of its own."""
    (pytester.path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (pytester.path / "rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in RULES))
    pytester.makeini("[pytest]\ngpueval_judge = scripted:rules.jsonl\n")

    def run(*arguments, tests=TESTS):
        pytester.makepyfile(test_rag=tests)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run


def asked(pytester) -> int:
    return len((pytester.path / ".gpueval" / "pytest" / "samples.jsonl").read_text().splitlines())


def test_all_tests_are_judged_together_and_failures_show_claims(session, pytester) -> None:
    done = session()
    done.assert_outcomes(passed=6, failed=1)
    done.stdout.fnmatch_lines(
        [
            "*gpueval: judging 7 samples of 6 tests together*",
            "*test_each[[]bad[]]*",
            "*faithfulness of 'bad' is 0.000, wanted at least 0.800*",
            "*gpueval*",
            "faithfulness of 'bad': not supported (p 0.10): It is wrong.",
            "    nearest: The house is red.",
        ]
    )
    assert done.stdout.str().count("judging") == 1
    assert asked(pytester) == 7


def test_only_what_is_selected_is_judged(session, pytester) -> None:
    session("-k", "one or good").assert_outcomes(passed=2, deselected=5)
    assert asked(pytester) == 2


def test_the_last_failed_are_judged_alone(session, pytester) -> None:
    pytester.makepyfile(test_rag=TESTS)
    pytester.runpytest_subprocess().assert_outcomes(passed=6, failed=1)
    pytester.runpytest_subprocess("--lf").assert_outcomes(failed=1)
    assert asked(pytester) == 1


def test_under_xdist_one_worker_judges_for_all(session, pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist comes with the development packages")
    session("-n", "2").assert_outcomes(passed=6, failed=1)
    run = json.loads((pytester.path / ".gpueval" / "pytest" / "run.json").read_text())
    assert run["requests"]["n_requests"] == 4  # four different answers over their documents
    assert run["requests"]["n_reused"] == 0, "a second worker judged again"


def test_nothing_is_judged_where_no_test_asks(session, pytester) -> None:
    session("-k", "without").assert_outcomes(passed=1, deselected=6)
    session("--collect-only", "-q")
    assert not (pytester.path / ".gpueval").exists()


def test_a_judge_that_is_not_there_fails_every_test_with_the_remedy(session) -> None:
    done = session("--gpueval-judge", "no/folder", "-k", "one or all")
    done.assert_outcomes(errors=2, deselected=5)
    done.stdout.fnmatch_lines(["*gpueval downloads nothing*"])


@pytest.mark.parametrize(
    ("test", "part"),
    [
        ("def test_x(scored): pass", "needs the marker"),
        ("@pytest.mark.gpueval(metrics=['bleu'])\ndef test_x(scored): pass", "names no samples"),
        ("@pytest.mark.gpueval('none.jsonl')\ndef test_x(scored): pass", "none.jsonl: does not exist"),
        ("@pytest.mark.gpueval(['text'])\ndef test_x(scored): pass", "test_rag.py"),
        ("@pytest.mark.gpueval('cases.jsonl')\ndef test_x(scored): scored.value('faithfulness')", "has 2 samples"),
        ("@pytest.mark.gpueval('cases.jsonl')\ndef test_x(scored): scored.check(bleu=1)", "bleu was not asked"),
        (
            "@pytest.mark.gpueval([{'question': 'q', 'answer': ''}], metrics=['exact_match'])\n"
            "def test_x(scored): scored.check_mean(exact_match=0.1)",
            "covers 0 of 1 samples: '1' not_applicable",
        ),
    ],
)
def test_mistakes_are_told(session, test, part) -> None:
    done = session(tests=f"import pytest\n{test}\n")
    assert done.ret == 1
    assert part in done.stdout.str()


def test_a_file_for_each_that_is_not_there_ends_the_collection(session) -> None:
    done = session(tests="import pytest\n@pytest.mark.gpueval('no.jsonl', each=True)\ndef test_x(scored): pass\n")
    assert done.ret != 0
    assert "no.jsonl: does not exist" in done.stdout.str() + done.stderr.str()
