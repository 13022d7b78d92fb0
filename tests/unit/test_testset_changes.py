"""A test set after its making: documents change, and people read it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpueval.engines.scripted import Scripted
from gpueval.errors import DataError, UsageError
from gpueval.testset.folder import read_items
from gpueval.testset.kinds import parse_mix
from gpueval.testset.make import make_testset
from gpueval.testset.review import read_sheet, write_sheet
from gpueval.testset.update import Change, update_testset


def rows_of(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(sheet: Path, rows: list[dict[str, str]]) -> None:
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def made(corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any) -> Path:
    out = tmp_path / "set"
    make_testset(
        corpus,
        3,
        judge=writer(),
        embedder=words,
        out=out,
        mix=parse_mix("factual=2,unanswerable=1"),
        chunk_characters=300,
    )
    return out


def test_an_update_tells_what_the_documents_did_to_the_set(made: Path, corpus: Path, berg: str, harbour: str) -> None:
    items = read_items(made / "testset.jsonl")
    assert set(update_testset(made, corpus).changes.values()) == {Change.SAME}
    moved = "A new first paragraph about opening hours in the summer months of the year.\n\n" + berg
    (corpus / "berg.md").write_text(moved)
    (corpus / "harbour.txt").write_text(harbour.replace("1880", "1881"))
    found = update_testset(made, corpus)
    expected = {
        one.id: Change.CHANGED
        if one.evidence[0].document == "harbour.txt"
        else (Change.MOVED if one.answerable else Change.RECHECK)
        for one in items
    }
    assert found.changes == expected
    assert Change.CHANGED in expected.values()
    ids = {json.loads(line)["_id"] for line in (made / "corpus.jsonl").read_text().splitlines()}
    for one in read_items(made / "testset.jsonl"):
        assert moved[one.evidence[0].start : one.evidence[0].end] == one.evidence[0].text
        assert set(one.relevant_ids) <= ids
        assert one.relevant_ids
    assert {json.loads(line)["id"] for line in (made / "stale.jsonl").read_text().splitlines()} == {
        name for name, change in expected.items() if change not in (Change.SAME, Change.MOVED)
    }


def test_an_update_of_a_set_without_its_card_asks_for_the_length_of_chunks(made: Path, corpus: Path) -> None:
    (made / "card.json").write_text("{}")
    with pytest.raises(DataError, match="does not say how long its chunks are"):
        update_testset(made, corpus)
    assert set(update_testset(made, corpus, 300).changes.values()) == {Change.SAME}


def test_words_that_go_on_are_other_words(made: Path, corpus: Path, harbour: str) -> None:
    (one,) = [one for one in read_items(made / "testset.jsonl") if one.evidence[0].document == "harbour.txt"][:1]
    short = msgspec.structs.replace(one.evidence[0], text=harbour[:-1], end=len(harbour) - 1)
    (made / "testset.jsonl").write_bytes(msgspec.json.encode(msgspec.structs.replace(one, evidence=(short,))))
    (corpus / "harbour.txt").write_text(harbour[:-1] + "5 and later.")
    assert set(update_testset(made, corpus).changes.values()) == {Change.CHANGED}


def test_items_without_evidence_keep_their_ids(made: Path, corpus: Path, harbour: str) -> None:
    ids = [json.loads(line)["_id"] for line in (made / "corpus.jsonl").read_text().splitlines()]
    mine = {"id": "mine", "question": "Who?", "reference": "Ada.", "relevant_ids": ids[:1]}
    with (made / "testset.jsonl").open("a") as file:
        file.write(json.dumps(mine) + "\n")
    assert update_testset(made, corpus).changes["mine"] is Change.SAME
    assert read_items(made / "testset.jsonl")[-1].relevant_ids == (ids[0],)
    (corpus / "berg.md").unlink()
    (corpus / "harbour.txt").write_text(harbour + " And more.")
    assert update_testset(made, corpus).changes["mine"] is Change.CHANGED


def test_a_second_update_keeps_what_the_first_put_aside(made: Path, corpus: Path, harbour: str) -> None:
    (corpus / "harbour.txt").write_text(harbour.replace("1880", "1881"))
    update_testset(made, corpus)
    aside = (made / "stale.jsonl").read_bytes()
    update_testset(made, corpus)
    assert aside
    assert (made / "stale.jsonl").read_bytes() == aside


def test_a_document_that_is_gone_or_renamed(made: Path, corpus: Path) -> None:
    (corpus / "harbour.txt").unlink()
    (corpus / "berg.md").rename(corpus / "library.md")
    changes = update_testset(made, corpus).changes
    assert set(changes.values()) <= {Change.GONE, Change.MOVED, Change.RECHECK}
    assert Change.MOVED in changes.values()
    assert all(one.evidence[0].document == "library.md" for one in read_items(made / "testset.jsonl"))


def test_a_sheet_is_written_and_read_back(made: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "review.csv"
    items = read_items(made / "testset.jsonl")
    assert write_sheet(made, sheet) == 3
    rows = rows_of(sheet)
    rows[0] |= {"verdict": "keep", "question": "Who founded the Berg Library, then?"}
    rows[1] |= {"verdict": "Drop", "comment": "too easy"}
    fill(sheet, rows)
    done = read_sheet(made, sheet)
    assert (done.n_kept, done.n_mended, done.n_dropped, done.n_open) == (2, 1, 1, 1)
    kept = read_items(made / "testset.jsonl")
    assert [one.question for one in kept] == ["Who founded the Berg Library, then?", items[2].question]
    (rejected,) = [json.loads(line) for line in (made / "rejected.jsonl").read_text().splitlines()]
    assert rejected["problems"] == ["dropped by a person: too easy"]
    assert items[1].id not in (made / "queries.jsonl").read_text()


def test_a_sheet_may_be_read_twice_and_making_the_set_anew_is_refused(
    made: Path, corpus: Path, tmp_path: Path, writer: type[Scripted], words: Any
) -> None:
    sheet = tmp_path / "r.csv"
    write_sheet(made, sheet)
    rows = rows_of(sheet)
    rows[0]["verdict"] = "drop"
    fill(sheet, rows)
    for _ in range(2):
        assert read_sheet(made, sheet).n_kept == 2
        assert len((made / "rejected.jsonl").read_text().splitlines()) == 1
    with pytest.raises(UsageError, match="was reviewed or updated"):
        make_testset(corpus, 3, judge=writer(), embedder=words, out=made)


def test_cells_that_a_spreadsheet_would_run_come_back_as_they_were(made: Path, tmp_path: Path) -> None:
    items = read_items(made / "testset.jsonl")
    evil = msgspec.structs.replace(
        items[0], question='=HYPERLINK("http://x","y") of the Berg Library?', reference="-5 degrees"
    )
    (made / "testset.jsonl").write_bytes(msgspec.json.encode(evil))
    write_sheet(made, tmp_path / "r.csv")
    assert "'=HYPERLINK" in (tmp_path / "r.csv").read_text()
    assert read_sheet(made, tmp_path / "r.csv").n_mended == 0
    assert read_items(made / "testset.jsonl")[0] == evil


def test_a_sheet_with_hostile_text_is_inert(made: Path, tmp_path: Path) -> None:
    items = read_items(made / "testset.jsonl")
    evil = msgspec.structs.replace(items[0], question="</textarea><script>alert(1)</script>", id='"><img src=x>')
    (made / "testset.jsonl").write_bytes(msgspec.json.encode(evil))
    write_sheet(made, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in page
    assert "<img" not in page


@pytest.mark.parametrize(
    ("change", "match"),
    [({"id": "nobody"}, "is not in the set"), ({"verdict": "perhaps"}, "field 'verdict': is 'perhaps'")],
)
def test_a_wrong_sheet_changes_nothing(made: Path, tmp_path: Path, change: dict[str, str], match: str) -> None:
    sheet, before = tmp_path / "r.csv", (made / "testset.jsonl").read_bytes()
    write_sheet(made, sheet)
    rows = rows_of(sheet)
    rows[1] |= change
    fill(sheet, rows)
    with pytest.raises(DataError, match=match):
        read_sheet(made, sheet)
    assert (made / "testset.jsonl").read_bytes() == before
