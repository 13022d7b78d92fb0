"""A real retrieval task from WiCE (Kamoi et al. 2023): find the sentences that support a claim.

    python benchmarks/retrieve_wice.py DATA/wice FOLDER
    gpueval retrieve FOLDER --embedder EMBEDDER --index flat,ivf,hnsw

Writes a BEIR folder: all evidence sentences as corpus (each distinct text once), the claims as queries, and the
sentences of their gold sets as relevant. Claims without a supporting sentence get no judgments.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    (options.folder / "qrels").mkdir(parents=True, exist_ok=True)
    numbers: dict[str, int] = {}
    lines = ["query-id\tcorpus-id\tscore"]
    with (options.folder / "queries.jsonl").open("w") as queries:
        for i, raw in enumerate((options.data / "entailment_retrieval_claim_first_half.jsonl").open()):
            row = json.loads(raw)
            queries.write(json.dumps({"_id": f"c{i}", "text": row["claim"]}) + "\n")
            names = [f"s{numbers.setdefault(text, len(numbers))}" for text in row["evidence"]]
            gold = {j for group in row["supporting_sentences"] for j in group}
            lines += [f"c{i}\t{names[j]}\t1" for j in sorted(gold)]
    with (options.folder / "corpus.jsonl").open("w") as corpus:
        for text, number in numbers.items():
            corpus.write(json.dumps({"_id": f"s{number}", "text": text}) + "\n")
    (options.folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    print(f"{len(numbers):,} sentences, {i + 1} claims, {len(lines) - 1} judgments")


if __name__ == "__main__":
    main()
