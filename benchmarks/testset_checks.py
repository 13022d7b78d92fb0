"""How good are the checks of a test set? The judge against labels that people gave.

    python benchmarks/testset_checks.py JUDGE [--items benchmarks/testset_checks.jsonl] [--folder FOLDER] \
        [--out benchmarks/results/testset_checks.jsonl]

70 items over eight short documents written for this, each labelled by hand for what the checks ask: can the question be
understood alone, is the reference supported, does it respond, does the evidence answer the question, does each chunk
alone, is it known without a document, is the answer in the question. Prints per check the right verdicts of those that
should be yes and of those that should be no, and per item whether it is rightly kept or dropped.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
from result_rows import emit

from gpueval import engines
from gpueval.judge.answers import answers
from gpueval.judge.parse import verdict
from gpueval.judge.plan import Keys
from gpueval.judge.store import Store
from gpueval.records import Completion, Request
from gpueval.testset.checks import (
    YES,
    Problem,
    closed_support,
    leans,
    problems_of_substance,
    problems_of_wording,
    questions_about,
)
from gpueval.testset.items import Item


def main() -> None:
    """Ask and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("--items", type=Path, default=Path(__file__).with_name("testset_checks.jsonl"))
    parser.add_argument("--folder", type=Path, default=Path("runs/testset_checks"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.items.read_text(encoding="utf-8").splitlines()]
    items = [msgspec.convert(row, Item) for row in rows]
    judge = engines.start(options.judge, log=options.folder / "engine.log", options={"max_model_len": 4096})
    keys = Keys(judge.fingerprint, "")
    with Store(options.folder / "judgments.sqlite") as store:

        def ask(requests: list[Request]) -> dict[bytes, Completion]:
            return answers(requests, judge, store, "checks", lambda stage, done, total: None)

        asked = [questions_about(item, (), keys) for item in items]
        replies = ask([one for some in asked for one in (*some.first(), *some.second())])
        closed = [closed_support(some, replies, keys) for some in asked]
        replies |= ask([one for some in closed for one in some])

    def p(request: Request | None) -> float | None:
        return None if request is None else verdict([replies.get(request.key)]).p

    found: defaultdict[str, list[tuple[bool, float]]] = defaultdict(list)
    kept: list[tuple[bool, bool]] = []
    for row, item, some, known in zip(rows, items, asked, closed, strict=True):
        wanted = row["labels"]
        said = {
            "alone": p(some.alone),
            "alone, by its words": float(not leans(item.standalone)),
            "supported": min((p(one) or 0.0 for one in some.supported), default=None),
            "responds": p(some.responds),
            "whole": p(some.whole),
            "known": min((p(one) or 0.0 for one in known), default=0.0),
            "leaks": float(Problem.LEAKS in problems_of_wording(item)),
        }
        for name, value in said.items():
            label = wanted.get(name.partition(",")[0])
            if label is not None and value is not None:
                found[name].append((label, value))
        for label, one in zip(wanted.get("parts", ()), some.parts, strict=bool(wanted.get("parts"))):
            found["one chunk answers"].append((label, p(one) or 0.0))
        problems = (*problems_of_wording(item), *problems_of_substance(some, known, replies, whole=True))
        kept.append((_is_good(wanted, item), not problems))
        if kept[-1][0] != kept[-1][1]:
            print(item.id, "kept" if kept[-1][1] else "dropped", item.question, *problems, said, sep=" | ")
    for name, pairs in found.items():
        yes = [value >= YES for label, value in pairs if label]
        no = [value < YES for label, value in pairs if not label]
        emit(_row(name, yes, no, options.judge), options.out)
    good = [did for should, did in kept if should]
    bad = [not did for should, did in kept if not should]
    emit(_row("kept", good, bad, options.judge), options.out)
    judge.close()


def _is_good(wanted: dict[str, Any], item: Item) -> bool:
    yes = all(wanted.get(name, True) for name in ("alone", "supported", "responds", "whole"))
    return yes and not wanted.get("known") and not wanted.get("leaks") and not any(wanted.get("parts", ()))


def _row(name: str, yes: list[bool], no: list[bool], judge: str) -> dict[str, Any]:
    return {
        "benchmark": "testset_checks",
        "judge": Path(judge).name,
        "check": name,
        "should_be_yes": len(yes),
        "said_yes": sum(yes),
        "should_be_no": len(no),
        "said_no": sum(no),
    }


if __name__ == "__main__":
    main()
