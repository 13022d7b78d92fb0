"""Every format and dialect that teams bring, and errors that say file, line and field."""

from __future__ import annotations

import gzip
import json

import pytest

from gpueval.data.columns import Columns, parse_columns, to_sample
from gpueval.data.load import load
from gpueval.errors import DataError, UsageError
from gpueval.records import Passage


def read(path, **columns):
    return list(load(path, Columns(**columns)))


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q", "answer": "a", "contexts": ["c1", "c2"], "reference": "r"},
        {"user_input": "q", "response": "a", "retrieved_contexts": ["c1", "c2"], "reference": "r"},
        {"question": "q", "answer": "a", "contexts": ["c1", "c2"], "ground_truths": ["r", "other"]},
        {
            "input": "q",
            "actual_output": "a",
            "retrieval_context": ["c1", "c2"],
            "expected_output": "r",
            "context": ["x"],
        },
        {"input": "q", "actualOutput": "a", "retrievalContext": ["c1", "c2"], "expectedOutput": "r"},
        {"input": "q", "output": "a", "contexts": ["c1", "c2"], "expected_response": "r"},
        {"query": "q", "response": "a", "retrieved_context": [{"doc_id": 1, "text": "c1"}, "c2"], "gt_answer": "r"},
    ],
    ids=["own", "ragas", "ragas-0.1", "deepeval", "deepeval-json", "trulens", "ragchecker"],
)
def test_dialects(tmp_path, row) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (sample,) = read(path)
    assert (sample.question, sample.answer, sample.reference) == ("q", "a", "r")
    assert [passage.text for passage in sample.contexts or ()] == ["c1", "c2"]
    assert sample.id == "1"


def test_named_columns_go_first(tmp_path) -> None:
    path = tmp_path / "s.tsv"
    path.write_text('message\tresponse\tknowledge\tanswer\nq "x\ta\tc\tnot this\n')
    explicit = parse_columns("question=message,answer=response,contexts=knowledge")
    columns = Columns(explicit)
    (sample,) = load(path, columns)
    assert (sample.question, sample.answer, sample.contexts) == ('q "x', "a", (Passage("c"),))
    assert columns.warnings == {"contexts given as one text, taken as one chunk": 1}


def test_contexts_as_objects_texts_json_and_reprs(tmp_path) -> None:
    def contexts(value, separator=""):
        return to_sample({"contexts": value}, Columns({}, separator), file="f", line=1).contexts

    assert contexts([{"id": "d1", "text": "t", "source": "s.md"}]) == (Passage("t", "d1", "s.md"),)
    assert contexts("one chunk") == (Passage("one chunk"),)
    assert contexts('["a", "b"]') == (Passage("a"), Passage("b"))
    assert contexts("['a', 'it''s']") == (Passage("a"), Passage("its"))
    assert contexts("[not a list") == (Passage("[not a list"),)
    assert contexts("a|b", "|") == (Passage("a"), Passage("b"))
    assert contexts("") == ()


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".json", ".parquet"])
def test_formats_give_the_same_samples(tmp_path, suffix) -> None:
    rows = [
        {"id": "x", "question": "q1", "answer": "ä, „b“", "reference": "r"},
        {"id": "y", "question": "q2", "answer": "b", "reference": "r"},
    ]
    path = tmp_path / f"s{suffix}"
    if suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow", reason="Parquet input needs pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(arrow.Table.from_pylist(rows), path)
    else:
        kind = suffix.removesuffix(".gz")
        if kind == ".json":
            text = json.dumps(rows)
        elif kind == ".jsonl":
            text = "\n".join(map(json.dumps, rows))
        else:
            mark = "," if kind == ".csv" else "\t"
            quote = '"' if kind == ".csv" else ""
            lines = [
                mark.join(rows[0]),
                *(mark.join(f"{quote}{value}{quote}" for value in row.values()) for row in rows),
            ]
            text = "\n".join(lines)
        content = ("\ufeff" + text if kind == ".csv" else text).encode()
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    assert [(s.id, s.question, s.answer) for s in read(path)] == [("x", "q1", "ä, „b“"), ("y", "q2", "b")]


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("a.jsonl", b'{"question":"q"}\n{"question": }\n', ["a.jsonl, line 2", "not JSON"]),
        ("a.jsonl", b'{"question":"q"}\n\n{"answer":["x"]}\n', ["line 3", "field 'answer'", "a list"]),
        ("a.jsonl", b'{"question":"q","contexts":[{"txt":"x"}]}', ["line 1", "field 'contexts'", "chunk 0", "txt"]),
        ("a.jsonl", b'{"question":"q","contexts":7}', ["line 1", "field 'contexts'", "a number"]),
        ("a.jsonl", b'{"foo":"q"}', ["line 1", "no known column", "foo"]),
        ("a.jsonl", b"[1]\n", ["line 1", "JSON object"]),
        ("a.jsonl", b'{"id":"x","question":"q"}\n{"id":"x","question":"q"}\n', ["line 2", "field 'id'", "line 1"]),
        ("a.jsonl", b"\xff\xfe", ["line 1"]),
        ("a.jsonl", b"", ["a.jsonl", "no samples"]),
        ("a.csv", b'question,answer\n"multi\nline",a\nq\n', ["a.csv, line 4", "1 cells", "2 columns"]),
        ("a.csv", b"question,question\nq,q\n", ["line 1", "stands twice"]),
        ("a.csv", b"question,answer\nq,\xff\n", ["a.csv", "not UTF-8"]),
        ("a.tsv", b"question\tanswer\nq\ta\tb\n", ["line 2", "3 cells"]),
        ("a.jsonl.gz", b"not gzip", ["a.jsonl.gz", "gzip"]),
        ("a.xlsx", b"", ["unknown format '.xlsx'", ".jsonl"]),
        ("a.jsonl", b'{"question":"q","answerable":"perhaps"}', ["field 'answerable'", "perhaps"]),
    ],
)
def test_errors_name_file_line_and_field(tmp_path, name, content, parts) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read(tmp_path / "none.jsonl")


def test_sets_have_no_rank() -> None:
    with pytest.raises(DataError, match="no order"):
        to_sample({"question": "q", "retrieved_ids": {"a", "b"}}, Columns(), file="f", line=1)


def test_unknown_field_in_columns() -> None:
    with pytest.raises(UsageError, match="message"):
        parse_columns("message=question")


def test_a_named_column_that_is_missing(tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"message":"q"}\n')
    with pytest.raises(DataError, match="no column 'msg'"):
        read(path, explicit={"question": "msg"})
