"""Web pages as text files, from WiCE (Kamoi et al. 2023): a corpus to make a test set from.

    python benchmarks/wice_pages.py DATA/wice FOLDER
    gpueval testset FOLDER -n 200 --judge JUDGE --embedder EMBEDDER --out SET

Writes one file per distinct page of the evidence of both claim files; what stands before the first title is a page too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

_TITLE = "(meta data) TITLE: "


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, list[str]] = {}
    for raw in (options.data / "entailment_retrieval_claim_first_half.jsonl").open(encoding="utf-8"):
        page: list[str] = []
        for line in json.loads(raw)["evidence"]:
            if line.startswith(_TITLE):
                pages.setdefault("\n".join(page), page)
                page = [line.removeprefix(_TITLE)]
            else:
                page.append(line)
        pages.setdefault("\n".join(page), page)
    pages.pop("", None)
    for number, text in enumerate(pages):
        (options.folder / f"page-{number:03}.txt").write_text(text + "\n", encoding="utf-8")
    print(f"{len(pages):,} pages, {sum(map(len, pages)):,} characters")


if __name__ == "__main__":
    main()
