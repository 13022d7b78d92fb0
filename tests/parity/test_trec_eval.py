"""Ranking measures against trec_eval: its own printed fixtures, and pytrec_eval (its C code) on random runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gpueval.retrieval.measures import parse, score
from gpueval.retrieval.rank import rank
from gpueval.retrieval.trec import read_judgments, read_run

DATA = Path(os.environ.get("GPUEVAL_DATA") or Path(__file__).parents[3] / "shared" / "data") / "trec_eval"
NAMES = {
    "map": "map", "recip_rank": "mrr", "ndcg": "ndcg", "P_5": "precision@5", "P_10": "precision@10",
    "P_100": "precision@100", "P_1000": "precision@1000", "recall_5": "recall@5", "recall_100": "recall@100",
    "recall_1000": "recall@1000", "ndcg_cut_5": "ndcg@5", "ndcg_cut_10": "ndcg@10", "ndcg_cut_1000": "ndcg@1000",
    "map_cut_5": "map@5", "map_cut_100": "map@100", "success_1": "hit@1", "success_5": "hit@5", "success_10": "hit@10",
}  # fmt: skip


def printed(name: str) -> dict[tuple[str, str], float]:
    """Values that trec_eval printed, by its measure name and query (``all`` for the mean)."""
    if not (DATA / name).is_file():
        remedy = "holds the test folder of github.com/usnistgov/trec_eval as trec_eval"
        pytest.skip(f"set GPUEVAL_DATA to a folder that {remedy}")
    found = {}
    for line in (DATA / name).read_text().splitlines():
        measure, query, value = line.split()[:3]
        if measure in NAMES:
            found[measure, query] = float(value)
    return found


@pytest.mark.parametrize(
    ("output", "run", "qrels", "level", "missing"),
    [
        ("out.test.aq", "results.test", "qrels.test", 1, "skip"),
        ("out.test.a", "results.test", "qrels.test", 1, "skip"),
        ("out.test.aqc", "results.trunc", "qrels.test", 1, "zero"),
        ("out.test.aql", "results.test", "qrels.rel_level", 2, "skip"),
    ],
)
def test_every_shared_measure_equals_what_trec_eval_prints(output, run, qrels, level, missing) -> None:
    wanted = printed(output)
    assert len(wanted) >= len(NAMES)
    found = rank(DATA / run, DATA / qrels, metrics=list(NAMES.values()), ties="trec", missing=missing, level=level)
    for (measure, query), value in wanted.items():
        ours = NAMES[measure]
        if query == "all":
            assert found.metrics[ours].mean == pytest.approx(value, abs=5.1e-5), (measure, query)
        elif query in found.queries:
            got = found.per_query[ours][found.queries.index(query)]
            assert got == pytest.approx(value, abs=5.1e-5), (measure, query)


def write(path: Path, rows) -> Path:
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("seed", range(6))
def test_random_runs_equal_pytrec_eval_to_the_last_digits(tmp_path, seed) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pip install pytrec-eval-terrier")
    draw = np.random.default_rng(seed)
    run_rows, qrels_rows = [], []
    for q in range(60):
        documents = draw.choice(400, draw.integers(1, 120), replace=False)
        scores = draw.choice([0.5, 1.0, 1.25, 2.0, 3.5], len(documents)) if q % 2 else draw.normal(0, 5, len(documents))
        if q % 7:  # some judged queries are missing from the run
            run_rows += [(f"q{q}", "Q0", f"doc-{d:04d}-{'x' * (d % 13)}", i, s, "t") for i, (d, s) in
                         enumerate(zip(documents, scores, strict=True))]  # fmt: skip
        if q % 5:  # some queries of the run are not judged
            judged = draw.choice(400, draw.integers(1, 60), replace=False)
            qrels_rows += [(f"q{q}", 0, f"doc-{d:04d}-{'x' * (d % 13)}", draw.integers(0, 4)) for d in judged]
    draw.shuffle(run_rows)
    run, qrels = write(tmp_path / "run", run_rows), write(tmp_path / "qrels", qrels_rows)
    with run.open() as a, qrels.open() as b:
        theirs = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(b), set(NAMES)).evaluate(
            pytrec_eval.parse_run(a)
        )
    judgments = read_judgments(qrels)
    found = score(read_run(run, "trec"), judgments, [parse(name) for name in NAMES.values()])
    compared = 0
    for i, query in enumerate(found.queries):
        for measure, ours in NAMES.items():
            if query in theirs:
                assert found.values[ours][i] == pytest.approx(theirs[query][measure], abs=1e-12), (query, measure)
                compared += 1
            else:
                assert found.values[ours][i] == 0
    assert compared > 400
