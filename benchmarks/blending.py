r"""Answers over two documents: relations swapped, dates and amounts crossed, and honest synthesis that must pass.

    python benchmarks/blending.py JUDGE --folder FOLDER [--out benchmarks/results/blending.jsonl]

Each case is a kind, two documents and a claim. ``swapped`` gives one subject what the document says of the other;
``crossed`` mixes a date, amount or place of one with an event of the other; ``synthesis`` follows from both documents
together and from neither alone; ``single`` stands in one of them; ``absent`` in neither. Only the first two are
blended. Prints a line per kind: claims that the metric flags, with both sentences named, and claims that the judge
supports by both documents together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from result_rows import emit

import gpueval

CASES: tuple[tuple[str, str, str, str], ...] = (
    (
        "swapped",
        "The Aria headset weighs 210 grams and costs 89 euros.",
        "The Brio headset weighs 340 grams and costs 149 euros.",
        "The Aria headset costs 149 euros.",
    ),
    (
        "swapped",
        "Lena Brandt founded the bakery in Kiel and runs it with her sister.",
        "Tomas Vik founded the bakery in Bergen and sold it to a chain.",
        "Lena Brandt sold her bakery to a chain.",
    ),
    (
        "swapped",
        "Plan S includes 10 GB of storage and support by mail.",
        "Plan L includes 500 GB of storage and support by telephone.",
        "Plan S includes support by telephone.",
    ),
    (
        "swapped",
        "The northern lighthouse is painted red and was automated.",
        "The southern lighthouse is painted white and still has a keeper.",
        "The northern lighthouse still has a keeper.",
    ),
    (
        "swapped",
        "Vaccine A is stored at minus 70 degrees and given in two doses.",
        "Vaccine B is stored in a refrigerator and given in one dose.",
        "Vaccine A is stored in a refrigerator.",
    ),
    (
        "swapped",
        "Team Falcon won the cup in the final against Team Osprey.",
        "Team Heron lost in the first round and changed its coach.",
        "Team Falcon changed its coach.",
    ),
    (
        "crossed",
        "The old bridge was opened in 1931 and closed to lorries in 1978.",
        "The tunnel was opened in 1994 and repaired in 2012.",
        "The old bridge was repaired in 2012.",
    ),
    (
        "crossed",
        "In March the fund paid 2.4 million euros for the library.",
        "In July the fund paid 750,000 euros for the swimming pool.",
        "In March the fund paid 750,000 euros for the swimming pool.",
    ),
    (
        "crossed",
        "Ida Moen was born in 1902 and wrote the novel Salt Roads.",
        "Karl Moen was born in 1931 and wrote the play The Weir.",
        "Ida Moen was born in 1931.",
    ),
    (
        "crossed",
        "Invoices from the Lyon office are due after 30 days.",
        "Invoices from the Turin office are due after 14 days.",
        "Invoices from the Lyon office are due after 14 days.",
    ),
    (
        "crossed",
        "The 2019 model has a range of 240 kilometres.",
        "The 2023 model has a range of 410 kilometres.",
        "The 2019 model has a range of 410 kilometres.",
    ),
    (
        "crossed",
        "The concert in Graz begins at 19:30 and lasts two hours.",
        "The concert in Linz begins at 20:15 and lasts three hours.",
        "The concert in Graz begins at 19:30 and lasts three hours.",
    ),
    (
        "synthesis",
        "The headquarters of Norvia are in Bremen.",
        "Bremen lies on the river Weser.",
        "The headquarters of Norvia are in a city on the river Weser.",
    ),
    (
        "synthesis",
        "Ms Okafor leads the research department.",
        "The research department moved to Leeds in 2020.",
        "The department that Ms Okafor leads moved to Leeds in 2020.",
    ),
    (
        "synthesis",
        "The Aria headset costs 89 euros.",
        "The Brio headset costs 149 euros.",
        "The Brio headset costs more than the Aria headset.",
    ),
    (
        "synthesis",
        "The X2 sensor uses the chip K7.",
        "The chip K7 cannot be used above 60 degrees.",
        "The X2 sensor uses a chip that cannot be used above 60 degrees.",
    ),
    (
        "synthesis",
        "The old bridge was opened in 1931.",
        "The tunnel was opened in 1994.",
        "The old bridge was opened before the tunnel.",
    ),
    (
        "synthesis",
        "The novel Salt Roads was written by Ida Moen.",
        "Ida Moen was born in Bergen.",
        "The novel Salt Roads was written by an author who was born in Bergen.",
    ),
    (
        "synthesis",
        "Plan S includes 10 GB of storage.",
        "Plan L includes 500 GB of storage.",
        "Plan S includes 10 GB of storage and Plan L includes 500 GB.",
    ),
    (
        "synthesis",
        "The museum is closed on Mondays.",
        "Whit Monday is a Monday in May or June.",
        "The museum is closed on Whit Monday.",
    ),
    (
        "single",
        "The concert in Graz begins at 19:30 and lasts two hours.",
        "The concert in Linz begins at 20:15 and lasts three hours.",
        "The concert in Linz lasts three hours.",
    ),
    (
        "single",
        "Vaccine A is stored at minus 70 degrees and given in two doses.",
        "Vaccine B is stored in a refrigerator and given in one dose.",
        "Vaccine B is given in one dose.",
    ),
    (
        "absent",
        "The northern lighthouse is painted red and was automated.",
        "The southern lighthouse is painted white and still has a keeper.",
        "The southern lighthouse is open to visitors.",
    ),
    (
        "absent",
        "In March the fund paid 2.4 million euros for the library.",
        "In July the fund paid 750,000 euros for the swimming pool.",
        "The fund was founded by a shipping company.",
    ),
)


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    samples = [
        {"id": str(i), "answer": claim, "contexts": [{"id": "first", "text": first}, {"id": "second", "text": second}]}
        for i, (_, first, second, claim) in enumerate(CASES)
    ]
    metrics = ["blending", "faithfulness"]
    result = gpueval.evaluate(samples, judge=options.judge, metrics=metrics, out=options.folder)
    cells = [line["scores"] for line in result.cells()]
    for kind in dict.fromkeys(kind for kind, *_ in CASES):
        mine = [cell for cell, (of, *_) in zip(cells, CASES, strict=True) if of == kind]
        flagged = [cell for cell in mine if cell["blending"]["value"] == 1.0]
        emit(
            {
                "benchmark": "blending",
                "judge": Path(options.judge).name,
                "kind": kind,
                "n": len(mine),
                "flagged": len(flagged),
                "with_sentences": sum(len(cell["blending"]["blended"][0]["sentences"]) == 2 for cell in flagged),
                "synthesis": sum(cell["blending"].get("n_synthesis", 0) for cell in mine),
                "supported_together": sum(cell["faithfulness"]["value"] == 1.0 for cell in mine),
            },
            options.out,
        )


if __name__ == "__main__":
    main()
