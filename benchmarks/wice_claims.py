r"""Support of a claim by a whole web page, in windows: WiCE (Kamoi et al. 2023), first half of the test claims.

    python benchmarks/wice_claims.py JUDGE DATA/wice/entailment_retrieval_claim_first_half.jsonl --folder FOLDER \
        [--max-model-len 1024] [--rows N] [--out benchmarks/results/wice_claims.jsonl]

Every claim is an answer, its page the context. Prints one JSON line: area under the ROC curve of ``p_grounded`` for
"supported" against "partially" and "not supported" with a 95 % interval, balanced accuracy at 0.5 and cross-fitted,
claims read in more than one window, samples per second, and how often the best sentence is among the gold ones.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from prompt_trials import figures
from result_rows import emit

import gpueval


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("data", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--embedder", help="finds the best sentence by tokens; else by words")
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.data.open(encoding="utf-8")][: options.rows]
    samples = [
        {"id": str(i), "answer": row["claim"], "contexts": ["\n".join(row["evidence"])]} for i, row in enumerate(rows)
    ]
    result = gpueval.evaluate(
        samples,
        judge=options.judge,
        embedder=options.embedder,
        metrics=["faithfulness"],
        out=options.folder,
        engine_options={"max_model_len": options.max_model_len},
    )
    cells = [line["scores"]["faithfulness"] for line in result.cells()]
    labels = np.array([row["label"] == "supported" for row in rows])
    scores = np.array([cell.get("p_grounded", 0.0) for cell in cells])
    windows = [max((claim.get("windows", 1) for claim in cell.get("claims", ())), default=0) for cell in cells]
    hits = [
        any(claim["sentence"] in row["evidence"][i] or row["evidence"][i] in claim["sentence"] for i in gold)
        for row, cell in zip(rows, cells, strict=True)
        if (gold := {i for some in row["supporting_sentences"] for i in some})
        for claim in cell.get("claims", ())[:1]
    ]
    facts = json.loads((options.folder / "run.json").read_text())
    emit(
        {
            "benchmark": "wice_claims",
            "judge": facts["judge"]["model"],
            "prompts_version": facts["prompts_version"],
            "max_model_len": options.max_model_len,
            "n": len(rows),
            "n_supported": int(labels.sum()),
            "n_windowed": sum(n > 1 for n in windows),
            **{key: value for key, value in figures(scores, scores, labels).items() if key != "auc_gain"},
            "best_sentence_is_gold": round(float(np.mean(hits)), 3),
            "evidence": facts["evidence"],
            "samples_per_s": round(facts["samples_per_s"], 3),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
