"""Coverage of the corrected rate, by simulation: a biased judge, and labels with another share of right claims.

    python benchmarks/corrected_rate.py [--out benchmarks/results/corrected_rate.jsonl]

The judge's probability of a right claim is a logistic function of a normal score; it calls too much right. Every round
draws a run of 2,000 claims and n labels: from the run itself (``drawn``), or from older data with another share of
right claims (``shifted``). A line says how often the 95 % interval of each way held the run's true share, how wide it
was and how far off the figure was on average.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from result_rows import emit

from gpueval.stats import corrected


def judged(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Probabilities of a lenient judge that separates right from wrong with an AUC of about 0.86."""
    return 1 / (1 + np.exp(-(1.0 + 1.5 * np.where(labels, 0.75, -0.75) + generator.normal(0, 1.05, len(labels)))))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    generator = np.random.default_rng(1)
    n_units = 2000
    for n_labels in (100, 200, 400):
        for true_rate, labelled_rate in ((0.8, 0.8), (0.95, 0.95), (0.8, 0.5), (0.5, 0.8)):
            found: dict[str, list[tuple[bool, float, float]]] = defaultdict(list)
            for _ in range(options.rounds):
                truth = generator.random(n_units) < true_rate
                p = judged(truth, generator)
                drawn = true_rate == labelled_rate
                rows = generator.choice(n_units, n_labels, replace=False)
                labels = truth[rows] if drawn else generator.random(n_labels) < labelled_rate
                scores = p[rows] if drawn else judged(labels, generator)
                ways = {
                    "naive": corrected.naive(float((p >= 0.5).sum()), n_units),
                    "by_errors": corrected.by_errors(
                        float((p >= 0.5).sum()), n_units, scores >= 0.5, labels, np.ones(n_labels)
                    ),
                }
                if drawn:
                    one = np.arange(n_labels)
                    ways["by_prediction"] = corrected.by_prediction(p, rows, labels, np.ones(n_labels), one)
                    ways["labels_alone"] = corrected.naive(float(labels.sum()), n_labels)
                for way, estimate in ways.items():
                    if estimate.low is None:
                        found[way].append((False, 1.0, 0.0))
                    else:
                        held = estimate.low <= truth.mean() <= estimate.high
                        found[way].append((held, estimate.high - estimate.low, estimate.value - truth.mean()))
            for way, rounds in found.items():
                held, width, bias = np.array(rounds, float).mean(axis=0).tolist()
                emit(
                    {
                        "benchmark": "corrected_rate",
                        "labels": n_labels,
                        "drawn_from": "run" if true_rate == labelled_rate else "elsewhere",
                        "true_rate": true_rate,
                        "labelled_rate": labelled_rate,
                        "way": way,
                        "coverage": round(held, 4),
                        "mean_width": round(width, 4),
                        "mean_error": round(bias, 4),
                        "rounds": options.rounds,
                    },
                    options.out,
                )


if __name__ == "__main__":
    main()
