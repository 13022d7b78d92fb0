r"""Faithfulness against human labels on BEGIN (Dziri et al. 2022), development split, 430 rows.

    gpueval run DATA/begin_wow/begin_dev_wow.tsv --columns question=message,answer=response,contexts=knowledge \
        --judge JUDGE --metrics faithfulness --out runs/begin
    python benchmarks/begin.py DATA/begin_wow/begin_dev_wow.tsv runs/begin [--out benchmarks/results/begin.jsonl]

Reads a finished run and prints one JSON line: agreement of ``p_grounded`` (the answer as a whole) and of the share of
supported claims with the label "Fully attributable", at the threshold 0.5 and, for the ranking, as area under the ROC
curve; samples per second and tokens from run.json. Rows without a score count as not attributable and are reported.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from result_rows import emit
from sklearn.metrics import balanced_accuracy_score, roc_auc_score


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with options.data.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    labels = [row["begin_label"] == "Fully attributable" for row in rows]
    cells = [json.loads(line)["scores"]["faithfulness"] for line in (options.run / "scores.jsonl").open()]
    facts = json.loads((options.run / "run.json").read_text())
    grounded = [cell.get("p_grounded", 0.0) for cell in cells]
    share = [cell["value"] or 0.0 for cell in cells]
    states: dict[str, int] = {}
    for cell in cells:
        states[cell["state"]] = states.get(cell["state"], 0) + 1
    result = {
        "benchmark": "begin_dev",
        "judge": facts["judge"]["model"],
        "engine": f"{facts['judge']['engine']} {facts['judge'].get('engine_version', '')}".strip(),
        "device": facts["judge"].get("device"),
        "cores": facts["machine"]["cores"],
        "prompts_version": facts["prompts_version"],
        "n": len(cells),
        "states": states,
        "mean_faithfulness": round(sum(share) / len(share), 4),
        "auc_grounded": round(roc_auc_score(labels, grounded), 4),
        "auc_share": round(roc_auc_score(labels, share), 4),
        "balanced_accuracy_at_0.5": round(balanced_accuracy_score(labels, [p >= 0.5 for p in grounded]), 4),
        "samples_per_s": round(facts["samples_per_s"], 3),
        "judge_and_score_s": round(facts["timing_s"]["judge_and_score"], 1),
        "load_s": round(facts["timing_s"]["start"], 1),
        "requests": facts["requests"],
    }
    emit(result, options.out)


if __name__ == "__main__":
    main()
