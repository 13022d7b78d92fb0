"""Encoding a corpus of mixed lengths: batches by token budget against sentence-transformers' own encode.

    python benchmarks/encode_speed.py CORPUS.jsonl EMBEDDER [--texts 4000] [--out benchmarks/results/encode_speed.jsonl]

Same model, same process, same texts; vectors must agree to 1e-5. Each way runs twice and the faster run counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from result_rows import emit

from gpueval.engines.text_encoder import TextEncoder
from gpueval.retrieval.corpus import texts


def best(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Seconds of the faster of two runs, and the result."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        found = call()
        times.append(time.perf_counter() - began)
    return min(times), found


def main() -> None:
    """Measure both and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("embedder", type=Path)
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    some = [text for _, text in texts(options.corpus)]
    order = np.random.default_rng(0).permutation(len(some))[: options.texts]
    some = [some[i] for i in order]
    encoder = TextEncoder(options.embedder)
    model = encoder._model  # the very same weights for both
    theirs_s, theirs = best(lambda: model.encode(some, normalize_embeddings=True, show_progress_bar=False))
    ours_s, ours = best(lambda: encoder.encode(some, "document"))
    row = {
        "benchmark": "encode_speed", "texts": len(some), "model": options.embedder.name, "cores": os.cpu_count(),
        "ours_texts_per_s": round(len(some) / ours_s, 1), "theirs_texts_per_s": round(len(some) / theirs_s, 1),
        "ratio": round(theirs_s / ours_s, 2), "largest_difference": float(np.abs(ours - theirs).max()),
    }  # fmt: skip
    emit(row, options.out)


if __name__ == "__main__":
    main()
