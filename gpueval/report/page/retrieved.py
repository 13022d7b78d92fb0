"""The page of a retriever: how good its lists are and how deep one has to read, which index costs what, which queries
moved. It shows the dictionaries that ``gpueval retrieve --json`` and ``gpueval rank --json`` print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from gpueval import __version__
from gpueval.report.comparison import p_text, signed
from gpueval.report.facts import Fact
from gpueval.report.page.charts import change, curves, interval, sample_line
from gpueval.report.page.shell import render
from gpueval.report.ranking import best_settings, label_of
from gpueval.report.tradeoff import tradeoff_svg
from gpueval.units import duration, per_second, score

Curves = Mapping[str, Mapping[int, float]]
"""Measure, then depth and mean."""

_TITLES = {"recall": "Recall by depth", "ndcg": "nDCG by depth"}


def retrieval_page(body: Mapping[str, Any], name: str) -> str:
    """Return the page of ``gpueval retrieve``.

    Args:
        body: The content of ``retrieve.json``.
        name: Heading.
    """
    rows = body["indexes"]
    labels = [label_of(row) for row in rows]
    by_index = {label_of(row): row["curves"] for row in best_settings(rows) if row.get("curves")}
    title = f"{body['documents']:,} documents, {body['queries']:,} queries, k = {body['k']}"
    texts = body.get("texts", {})
    content = {
        "lead": f"{title}, embedded by {body['embedder']} in {body['dimensions']} dimensions.",
        "metrics": _metrics(rows[0].get("metrics", {})),
        "heading": "The exact search",
        "plots": _plots(by_index),
        "legend": _legend(by_index),
        "indexes": [_index_row(label, row) for label, row in zip(labels, rows, strict=True)],
        "index_metrics": list(rows[0].get("metrics", {})),
        "tradeoff": Markup(tradeoff_svg(rows, title)) if len(rows) > 1 else None,  # it escapes its texts
        "worst": [
            (one["query"], texts.get(one["query"], ""), score(one["value"])) for one in body.get("worst_queries", ())
        ],
        "moved": _moved(body.get("moved_queries", ()), texts),
        "measure": body.get("measure", ""),
        "facts": [
            Fact("Texts embedded now", f"{body['encoded_now']:,}", "the others were kept from before"),
            Fact(
                "Longer than the model reads",
                f"{body['truncated']:,}",
                "of those embedded now",
                "warn" if body["truncated"] else "plain",
            ),
        ],
        "comparison": [],
        "groups": {},
        "warnings": body["warnings"],
    }
    return _page(content, name)


def ranking_page(
    body: Mapping[str, Any], by_run: Mapping[str, Curves], name: str, texts: Mapping[str, str] | None = None
) -> str:
    """Return the page of ``gpueval rank``.

    Args:
        body: What ``gpueval rank --json --per-query`` prints.
        by_run: Curves of this run, and of the other one where there is one.
        name: Heading.
        texts: Queries by id, where they are known.
    """
    known = texts or {}
    first = next(iter(body["metrics"]))
    values = sorted((found[first], query) for query, found in body["per_query"].items())
    comparison = body.get("comparison", {})
    reach = max([0.05, *(abs(one[end] or 0.0) for one in comparison.values() for end in ("ci_low", "ci_high"))])
    content = {
        "lead": f"{body['n_queries']:,} judged queries.",
        "metrics": _metrics(body["metrics"]),
        "heading": "The lists",
        "plots": _plots(by_run),
        "legend": _legend(by_run),
        "indexes": [],
        "index_metrics": [],
        "tradeoff": None,
        "worst": [(query, known.get(query, ""), score(value)) for value, query in values[:20]],
        "moved": {
            "the other run against this one": [
                (one["query"], known.get(one["query"], ""), signed(one["difference"]))
                for one in comparison[first]["moved"]
            ]
        }
        if comparison
        else {},
        "measure": first,
        "facts": [],
        "comparison": [_compared(measure, found, reach) for measure, found in comparison.items()],
        "groups": body.get("groups", {}),
        "warnings": body["warnings"],
    }
    return _page(content, name)


def _page(content: Mapping[str, Any], name: str) -> str:
    held = {"title": f"gpueval: {name}", "name": name, "version": __version__, "score": score}
    return render("retrieved.html", {**held, **content})


def _moved(found: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> dict[str, list[tuple[str, str, str]]]:
    by_index: dict[str, list[tuple[str, str, str]]] = {}
    for one in found:
        told = f"{score(one['exact'])} → {score(one['value'])}"
        by_index.setdefault(f"{label_of(one)} against exact", []).append(
            (one["query"], texts.get(one["query"], ""), told)
        )
    return by_index


def _metrics(found: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Markup, str, str]]:
    rows = []
    for name, one in found.items():
        ends = "" if one["ci_low"] is None else f"{score(one['ci_low'])} – {score(one['ci_high'])}"
        told = f"{name}: mean {score(one['mean'])}" + (f", 95 % interval {ends}" if ends else "")
        picture = interval(one["mean"], one["ci_low"], one["ci_high"], told)
        rows.append((name, score(one["mean"]), picture, ends, f"{one['n_scored']:,} / {one['n_total']:,}"))
    return rows


def _plots(by_name: Mapping[str, Curves]) -> list[tuple[str, Markup]]:
    found = []
    for measure, title in _TITLES.items():
        lines = {name: {int(depth): mean for depth, mean in held[measure].items()} for name, held in by_name.items()}
        if lines:
            ends = ", ".join(f"{name} {line[max(line)]:.3f} at {max(line)}" for name, line in lines.items())
            found.append((title, curves(lines, f"{title}: {ends}")))
    return found


def _legend(by_name: Mapping[str, Curves]) -> list[tuple[Markup, str]]:
    return [(sample_line(k), name) for k, name in enumerate(by_name)] if len(by_name) > 1 else []


def _index_row(label: str, row: Mapping[str, Any]) -> tuple[str, Sequence[str], str, str, str, str]:
    metrics = [score(found["mean"]) for found in row.get("metrics", {}).values()]
    build = duration(row["build_s"]) if row["build_s"] else "–"
    size = f"{row['size_bytes'] / (1 << 20):,.1f}"
    return label, metrics, score(row["recall_of_exact"]), per_second(row["queries_per_s"]), build, size


def _compared(measure: str, found: Mapping[str, Any], reach: float) -> tuple[str, str, Markup, str, str, str]:
    ends = "" if found["ci_low"] is None else f"{signed(found['ci_low'])} – {signed(found['ci_high'])}"
    told = f"{measure}: {signed(found['difference'])}" + (f", 95 % interval {ends}" if ends else "")
    picture = change(found["difference"], found["ci_low"], found["ci_high"], reach, told)
    turned = f"{found['better']:,} better, {found['worse']:,} worse"
    return measure, signed(found["difference"]), picture, ends, p_text(found["p_value"]), turned
