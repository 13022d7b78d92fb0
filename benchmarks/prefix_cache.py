r"""What order is worth: requests about the same passage side by side, against shuffled.

    python benchmarks/prefix_cache.py DATA/wice/entailment_retrieval_claim_first_half.jsonl --judge JUDGE \
        [--rows 100] [--cache-gib 1] [--out benchmarks/results/prefix_cache.jsonl]

Passages are the beginnings of WiCE's web pages; the answer about each is its claim and five sentences from all over the
page, so six claims are held against each passage. One engine, its prefix cache emptied before each order and
smaller than all passages together, as it is with thousands of samples. Prints one JSON line per order: seconds, prompt
tokens, the share of them from the cache, and the largest difference of a probability from the first order's.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from recording import Recording
from result_rows import emit

import gpueval
from gpueval.engines.scripted import Scripted
from gpueval.engines.vllm_local import VllmLocal
from gpueval.records import Completion, Request

PASSAGE_LETTERS = 3000
CLAIMS = 6


def requests_of(path: Path, n_rows: int, work: Path) -> list[Request]:
    """Return what a run asks about the pages, in its own order."""
    samples = []
    for line in path.open(encoding="utf-8"):
        row = json.loads(line)
        page = [text for text in row["evidence"] if len(text) > 40 and text.rstrip()[-1:] in ".!?"]
        if len(page) < CLAIMS - 1:
            continue
        step = len(page) // (CLAIMS - 1)
        answer = " ".join([row["claim"], *page[:: max(1, step)][: CLAIMS - 1]])
        samples.append({"id": str(len(samples)), "answer": answer, "contexts": [" ".join(page)[:PASSAGE_LETTERS]]})
        if len(samples) == n_rows:
            break
    silent = Recording(Scripted(lambda request: Completion(request.key, labels=(1.0, 0.0, 0.0))))
    gpueval.evaluate(samples, judge=silent, metrics=["faithfulness"], out=work / "planned", keep_instructions=True)
    return silent.requests


def main() -> None:
    """Measure both orders and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--judge", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--cache-gib", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        asked = requests_of(options.data, options.rows, Path(work))
        log = Path(work) / "engine.log"
        engine = VllmLocal(options.judge, kv_cache_gib=options.cache_gib, max_num_seqs=32, log=log)
        list(engine.run(asked[:50]))  # compiles what the shapes need
        shuffled = random.Random(0).sample(asked, len(asked))
        first: dict[bytes, float] = {}
        for order, some in (("by passage", asked), ("shuffled", shuffled)):
            engine._llm.reset_prefix_cache()
            began = time.perf_counter()
            found = list(engine.run(some))
            seconds = time.perf_counter() - began
            chances = {one.key: one.labels[0] / max(1e-9, one.labels[0] + one.labels[1]) for one in found}
            first = first or chances
            prompt, cached = sum(one.prompt_tokens for one in found), sum(one.cached_tokens for one in found)
            emit(
                {
                    "benchmark": "prefix_cache",
                    "order": order,
                    "judge": options.judge.name,
                    "passages": options.rows,
                    "requests": len(found),
                    "cache_tokens": engine.facts()["kv_cache_tokens"],
                    "prompt_tokens": prompt,
                    "from_cache": round(cached / prompt, 3),
                    "seconds": round(seconds, 1),
                    "requests_per_s": round(len(found) / seconds, 2),
                    "largest_difference": max(abs(chances[key] - first[key]) for key in chances),
                },
                options.out,
            )
        engine.close()


if __name__ == "__main__":
    main()
