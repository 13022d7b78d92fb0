"""The function behind ``gpueval rank``: what a retriever returned, against relevance judgments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpueval.errors import DataError, UsageError
from gpueval.retrieval.compare import Comparison, compare
from gpueval.retrieval.corpus import beir_grades, is_beir
from gpueval.retrieval.lists import read_lists
from gpueval.retrieval.measures import Measure, Scores, parse, score
from gpueval.retrieval.trec import Judgments, Run, Ties, judgments_from_grades, read_judgments, read_run, run_from_lists
from gpueval.retrieval.words import Floats
from gpueval.stats.intervals import bootstrap_means

DEFAULT_MEASURES = ("ndcg@10", "mrr@10", "recall@10", "precision@10", "hit@10", "map")
_JSON = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Average:
    """A measure over all scored queries.

    Attributes:
        mean: Mean.
        low: Lower end of the 95 % bootstrap interval; None below two queries.
        high: Upper end.
        n_scored: Queries behind the mean.
        n_total: Judged queries, those without a relevant document or left out included.
    """

    mean: float | None
    low: float | None
    high: float | None
    n_scored: int
    n_total: int


@dataclass(frozen=True, slots=True)
class RankResult:
    """What a retriever's lists come to.

    Attributes:
        metrics: Averages by measure.
        groups: Averages by group and measure.
        queries: Scored queries.
        per_query: Values by measure, in the order of ``queries``.
        comparison: Against another run, by measure.
        ties: Rule for equal scores.
        warnings: Remarks.
    """

    metrics: dict[str, Average]
    groups: dict[str, dict[str, Average]]
    queries: tuple[str, ...]
    per_query: dict[str, Floats]
    comparison: dict[str, Comparison]
    ties: Ties
    warnings: tuple[str, ...]

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """The stable JSON of ``gpueval rank --json``."""
        body: dict[str, Any] = {
            "n_queries": len(self.queries),
            "metrics": {name: _average(found) for name, found in self.metrics.items()},
            "ties": self.ties,
            "warnings": list(self.warnings),
        }
        if self.groups:
            body["groups"] = {
                group: {name: _average(found) for name, found in metrics.items()}
                for group, metrics in self.groups.items()
            }
        if self.comparison:
            body["comparison"] = {
                name: {
                    "difference": found.difference,
                    "ci_low": found.low,
                    "ci_high": found.high,
                    "p_value": found.p_value,
                    "n_compared": found.n,
                    "better": found.better,
                    "worse": found.worse,
                    "moved": [{"query": query, "difference": value} for query, value in found.moved],
                }
                for name, found in self.comparison.items()
            }
        if per_query:
            columns = {name: values.tolist() for name, values in self.per_query.items()}
            body["per_query"] = {
                query: {name: columns[name][i] for name in columns} for i, query in enumerate(self.queries)
            }
        return body


def _average(found: Average) -> dict[str, Any]:
    return {
        "mean": found.mean,
        "ci_low": found.low,
        "ci_high": found.high,
        "n_scored": found.n_scored,
        "n_total": found.n_total,
    }


@dataclass(frozen=True, slots=True)
class _Source:
    run: Run | None
    judgments: Judgments | None
    groups: Mapping[str, str] = field(default_factory=dict)


def rank(
    run: Path | str | Mapping[str, Sequence[str]],
    qrels: Path | str | Mapping[str, Mapping[str, float]] | None = None,
    *,
    metrics: Sequence[str] = DEFAULT_MEASURES,
    other: Path | str | Mapping[str, Sequence[str]] | None = None,
    ties: Ties = "input",
    missing: Literal["zero", "skip"] = "zero",
    level: float = 1.0,
) -> RankResult:
    """Score ranked lists.

    Args:
        run: TREC run or ``.jsonl`` with ``retrieved_ids`` (either ``.gz`` too), or ranked documents by query.
        qrels: TREC judgments or ``.jsonl``, or grades by query and document; None takes them from ``run``'s own lines.
        metrics: Such as ``ndcg@10``; trec_eval's names are understood.
        other: Another run to compare with.
        ties: Equal scores in the input's order, or as trec_eval orders them.
        missing: A judged query that the run does not hold counts 0, or is left out.
        level: A document of at least this grade is relevant.

    Raises:
        DataError: A file is wrong.
        UsageError: An unknown measure, or no judgments.
    """
    if ties not in ("input", "trec") or missing not in ("zero", "skip") or not np.isfinite(level):
        raise UsageError(f"ties={ties!r}, missing={missing!r}, level={level!r} do not go together with this command.")
    measures = [parse(name) for name in metrics]
    source = _source(run, ties)
    judged = _source(qrels, ties, judgments=True) if qrels is not None else source
    if source.run is None:
        raise UsageError(f"{run} holds no ranked lists.", "A line needs retrieved_ids.")
    if judged.judgments is None:
        raise UsageError("There are no relevance judgments.", "Give --qrels, or lines with relevant_ids or grades.")
    second = _source(other, ties).run if other is not None else None
    if other is not None and second is None:
        raise UsageError(f"{other} holds no ranked lists.", "A line needs retrieved_ids.")
    groups = dict(source.groups) | dict(judged.groups)
    return rank_run(
        source.run, judged.judgments, measures, other=second, ties=ties, missing=missing, level=level, groups=groups
    )


def rank_run(
    run: Run,
    judgments: Judgments,
    measures: Sequence[Measure],
    *,
    other: Run | None = None,
    ties: Ties = "input",
    missing: Literal["zero", "skip"] = "zero",
    level: float = 1.0,
    groups: Mapping[str, str] | None = None,
) -> RankResult:
    """Score lists that were read already; see :func:`rank`."""
    found = score(run, judgments, measures, level)
    kept = ~found.missing if missing == "skip" else np.ones(len(found.queries), bool)
    comparison: dict[str, Comparison] = {}
    remarks: tuple[str, ...] = ()
    if other is not None:
        against = score(other, judgments, measures, level)
        both = kept & ~against.missing if missing == "skip" else kept
        names = [query for query, keep in zip(found.queries, both, strict=True) if keep]
        comparison = compare(names, _kept(found, both), _kept(against, both))
        remarks = tuple(f"the other run: {text}" for text in _warnings(other, judgments, against, missing))
    values = _kept(found, kept)
    queries = tuple(query for query, keep in zip(found.queries, kept, strict=True) if keep)
    return RankResult(
        _means(values, len(judgments.queries)),
        _by_group(queries, values, groups or {}),
        queries,
        values,
        comparison,
        ties,
        _warnings(run, judgments, found, missing) + remarks,
    )


def read_any_judgments(given: Path | str | Mapping[str, Mapping[str, float]]) -> Judgments:
    """Read judgments from any form that :func:`rank` takes.

    Raises:
        DataError: The file is wrong.
        UsageError: It holds none.
    """
    found = _source(given, "input", judgments=True).judgments
    if found is None:
        raise UsageError(f"{given} holds no relevance judgments.", "A line needs relevant_ids or grades.")
    return found


def _kept(found: Scores, kept: Any) -> dict[str, Floats]:
    return {name: values[kept] for name, values in found.values.items()}


def _means(columns: Mapping[str, Floats], total: int) -> dict[str, Average]:
    found = {}
    for (name, values), interval in zip(columns.items(), bootstrap_means(list(columns.values())), strict=True):
        low, high = interval or (None, None)
        found[name] = Average(float(values.mean()) if len(values) else None, low, high, len(values), total)
    return found


def _by_group(
    queries: Sequence[str], values: Mapping[str, Floats], groups: Mapping[str, str]
) -> dict[str, dict[str, Average]]:
    rows: dict[str, list[int]] = {}
    for i, query in enumerate(queries):
        if query in groups:
            rows.setdefault(groups[query], []).append(i)
    return {
        group: _means({name: column[at] for name, column in values.items()}, len(at))
        for group, at in sorted(rows.items())
    }


def _source(given: Any, ties: Ties, *, judgments: bool = False) -> _Source:
    if isinstance(given, Mapping):
        given = {str(query): found for query, found in given.items()}
        if judgments:
            grades = {query: {str(d): float(g) for d, g in found.items()} for query, found in given.items()}
            if not all(np.isfinite(list(found.values())).all() for found in grades.values()):
                raise UsageError("A grade is no finite number.")
            return _Source(None, judgments_from_grades(grades))
        if any(isinstance(found, Mapping) for found in given.values()):  # scores by document, as pytrec_eval takes them
            scores = {query: [float(x) for x in found.values()] for query, found in given.items()}
            return _Source(
                run_from_lists({q: [str(d) for d in found] for q, found in given.items()}, scores, ties), None
            )
        given = {query: [str(document) for document in found] for query, found in given.items()}
        return _Source(run_from_lists(given, {}, ties), None)
    path = Path(given)
    if not path.is_file():
        raise DataError("does not exist", file=str(path))
    if path.name.removesuffix(".gz").endswith(_JSON):
        lists = read_lists(path)
        return _Source(
            run_from_lists(lists.retrieved, lists.scores, ties) if lists.retrieved else None,
            judgments_from_grades(lists.grades) if lists.grades else None,
            lists.groups,
        )
    if judgments and path.suffix != ".gz" and is_beir(path):
        return _Source(None, judgments_from_grades(beir_grades(path)))
    return _Source(None, read_judgments(path)) if judgments else _Source(read_run(path, ties), None)


def _warnings(run: Run, judgments: Judgments, found: Scores, missing: str) -> tuple[str, ...]:
    absent = int(found.missing.sum())
    remarks = {
        f"{run.duplicates:,} documents were returned more than once for a query; the first rank counts": run.duplicates,
        f"{judgments.duplicates:,} judgments are repeated; the first one counts": judgments.duplicates,
        f"{found.without_relevant:,} judged queries have no relevant document and are left out": found.without_relevant,
        f"{found.unjudged_queries:,} queries of the run have no judgments and are left out": found.unjudged_queries,
        f"{absent:,} judged queries are not in the run and "
        + ("count 0" if missing == "zero" else "are left out"): absent,
    }
    return tuple(text for text, count in remarks.items() if count)


__all__ = ["DEFAULT_MEASURES", "Average", "Measure", "RankResult", "rank"]
