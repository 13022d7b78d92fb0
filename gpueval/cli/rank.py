"""``gpueval rank``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console

from gpueval.cli.words import names_in, print_json, write_file
from gpueval.report.page.retrieved import ranking_page
from gpueval.report.ranking import show_ranking
from gpueval.retrieval.depths import by_depth
from gpueval.retrieval.depths import names as depth_names
from gpueval.retrieval.rank import DEFAULT_MEASURES
from gpueval.retrieval.rank import rank as rank_lists
from gpueval.retrieval.trec import Ties

_DEEPEST = 100


@click.command()
@click.argument("samples", required=False, type=click.Path(path_type=Path))
@click.option("--run", type=click.Path(path_type=Path), help="TREC run or .jsonl with retrieved_ids; plain or .gz.")
@click.option("--qrels", type=click.Path(path_type=Path), help="TREC judgments or .jsonl with relevant_ids or grades.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="ndcg@10, map, mrr@10, recall@100, precision@5, hit@1, …; repeatable, or separated by commas.  "
    f"[default: {','.join(DEFAULT_MEASURES)}]",
)
@click.option("--compare", "other", type=click.Path(path_type=Path), help="Another run over the same queries.")
@click.option(
    "--ties",
    type=click.Choice(["input", "trec"]),
    default="input",
    show_default=True,
    help="Equal scores: in the file's order, or as trec_eval does (single precision, then descending document id).",
)
@click.option(
    "--missing",
    type=click.Choice(["zero", "skip"]),
    default="zero",
    show_default=True,
    help="A judged query that the run does not hold: counts 0 (trec_eval -c) or is left out.",
)
@click.option("--rel-level", type=float, default=1.0, show_default=True, help="Lowest grade that is relevant.")
@click.option("--per-query", is_flag=True, help="Values of every query in the JSON.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write a page with curves and queries here.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def rank(
    samples: Path | None,
    run: Path | None,
    qrels: Path | None,
    metrics: tuple[str, ...],
    other: Path | None,
    ties: Ties,
    missing: Literal["zero", "skip"],
    rel_level: float,
    per_query: bool,
    html_path: Path | None,
    as_json: bool,
) -> None:
    """Score what a retriever returned against relevance judgments.

    SAMPLES is a .jsonl file whose lines hold retrieved_ids and relevant_ids (or grades); TREC files come by --run and
    --qrels.
    """
    if (samples is None) == (run is None):
        raise click.UsageError("Give SAMPLES, or --run with --qrels.")
    names = names_in(",".join(metrics))
    lists = run or samples or Path()
    same: dict[str, Any] = {"ties": ties, "missing": missing, "level": rel_level}
    found = rank_lists(lists, qrels, metrics=names or DEFAULT_MEASURES, other=other, **same)
    if html_path:
        depths = {
            path.name if other is None or other.name != lists.name else str(path): by_depth(
                {name: average.mean or 0.0 for name, average in at.metrics.items()}
            )
            for path in (lists, *([other] if other else ()))
            for at in [rank_lists(path, qrels or lists, metrics=depth_names(_DEEPEST), **same)]
        }
        write_file(html_path, ranking_page(found.to_dict(per_query=True), depths, lists.name))
    if as_json or per_query:
        body = found.to_dict(per_query=per_query)
        print_json(body)
    else:
        show_ranking(Console(), found.to_dict())
