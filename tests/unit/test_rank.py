"""Ranked lists: hand computations, edges, ties, files that are wrong, comparison, and the command."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from math import log2

import numpy as np
import pytest

from gpueval.errors import DataError, UsageError
from gpueval.retrieval.compare import compare
from gpueval.retrieval.measures import parse
from gpueval.retrieval.rank import rank
from gpueval.retrieval.trec import read_run
from gpueval.retrieval.words import numbers, read_blocks
from gpueval.stats.paired import sign_flip_p

GRADES = {"q": {"a": 3.0, "b": 0.0, "c": 1.0, "d": 2.0}}
LIST = {"q": ["x", "a", "b", "c"]}


def value(name: str, run=LIST, grades=GRADES, **options) -> float:
    return rank(run, grades, metrics=[name], **options).metrics[name].mean


def test_measures_by_hand() -> None:
    ideal = 3 + 2 / log2(3) + 1 / log2(4)
    assert value("ndcg") == pytest.approx((3 / log2(3) + 1 / log2(5)) / ideal, abs=1e-12)
    assert value("ndcg@2") == pytest.approx(3 / log2(3) / (3 + 2 / log2(3)), abs=1e-12)
    assert value("mrr") == 1 / 2
    assert value("mrr@1") == 0
    assert value("recall@3") == pytest.approx(1 / 3)
    assert value("precision@4") == 2 / 4
    assert value("precision@10") == 2 / 10  # divides by k, not by what came back
    assert value("hit@1") == 0
    assert value("hit@2") == 1
    assert value("map") == pytest.approx((1 / 2 + 2 / 4) / 3, abs=1e-12)
    assert value("map", level=2) == pytest.approx((1 / 2) / 2, abs=1e-12)


def test_a_perfect_ranking_is_exactly_one() -> None:
    for name in ("ndcg", "ndcg@2", "map", "mrr", "recall@3", "hit@1"):
        assert value(name, {"q": ["a", "d", "c"]}) == 1.0


def test_repeated_documents_count_once_at_their_first_rank_with_a_warning() -> None:
    found = rank({"q": ["a", "a", "d", "a", "c"]}, GRADES, metrics=["recall@3", "ndcg", "map"])
    assert {name: average.mean for name, average in found.metrics.items()} == {"recall@3": 1.0, "ndcg": 1.0, "map": 1.0}
    assert "2 documents were returned more than once" in found.warnings[0]


def test_queries_without_relevant_documents_and_missing_ones() -> None:
    grades = GRADES | {"nothing": {"a": 0.0}, "absent": {"a": 1.0}}
    run = LIST | {"unjudged": ["a"]}
    zero = rank(run, grades, metrics=["mrr"])
    assert (zero.metrics["mrr"].mean, zero.metrics["mrr"].n_scored, zero.metrics["mrr"].n_total) == (0.25, 2, 3)
    assert len(zero.warnings) == 3
    skipped = rank(run, grades, metrics=["mrr"], missing="skip")
    assert (skipped.metrics["mrr"].mean, skipped.metrics["mrr"].n_scored) == (0.5, 1)


def test_an_empty_list_counts_zero_and_no_query_means_no_mean() -> None:
    assert value("ndcg", {"q": []}) == 0
    none = rank({"q": ["a"]}, {"q": {"a": 0.0}}, metrics=["map"]).metrics["map"]
    assert (none.mean, none.low, none.n_scored, none.n_total) == (None, None, 0, 1)


def test_document_ids_of_other_queries_do_not_count() -> None:
    assert value("mrr", {"q": ["z"], "p": ["a"]}, {"q": {"a": 1.0}, "p": {"z": 1.0}}) == 0


RUN = "q1 Q0 b 1 2.0 t\nq1 Q0 a 2 2.0 t\nq1 Q0 c 3 3.0 t\nq2 Q0 a 1 1 t\nq1 Q0 d 4 1.5 t\n"
QRELS = "q1 0 a 1\nq1 0 d 0\nq2 0 z 1\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    return tmp_path


def test_ties_stay_in_order_or_go_by_descending_name(files) -> None:
    def mrr(ties) -> list[float]:
        return rank(files / "run", files / "qrels", metrics=["mrr"], ties=ties).per_query["mrr"].tolist()

    assert mrr("input") == [1 / 3, 0]  # c, b, a
    assert mrr("trec") == [1 / 3, 0]
    (files / "qrels").write_text("q1 0 b 1\n")
    assert mrr("input") == [1 / 2]
    assert mrr("trec") == [1 / 2]  # b before a
    (files / "run").write_text(RUN.replace("q1 Q0 b 1 2.0 t\nq1 Q0 a 2 2.0 t", "q1 Q0 a 1 2.0 t\nq1 Q0 b 2 2.0 t"))
    assert mrr("input") == [1 / 3]
    assert mrr("trec") == [1 / 2]


def test_scores_that_differ_only_in_double_precision_are_ties_for_trec(files) -> None:
    (files / "run").write_text("q1 Q0 a 1 1.00000001 t\nq1 Q0 b 2 1.0 t\n")
    (files / "qrels").write_text("q1 0 b 1\n")
    assert rank(files / "run", files / "qrels", metrics=["mrr"]).metrics["mrr"].mean == 1 / 2
    assert rank(files / "run", files / "qrels", metrics=["mrr"], ties="trec").metrics["mrr"].mean == 1


def test_tabs_blank_lines_carriage_returns_and_gzip_read_the_same(files) -> None:
    plain = read_run(files / "run")
    messy = "\n" + RUN.replace(" ", "\t", 3).replace("\n", " \r\n").replace("Q0 c", "Q0    c") + "\r\n"
    messy = messy.replace("3.0 t", "3.0 t and more")
    (files / "messy").write_bytes(messy.encode())
    (files / "run.gz").write_bytes(gzip.compress(RUN.encode()))
    for other in (read_run(files / "messy"), read_run(files / "run.gz")):
        assert other.queries == plain.queries
        assert other.documents.tolist() == plain.documents.tolist()
        assert other.offsets.tolist() == plain.offsets.tolist()


def test_block_borders_change_nothing(files) -> None:
    lines = [f"q{i // 7} Q0 document-{i:05d} {i} {1000 - i}.5 t" for i in range(500)]
    data = memoryview("\n".join(lines).encode())
    whole = read_blocks(data, 6, "f", lambda block: numbers(block, 4, "f", "score"), 1)
    small = read_blocks(data, 6, "f", lambda block: numbers(block, 4, "f", "score"), 2, block_bytes=100)
    assert len(small) > 50
    assert np.concatenate(small).tolist() == np.concatenate(whole).tolist() == [1000.5 - i for i in range(500)]


def test_numbers_are_read_as_float_reads_them(tmp_path) -> None:
    texts = [
        "0",
        "-1",
        "7.",
        ".5",
        "-.25",
        "12345678",
        "123456789.5",
        "0.1234567",
        "1e5",
        "-2.5E-3",
        "+4.5",
        "00012.50",
    ]
    texts += ["3.141592653589793", "99999999.9999999", "12345678.12345678", "0.000000000000000001", "9" * 30]
    data = memoryview("".join(f"x {text}\n" for text in texts).encode())
    (found,) = read_blocks(data, 2, "f", lambda block: numbers(block, 1, "f", "score"), 1)
    assert found.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("q Q0 a 1 2.0 t\nq Q0 b 2\n", "line 2: has 4 columns"),
        ("q Q0 a 1 2.0 t\n\nq Q0 b 2 high t\n", "line 3, field 'score': is 'high'"),
        ("q Q0 a 1 nan t\n", "no finite number"),
        ("q Q0 a 1 1e999 t\n", "no finite number"),
        ("", "is empty"),
        ("\n\n", "holds no line"),
    ],
)
def test_wrong_files_are_named_with_line_and_field(tmp_path, content, words) -> None:
    (tmp_path / "run").write_text(content)
    with pytest.raises(DataError, match=words):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("name", ["ndgc", "precision", "hit", "ndcg@0", "ndcg@x", ""])
def test_unknown_measures_are_refused(name) -> None:
    with pytest.raises(UsageError):
        parse(name)


def test_trec_names_are_understood() -> None:
    assert [parse(name).kind for name in ("P_5", "recip_rank", "ndcg_cut_10", "success_1", "recall.100")] == [
        "precision", "mrr", "ndcg", "hit", "recall",
    ]  # fmt: skip
    assert parse("ndcg_cut_10").cutoff == parse("ndcg@10").cutoff == 10


SAMPLES = [
    {"id": "1", "retrieved_ids": ["a", "b"], "scores": [0.1, 0.9], "relevant_ids": ["b"], "group": "x"},
    {"id": "2", "retrieved_ids": ["c"], "grades": {"c": 2, "d": 1}, "group": "y"},
    {"id": "3", "retrieved_ids": [], "relevant_ids": ["e"], "group": "y"},
]


def test_samples_with_scores_groups_and_grades(tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in SAMPLES))
    found = rank(path, metrics=["mrr", "recall@5"])
    assert found.per_query["mrr"].tolist() == [1, 1, 0]
    assert found.groups["y"]["recall@5"].mean == 0.25
    path.write_text(json.dumps(SAMPLES[0] | {"scores": [1]}) + "\n")
    with pytest.raises(DataError, match="line 1, field 'scores': must be 2 numbers"):
        rank(path)


def test_a_comparison_finds_what_moved_and_nothing_between_equal_runs() -> None:
    queries = [f"q{i}" for i in range(40)]
    low, high = np.linspace(0, 0.5, 40), np.linspace(0, 0.5, 40) + 0.2
    found = compare(queries, {"m": low, "n": low}, {"m": high, "n": low})
    assert found["m"].difference == pytest.approx(0.2)
    assert found["m"].p_value < 0.001
    assert (found["m"].better, found["m"].worse) == (40, 0)
    assert found["n"].p_value == 1.0
    assert found["n"].moved == ()


def test_sign_flips_agree_with_all_sign_patterns() -> None:
    difference = np.array([0.3, -0.1, 0.2, 0.05, 0.4, -0.02, 0.1, 0.15])
    patterns = np.array([[1 if i >> k & 1 else -1 for k in range(8)] for i in range(256)])
    exact = float((np.abs(patterns @ difference) >= abs(difference.sum()) - 1e-12).mean())
    assert sign_flip_p(difference) == pytest.approx(exact, abs=0.01)
    many = np.tile(difference - difference.mean() + 0.003, 700)
    few = many[:4000]
    assert sign_flip_p(many) == pytest.approx(sign_flip_p(many), abs=0)
    assert 0 < sign_flip_p(few) <= 1


def test_many_queries_use_the_normal_distribution_of_the_same_test() -> None:
    from scipy import stats

    difference = np.random.default_rng(3).normal(0.01, 0.3, 6000)
    assert sign_flip_p(difference) == pytest.approx(stats.ttest_1samp(difference, 0).pvalue, rel=0.02)


def test_p_values_are_corrected_for_the_number_of_measures() -> None:
    draw = np.random.default_rng(5)
    base, moved = np.zeros(30), draw.normal(0.1, 0.3, 30)
    one = compare([str(i) for i in range(30)], {"m": base}, {"m": moved})["m"].p_value
    two = compare([str(i) for i in range(30)], {"m": base, "n": base}, {"m": moved, "n": base})["m"].p_value
    assert 0 < one < 0.5
    assert two == pytest.approx(2 * one)


def test_a_comparison_tells_of_the_other_run_and_has_no_value_without_queries() -> None:
    other = {"p": ["a"], "q": ["a", "a"]}
    found = rank({"q": ["a"]}, {"q": {"a": 1.0}, "r": {"a": 1.0}}, metrics=["mrr"], other=other)
    assert any("the other run: 1 documents were returned more than once" in text for text in found.warnings)
    assert found.comparison["mrr"].n == 2
    apart = rank({"q": ["a"]}, {"q": {"a": 1.0}, "r": {"a": 1.0}}, metrics=["mrr"], other={"r": ["a"]}, missing="skip")
    assert (apart.comparison["mrr"].n, apart.comparison["mrr"].difference, apart.comparison["mrr"].p_value) == (
        0,
        None,
        None,
    )


def test_repeated_judgments_count_once_and_keep_their_own_grades(tmp_path) -> None:
    (tmp_path / "qrels").write_text("q 0 b 1\nq 0 a 3\nq 0 b 0\nq 0 c 2\n")
    found = rank({"q": ["a", "c", "b"]}, tmp_path / "qrels", metrics=["ndcg", "recall@3"])
    assert found.metrics["ndcg"].mean == 1.0
    assert found.metrics["recall@3"].mean == 1.0
    assert "1 judgments are repeated" in found.warnings[0]


def test_a_cut_off_gzip_is_a_wrong_file(tmp_path) -> None:
    for name in ("run.gz", "run.jsonl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(RUN.encode())[:30])
        with pytest.raises(DataError, match=r"cannot be read|is no JSON"):
            rank(tmp_path / name, {"q1": {"a": 1.0}})


def test_judgments_are_told_apart_by_their_columns_not_by_their_name(files) -> None:
    (files / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\ta\t0\n\n")
    (files / "trec.tsv").write_text("q1\t0\ta\t1\n")
    values = [
        rank(files / "run", files / name, metrics=["mrr"]).metrics["mrr"].mean for name in ("beir.tsv", "trec.tsv")
    ]
    assert values == [1 / 3, 1 / 3]


def test_a_byte_order_mark_is_no_part_of_the_first_id(files) -> None:
    mark = b"\xef\xbb\xbf"
    (files / "run").write_bytes(mark + RUN.encode())
    (files / "qrels").write_bytes(mark + QRELS.encode())
    assert rank(files / "run", files / "qrels", metrics=["mrr"]).metrics["mrr"].n_scored == 2
    assert rank(files / "run", files / "qrels", metrics=["mrr"]).metrics["mrr"].mean == pytest.approx(1 / 6)
    (files / "s.jsonl").write_bytes(mark + json.dumps(SAMPLES[0]).encode())
    assert rank(files / "s.jsonl", metrics=["mrr"]).metrics["mrr"].mean == 1


def test_ids_that_are_no_utf_8_stay_apart(tmp_path) -> None:
    (tmp_path / "run").write_bytes(b"q\xe9 Q0 a 1 1 t\nq\xe8 Q0 b 1 1 t\n")
    (tmp_path / "qrels").write_bytes(b"q\xe9 0 a 1\nq\xe8 0 b 1\n")
    found = rank(tmp_path / "run", tmp_path / "qrels", metrics=["mrr"])
    assert (found.metrics["mrr"].mean, len(set(found.queries))) == (1.0, 2)


def test_python_takes_numbers_as_ids_and_scores_by_document() -> None:
    assert value("mrr", {1: [7, 8]}, {1: {8: 1}}) == 0.5
    assert value("mrr", {"q": {"a": 0.1, "b": 0.9}}, {"q": {"b": 1}}) == 1.0
    with pytest.raises(UsageError):
        value("mrr", ties="x")
    with pytest.raises(UsageError):
        value("mrr", LIST, {"q": {"a": float("inf")}})


def test_the_command_prints_its_stable_json(files) -> None:
    def gpueval(*arguments):
        command = [sys.executable, "-m", "gpueval", "rank", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = gpueval(
        "--run", files / "run", "--qrels", files / "qrels", "--metric", "mrr,ndcg@10", "--json", "--per-query"
    )
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert body["n_queries"] == 2
    assert set(body["metrics"]["mrr"]) == {"mean", "ci_low", "ci_high", "n_scored", "n_total"}
    assert body["per_query"]["q1"]["mrr"] == pytest.approx(1 / 3)
    shown = gpueval("--run", files / "run", "--qrels", files / "qrels", "--compare", files / "run")
    assert "other minus this" in shown.stdout
    assert gpueval("--run", files / "run").returncode == 2
    assert gpueval().returncode == 2
    assert gpueval("--run", files / "nowhere", "--qrels", files / "qrels").returncode == 2
