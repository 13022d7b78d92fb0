"""Ranking measures, trec_eval's definitions, over all queries at once.

For a query with documents at ranks i = 1.. of gain g_i (its grade; 0 when unjudged or negative) and relevance
r_i = [grade >= level], R relevant documents in all:

==============  ====================================================================================
``ndcg@k``      sum over i <= k of g_i / log2(i + 1), over the same sum of the grades sorted (ideal)
``map@k``       sum over i <= k of r_i * precision@i, over R
``mrr@k``       1 / rank of the first relevant document within k, else 0
``recall@k``    relevant documents within k, over R
``precision@k`` relevant documents within k, over k, also when fewer were returned
``hit@k``       1 when a relevant document stands within k
==============  ====================================================================================

Without ``@k`` the whole list counts. Source: https://github.com/usnistgov/trec_eval (Buckley and Voorhees); nDCG:
Jarvelin and Kekalainen, TOIS 20 (2002), with the grade as gain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpueval.errors import UsageError
from gpueval.retrieval.trec import Judgments, Run
from gpueval.retrieval.words import Floats, Hashes, Ints

_NAMES = {
    "ndcg": "ndcg", "map": "map", "mrr": "mrr", "recip_rank": "mrr", "recall": "recall", "r": "recall",
    "precision": "precision", "p": "precision", "hit": "hit", "success": "hit",
}  # fmt: skip
_FILTER_BITS = 24


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure and its cut-off.

    Attributes:
        name: As it was asked for.
        kind: ``ndcg``, ``map``, ``mrr``, ``recall``, ``precision`` or ``hit``.
        cutoff: Ranks that count; None for all.
    """

    name: str
    kind: str
    cutoff: int | None


def parse(name: str) -> Measure:
    """Read ``ndcg@10``, ``P_5``, ``recall.100`` or ``map``.

    Raises:
        UsageError: Unknown measure, or a measure that needs a cut-off and has none.
    """
    match = re.fullmatch(r"([a-z_]+?)(?:(?:@|_|\.|_cut[_.])(\d+))?", name.strip().lower())
    kind = _NAMES.get(match[1]) if match else None
    cutoff = int(match[2]) if match and match[2] else None
    if kind is None or cutoff == 0:
        raise UsageError(f"Unknown measure '{name}'.", "Known: ndcg, map, mrr, recall, precision, hit; with @k.")
    if cutoff is None and kind in ("precision", "hit"):
        raise UsageError(f"{kind} needs a cut-off.", f"Write {kind}@10.")
    return Measure(name, kind, cutoff)


@dataclass(frozen=True, slots=True)
class Scores:
    """Values per query.

    Attributes:
        queries: Judged queries with a relevant document, in the judgments' order.
        values: By measure name, shape (queries,).
        missing: Of the queries, those that the run does not hold; their values are 0.
        without_relevant: Judged queries without a relevant document; they are left out.
        unjudged_queries: Queries of the run without judgments; they are left out.
    """

    queries: tuple[str, ...]
    values: dict[str, Floats]
    missing: NDArray[np.bool_]
    without_relevant: int
    unjudged_queries: int


def score(run: Run, judgments: Judgments, measures: Sequence[Measure], level: float = 1.0) -> Scores:
    """Score every judged query.

    Args:
        run: Ranked documents.
        judgments: Grades.
        measures: What to compute.
        level: A document of at least this grade is relevant.
    """
    where = {query: i for i, query in enumerate(run.queries)}
    in_run = np.array([where.get(query, -1) for query in judgments.queries], np.int64)
    judged = np.repeat(np.arange(len(judgments.queries)), np.diff(judgments.offsets))
    relevant = np.bincount(judged[judgments.grades >= level], minlength=len(judgments.queries))
    kept = relevant > 0
    per_list = Lists.of(run, judgments, in_run)
    values: dict[str, Floats] = {}
    for measure in measures:
        values[measure.name] = _values(measure, per_list, judgments, relevant, level)[kept]
    return Scores(
        tuple(query for query, keep in zip(judgments.queries, kept, strict=True) if keep),
        values,
        (in_run < 0)[kept],
        int((~kept).sum()),
        len(run.queries) - int((in_run >= 0).sum()),
    )


@dataclass(frozen=True, slots=True)
class Lists:
    """The judged rows of the ranked lists.

    Attributes:
        query: Number of the query in the judgments; shape (judged rows,).
        rank: 1-based rank.
        grade: Grade.
    """

    query: Ints
    rank: Ints
    grade: Floats

    @classmethod
    def of(cls, run: Run, judgments: Judgments, in_run: Ints) -> Lists:
        """Find the judged documents among those returned."""
        number = np.full(len(run.queries) + 1, -1, np.int64)
        number[in_run[in_run >= 0]] = np.flatnonzero(in_run >= 0)
        lengths = np.diff(run.offsets)
        query = np.repeat(number[:-1], lengths)
        position = np.arange(len(run.documents)) - np.repeat(run.offsets[:-1], lengths) + 1
        keys = _keys(np.repeat(np.arange(len(judgments.queries)), np.diff(judgments.offsets)), judgments.documents)
        wanted = _keys(query, run.documents)
        seen = np.zeros(1 << _FILTER_BITS, bool)
        shift = np.uint64(64 - _FILTER_BITS)
        seen[keys >> shift] = True
        maybe = np.flatnonzero(seen[wanted >> shift] & (query >= 0))
        order = np.argsort(keys)
        ordered = keys[order]
        place = np.minimum(np.searchsorted(ordered, wanted[maybe]), max(0, len(ordered) - 1))
        found = ordered[place] == wanted[maybe] if len(ordered) else np.zeros(len(maybe), bool)
        at = order[place[found]]
        rows = maybe[found]
        return cls(query[rows], position[rows], judgments.grades[at])


def _keys(query: Ints, document: Hashes) -> Hashes:
    mixed = (document ^ query.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) + query.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    keys: Hashes = mixed * np.uint64(0xC2B2AE3D27D4EB4F)
    return keys


def _values(measure: Measure, lists: Lists, judgments: Judgments, relevant: Ints, level: float) -> Floats:
    n, cutoff = len(judgments.queries), measure.cutoff
    within = lists.rank <= cutoff if cutoff else np.ones(len(lists.rank), bool)
    hits = within & (lists.grade >= level)
    query, ranks = lists.query[hits], lists.rank[hits]
    many = np.maximum(relevant, 1)
    if measure.kind == "ndcg":
        gained = within & (lists.grade > 0)
        gains = lists.grade[gained] / np.log2(lists.rank[gained] + 1)
        best = _ideal(judgments, cutoff)
        total = _summed(lists.query[gained], gains, n)
        found = np.divide(total, best, out=np.zeros(n), where=best > 0)
        ndcg: Floats = np.minimum(found, 1.0)  # sums in another order may end a bit above
        return ndcg
    if measure.kind == "mrr":
        first = np.full(n, np.inf)
        np.minimum.at(first, query, ranks)
        reciprocal: Floats = 1 / first
        return reciprocal
    counted = np.bincount(query, minlength=n).astype(np.float64)
    if measure.kind == "map":
        order = np.lexsort((ranks, query))
        query, ranks = query[order], ranks[order]
        begins = np.searchsorted(query, np.arange(n))
        so_far = np.arange(len(query)) - begins[query] + 1
        average: Floats = _summed(query, so_far / ranks, n) / many
        return average
    shares: dict[str, Floats] = {"recall": counted / many, "precision": counted / float(cutoff or 1)}
    return shares.get(measure.kind, (counted > 0).astype(np.float64))


def _ideal(judgments: Judgments, cutoff: int | None) -> Floats:
    """Discounted gain of the best possible ranking of every query."""
    n = len(judgments.queries)
    query = np.repeat(np.arange(n), np.diff(judgments.offsets))
    order = np.lexsort((-judgments.grades, query))
    grades = judgments.grades[order]
    rank = np.arange(len(grades)) - judgments.offsets[query] + 1
    counts = grades > 0 if cutoff is None else (grades > 0) & (rank <= cutoff)
    return _summed(query[counts], grades[counts] / np.log2(rank[counts] + 1), n)


def _summed(query: Ints, values: Floats, n: int) -> Floats:
    """Sum of values by query."""
    return np.bincount(query, values, n).astype(np.float64)
