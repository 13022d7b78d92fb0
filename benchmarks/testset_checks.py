"""How good are the checks of a test set? The judge against labels that people gave.

    python benchmarks/testset_checks.py JUDGE [--folder FOLDER] [--out benchmarks/results/testset_checks.jsonl]

108 items over eight short documents written for this (gpueval/testset/assets/labelled.jsonl), each labelled by hand for
what the checks ask. Prints per check its threshold and balanced accuracy with this judge, cross-fitted, then the rules
of words, and at last how many items that should be kept are kept, and dropped that should be dropped, with thresholds
fitted on the other half of the items.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from result_rows import emit

from gpueval import engines
from gpueval.judge.answers import answers
from gpueval.judge.plan import Keys
from gpueval.judge.store import Store
from gpueval.records import Completion, Request
from gpueval.testset import trust
from gpueval.testset.checks import (
    Problem,
    closed_support,
    problems_of_substance,
    questions_about,
)
from gpueval.testset.items import Item
from gpueval.testset.wording import problems_of_wording


def main() -> None:
    """Ask and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("--folder", type=Path, default=Path("runs/testset_checks"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    judge = engines.start(options.judge, log=options.folder / "engine.log", options={"max_model_len": 4096})
    keys = Keys(judge.fingerprint, "")
    named = {"benchmark": "testset_checks", "judge": Path(options.judge).name}
    with Store(options.folder / "judgments.sqlite") as store:

        def ask(requests: Sequence[Request], stage: str) -> dict[bytes, Completion]:
            return answers(requests, judge, store, stage, lambda stage, done, total: None)

        for check, one in trust.measure(ask, keys).items():
            row = {"check": str(check), "threshold": round(one.threshold, 3), "should_be_yes": one.n_yes}
            row |= {"should_be_no": one.n_no, "balanced_accuracy": round(one.balanced_accuracy, 3), "used": one.used}
            emit(named | row, options.out)
        rows = trust.labelled()
        for problem, wanted in ((Problem.LEANS, "alone"), (Problem.LEAKS, "leaks")):
            said = [problem in problems_of_wording(item) for item, _ in rows]
            should = [getattr(label, wanted) == (problem is Problem.LEAKS) for _, label in rows]
            emit(named | _counts(f"rule: {problem}", said, should), options.out)
        kept, should = [], []
        for half in (0, 1):
            pairs = trust.pairs_of(ask, keys, [row for i, row in enumerate(rows) if i % 2 != half])
            fitted = {check: trust.fit(some) for check, some in pairs.items()}
            thresholds = {check: one.threshold if one.used else None for check, one in fitted.items()}
            for item, label in rows[half::2]:
                some = questions_about(item, (), keys)
                replies = ask([*some.first(), *some.second()], "")
                closed = closed_support(some, replies, keys)
                replies |= ask(closed, "")
                substance = problems_of_substance(some, closed, replies, thresholds, whole=True)
                problems = (*problems_of_wording(item), *substance)
                kept.append(not problems)
                should.append(_is_good(label, item))
                if kept[-1] != should[-1]:
                    print(item.id, "kept" if kept[-1] else "dropped", item.question, *problems, sep=" | ")
        emit(named | _counts("kept", kept, should), options.out)
    judge.close()


def _is_good(label: trust.Labelled, item: Item) -> bool:
    yes = label.alone and all(getattr(label, name) is not False for name in ("supported", "responds", "whole"))
    return yes and not label.known and not label.leaks and not any(label.parts)


def _counts(name: str, said: Sequence[bool], should: Sequence[bool]) -> dict[str, Any]:
    pairs = list(zip(said, should, strict=True))
    return {
        "check": name,
        "should_be_yes": sum(should),
        "said_yes": sum(one and wanted for one, wanted in pairs),
        "should_be_no": len(should) - sum(should),
        "said_no": sum(not one and not wanted for one, wanted in pairs),
    }


if __name__ == "__main__":
    main()
