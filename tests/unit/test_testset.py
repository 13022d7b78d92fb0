"""A test set is made and checked; the judge is measured before it may drop an item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpueval.cli.testset import testset as command
from gpueval.engines.scripted import Scripted
from gpueval.errors import DataError, EngineError
from gpueval.judge.plan import Keys
from gpueval.records import Completion, Request
from gpueval.testset.checks import Check, Problem, questions_about
from gpueval.testset.examine import check_testset
from gpueval.testset.folder import read_items
from gpueval.testset.kinds import Kind, parse_mix
from gpueval.testset.make import make_testset
from gpueval.testset.trust import Trust, labelled, measure


def test_a_judge_is_measured_on_labelled_items_before_it_may_drop_any() -> None:
    truth: dict[bytes, bool] = {}
    keys = Keys("judge", "")
    for one, label in labelled():
        asked = questions_about(one, (), keys)
        for request, says in (
            *((request, label.supported) for request in asked.supported),
            (asked.alone, label.alone),
            (asked.responds, label.responds),
            (asked.whole, label.whole),
            *zip(asked.parts, label.parts, strict=False),
        ):
            if request is not None and says is not None:
                truth[request.key] = says

    def low(requests, stage):  # a judge that ranks well, and never says yes at 0.5
        found = {}
        for one in requests:
            text = "The reference stands here." if one.ask.kind == "closed" else ""
            p = 0.4 if truth.get(one.key) else 0.2
            found[one.key] = Completion(one.key, text, labels=() if text else (p, 1 - p, 0.0))
        return found

    found = measure(low, keys)
    assert found.keys() == set(Check)
    for check in (Check.ALONE, Check.SUPPORTED, Check.RESPONDS, Check.ANSWERED):
        assert found[check].used
        assert 0.2 < found[check].threshold <= 0.4
        assert found[check].balanced_accuracy > 0.95
        assert found[check].n_yes > 5 < found[check].n_no
    assert not found[Check.KNOWN].used

    def guessing(requests, stage):
        return {one.key: Completion(one.key, "x", labels=(0.7, 0.3, 0.0)) for one in requests}

    assert not any(one.used for one in measure(guessing, keys).values())


def test_a_check_at_which_the_judge_guesses_drops_nothing(
    corpus: Path, tmp_path: Path, monkeypatch, writer: type[Scripted], words: Any
) -> None:
    guesses = {check: Trust(0.5, 0.5, 9, 9, used=False) for check in Check}
    monkeypatch.setattr("gpueval.testset.make.measure", lambda ask, keys: guesses)
    no = writer(lambda one: Completion(one.key, labels=(0.1, 0.9, 0.0)) if one.ask.labels else writer.reply(one))
    mix = parse_mix("factual")
    card = make_testset(corpus, 1, judge=no, embedder=words, out=tmp_path / "s", mix=mix)
    assert card.n_kept == 1
    assert card.solvability is None
    assert card.to_dict()["trust"]["supported"]["used"] is False


def test_a_set_is_made_with_its_corpus_judgments_and_card(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    out = tmp_path / "set"
    mix = parse_mix("factual=2,follow_up,unanswerable")
    card = make_testset(corpus, 4, judge=writer(), embedder=words, out=out, mix=mix, chunk_characters=300)
    items = read_items(out / "testset.jsonl")
    assert [one.kind for one in items] == [Kind.FACTUAL] * 2 + [Kind.UNANSWERABLE]
    assert card.n_kept == 3
    assert card.n_documents == 2 == card.n_chunks
    (row,) = (row for row in card.rows if row.kind is Kind.FOLLOW_UP)  # no chunk holds three sentences worth it
    assert (row.wanted, row.written, row.kept) == (1, 0, 0)
    texts = {
        json.loads(line)["_id"]: json.loads(line)["text"] for line in (out / "corpus.jsonl").read_text().splitlines()
    }
    for one in items:
        if one.answerable:
            assert [texts[name] for name in one.relevant_ids] == [proof.text for proof in one.evidence]
        assert (corpus / one.evidence[0].document).read_text()[
            one.evidence[0].start : one.evidence[0].end
        ] == one.evidence[0].text
    judged = [line.split("\t") for line in (out / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    assert [(query, name) for query, name, _ in judged] == [
        (one.id, one.relevant_ids[0]) for one in items if one.answerable
    ]
    written = json.loads((out / "card.json").read_text())
    assert written["solvability"] == 1.0
    assert written["facts"]["wish"]["seed"] == 0
    from gpueval.data.columns import Columns
    from gpueval.data.load import load

    loaded = list(load(out / "testset.jsonl", Columns()))
    assert [one.answerable for one in loaded] == [True, True, False]


def test_the_same_command_asks_nothing_again_and_gives_the_same_set(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    first, second = writer(), writer()
    for engine in (first, second):
        make_testset(corpus, 3, judge=engine, embedder=words, out=tmp_path / "set", seed=3)
        made = (tmp_path / "set" / "testset.jsonl").read_bytes()
    assert first.n > 0
    assert second.n == 0
    make_testset(corpus, 3, judge=writer(), embedder=words, out=tmp_path / "other", seed=3)
    assert (tmp_path / "other" / "testset.jsonl").read_bytes() == made


def test_what_is_dropped_is_counted_with_its_reason(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    def strict(request: Request) -> Completion:
        kind = request.ask.kind
        if kind == "support":
            return Completion(request.key, labels=(0.1, 0.9, 0.0))
        if kind == "answerable":
            return Completion(request.key, labels=(0.9, 0.1, 0.0))
        return writer.reply(request)

    card = make_testset(
        corpus,
        3,
        judge=writer(strict),
        embedder=words,
        out=tmp_path / "s",
        mix=parse_mix("factual=2,unanswerable=1"),
    )
    dropped = {row.kind: row.dropped for row in card.rows}
    assert card.n_kept == 0
    assert dropped[Kind.FACTUAL].keys() == {str(Problem.UNSUPPORTED)}
    assert dropped[Kind.UNANSWERABLE].keys() == {str(Problem.ANSWERED)}
    assert (tmp_path / "s" / "testset.jsonl").read_bytes() == b""
    lines = [json.loads(line) for line in (tmp_path / "s" / "dropped.jsonl").read_text().splitlines()]
    assert len(lines) == sum(row.written for row in card.rows)
    assert all(line["problems"] for line in lines)


def test_a_question_over_two_chunks_that_one_answers_is_dropped(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any, berg: str, harbour: str
) -> None:
    mix = parse_mix("multi_hop")
    card = make_testset(corpus, 1, judge=writer(), embedder=words, out=tmp_path / "a", mix=mix)
    assert card.rows[0].dropped == {str(Problem.ONE_IS_ENOUGH): 1}

    def both(request: Request) -> Completion:
        if request.ask.kind == "answerable":
            whole = berg in "".join(request.parts) and harbour in "".join(request.parts)
            return Completion(request.key, labels=(0.9, 0.1, 0.0) if whole else (0.1, 0.9, 0.0))
        return writer.reply(request)

    card = make_testset(corpus, 1, judge=writer(both), embedder=words, out=tmp_path / "b", mix=mix)
    assert card.n_kept == 1
    assert len(read_items(tmp_path / "b" / "testset.jsonl")[0].relevant_ids) == 2


def test_what_the_judge_knows_by_itself_is_dropped(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    def knowing(request: Request) -> Completion:
        return (
            Completion(request.key, "Ada Berg founded it in 1921.")
            if request.ask.kind == "closed"
            else writer.reply(request)
        )

    card = make_testset(
        corpus,
        1,
        judge=writer(knowing),
        embedder=words,
        out=tmp_path / "s",
        mix=parse_mix("factual"),
        most_written=2,
    )
    assert card.n_kept == 0
    assert card.rows[0].dropped.keys() == {str(Problem.KNOWN)}


def test_a_judge_that_fails_or_writes_no_json_is_told(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    prose = writer(lambda request: Completion(request.key, "Here is a question for you."))
    with pytest.raises(EngineError, match="could be read"):
        make_testset(corpus, 2, judge=prose, embedder=words, out=tmp_path / "a")

    def failing(request: Request) -> Completion:
        if request.ask.kind == "closed":
            return Completion(request.key, failure="timeout")
        return writer.reply(request)

    card = make_testset(
        corpus,
        1,
        judge=writer(failing),
        embedder=words,
        out=tmp_path / "b",
        mix=parse_mix("factual"),
        most_written=1,
    )
    assert card.rows[0].dropped == {str(Problem.NOT_JUDGED): 1}


def test_a_later_round_that_cannot_be_read_ends_the_work_in_order(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    seen: list[Request] = []

    def worse(request: Request) -> Completion:
        if request.ask.kind.startswith("write/"):
            seen.append(request)
            if len(seen) > 2:
                return Completion(request.key, "no more")
        return (
            Completion(request.key, labels=(0.1, 0.9, 0.0)) if request.ask.kind == "support" else writer.reply(request)
        )

    mix = parse_mix("factual")
    card = make_testset(corpus, 1, judge=writer(worse), embedder=words, out=tmp_path / "s", mix=mix)
    assert card.rows[0].dropped.keys() == {str(Problem.UNSUPPORTED), str(Problem.UNREADABLE)}


def test_half_a_character_in_a_reply_is_no_crash(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    def torn(request: Request) -> Completion:
        if request.ask.kind.startswith("write/"):
            return Completion(request.key, '{"question": "Who is Ada Berg \\ud83d?", "answer": "A teacher."}')
        return writer.reply(request)

    card = make_testset(corpus, 1, judge=writer(torn), embedder=words, out=tmp_path / "s", mix=parse_mix("factual"))
    assert card.n_kept == 1


def test_documents_that_say_too_little_are_an_error(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    for file in corpus.iterdir():
        file.write_text("Too short.")
    with pytest.raises(DataError, match="no sentence that says enough"):
        make_testset(corpus, 1, judge=writer(), embedder=words, out=tmp_path / "s")


def test_without_checks_everything_readable_is_kept(
    corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    engine = writer()
    card = make_testset(
        corpus, 2, judge=engine, embedder=words, out=tmp_path / "s", mix=parse_mix("factual"), check=False
    )
    assert card.n_kept == 2 == engine.n
    assert card.solvability is None


def test_a_hand_made_set_is_checked(corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any) -> None:
    make_testset(corpus, 1, judge=writer(), embedder=words, out=tmp_path / "s", mix=parse_mix("factual"))
    names = [json.loads(line)["_id"] for line in (tmp_path / "s" / "corpus.jsonl").read_text().splitlines()]
    rows = [
        {
            "id": "good",
            "question": "Who founded the Berg Library in Oslo?",
            "reference": "Nils Holm did.",
            "relevant_ids": names[:1],
        },
        {
            "id": "again",
            "question": "who founded the Berg library in Oslo",
            "reference": "Nils Holm did.",
            "relevant_ids": names[:1],
        },
        {"id": "leans", "question": "When was it founded?", "reference": "In 1921.", "relevant_ids": names[:1]},
        {"id": "none", "question": "How many books does the Berg Library own?", "answerable": False},
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    card, found = check_testset(file, tmp_path / "s", judge=writer(), embedder=words, out=tmp_path / "c")
    assert {one.item.id: one.item.problems for one in found} == {
        "good": (),
        "again": (Problem.REPEATED,),
        "leans": (Problem.LEANS,),
        "none": (),
    }
    assert card.solvability == 1.0
    assert found[0].item.rank == 1
    for wrong, match in (({"relevant_ids": ["x"]}, "'x' is not in the corpus"), ({"relevant_ids": []}, "has none")):
        file.write_text(json.dumps(rows[0] | wrong))
        with pytest.raises(DataError, match=match):
            check_testset(file, corpus, judge=writer(), embedder=words, out=tmp_path / "c")


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"id": "a"}', "line 2: is no item"),
        ('{"id": "a", "question": "q"}', "line 2, field 'reference': is missing"),
        ('{"id": "1", "question": "q", "reference": "r"}', "line 2, field 'id': '1' is used twice"),
        ("[]", "line 2"),
    ],
)
def test_a_wrong_line_of_a_set_is_named(tmp_path: Path, line: str, match: str) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text('{"id": "1", "question": "q", "reference": "r"}\n' + line)
    with pytest.raises(DataError, match=match):
        read_items(file)


def test_the_command_takes_a_folder_first_and_knows_its_other_names() -> None:
    runner = CliRunner()
    short = runner.invoke(command, ["docs", "--help"])
    assert short.exit_code == 0
    assert "Make a test set from the documents" in short.output
    for name in ("check", "update", "review", "make"):
        assert runner.invoke(command, [name, "--help"]).exit_code == 0
