r"""From the probabilities of claims to one for the whole answer: which rule agrees best with people.

    python benchmarks/aggregation.py JUDGE DATA/begin_wow/begin_dev_wow.tsv [--out benchmarks/results/aggregation.jsonl]

Asks, with gpueval's own prompt, every sentence of the answer and the answer as a whole, and prints per rule the area
under the ROC curve against the label "Fully attributable" with a 95 % interval, its difference from the minimum on the
same draws, balanced accuracy at 0.5 and cross-fitted: for all rows, and for answers of two or more claims.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from prompt_trials import Row, begin, figures, probability
from result_rows import emit

from gpueval import engines
from gpueval.judge import prompts
from gpueval.judge.plan import Keys
from gpueval.judge.store import Store
from gpueval.records import Request

RULES: dict[str, Callable[[np.ndarray, float], float]] = {
    "minimum": lambda claims, whole: float(claims.min()),
    "product": lambda claims, whole: float(claims.prod()),
    "mean": lambda claims, whole: float(claims.mean()),
    "geometric mean": lambda claims, whole: float(np.exp(np.log(np.maximum(claims, 1e-9)).mean())),
    "whole answer": lambda claims, whole: whole,
    "minimum of claims and whole": lambda claims, whole: float(min(claims.min(), whole)),
    "mean of minimum and whole": lambda claims, whole: float(claims.min() + whole) / 2,
}


def request(row: Row, claim: str, keys: Keys) -> Request:
    """Ask as gpueval does."""
    parts = (prompts.documents((row.document,)), prompts.question(row.question), prompts.support_tail(claim))
    return Request(keys.of(prompts.SUPPORT, parts), prompts.SUPPORT, parts)


def main() -> None:
    """Ask, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("data", type=Path)
    parser.add_argument("--store", type=Path, default=Path("prompt_trials.sqlite"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = begin(options.data)
    wholes = [replace(row, claims=(" ".join(row.claims),)) for row in rows]
    engine = engines.start(options.judge, log=options.store.with_suffix(".log"))
    keys = Keys(engine.fingerprint, "")
    with Store(options.store) as store:
        asked = [[request(row, claim, keys) for claim in row.claims] for row in rows]
        whole = [request(row, row.claims[0], keys) for row in wholes]
        flat = [one for row in asked for one in row] + [one for one, row in zip(whole, rows, strict=True) if row.claims]
        found = store.get([one.key for one in flat])
        for completion in engine.run(list({one.key: one for one in flat if one.key not in found}.values())):
            found[completion.key] = completion
            store.put(completion, "support")
    engine.close()
    labels = np.array([row.label for row in rows])
    by_rule = {
        name: np.array(
            [
                rule(np.array([probability(found[one.key]) for one in some]), probability(found[all_.key]))
                if some
                else 0.0
                for some, all_ in zip(asked, whole, strict=True)
            ]
        )
        for name, rule in RULES.items()
    }
    n_claims = np.array([len(row.claims) for row in rows])
    for part, chosen in (("all", n_claims >= 0), ("two or more claims", n_claims > 1)):
        for name, scores in by_rule.items():
            emit(
                {
                    "benchmark": "aggregation",
                    "data": "begin_dev",
                    "judge": engine.facts()["model"],
                    "prompts_version": prompts.VERSION,
                    "rows": part,
                    "n": int(chosen.sum()),
                    "n_right": int(labels[chosen].sum()),
                    "rule": name,
                    **figures(scores[chosen], by_rule["minimum"][chosen], labels[chosen]),
                },
                options.out,
            )


if __name__ == "__main__":
    main()
