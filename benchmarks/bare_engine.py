r"""A whole run against the bare engine: the same token ids through ``LLM.generate``, cold and warm.

    python benchmarks/bare_engine.py DATA/begin_wow/begin_dev_wow.tsv --judge JUDGE --embedder FOLDER [--rows 64]

One vLLM engine, started once. Three metrics of throughput.py are run on the rows (a fresh run folder each time), then
exactly the prompts they asked, as token ids with the same sampling parameters, go into one call of ``LLM.generate``.
Each of the two is measured with the prefix cache emptied (cold) and again right after (warm), in the order given by
``--first``. Prints one JSON line: seconds of the whole run, of its engine, of its embedding model and of the rest
(planning, token ids, storing, parsing, scoring), seconds of the bare call, and bare over whole.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from peers import begin, samples_of
from recording import Recording
from result_rows import emit
from throughput import METRICS

import gpueval
from gpueval.engines.sentence_embedder import SentenceEmbedder
from gpueval.engines.vllm_local import VllmLocal


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--judge", type=Path, required=True)
    parser.add_argument("--embedder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--first", choices=["run", "bare"], default="run")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    samples = samples_of(begin(options.data, options.rows))
    with tempfile.TemporaryDirectory() as work:
        engine = VllmLocal(options.judge, log=Path(work) / "engine.log")
        embedder = SentenceEmbedder(options.embedder, device="cpu", log=Path(work) / "embed.log")

        def whole(some: list[dict[str, Any]], name: str) -> tuple[dict[str, float], Recording]:
            judge, embed = Recording(engine), Recording(embedder)  # type: ignore[arg-type]
            began = time.perf_counter()
            gpueval.evaluate(some, judge=judge, embedder=embed, metrics=METRICS, out=Path(work) / name)
            total = time.perf_counter() - began
            parts = {"engine_s": judge.seconds, "embedder_s": embed.seconds}
            return {"run_s": total, **parts, "rest_s": total - sum(parts.values())}, judge

        asked = whole(samples, "warm-up")[1].requests  # compiles what the shapes need, and tells what is asked
        prompts = [{"prompt_token_ids": engine._tokens.prompt(request)} for request in asked]
        parameters = [engine._sampling(request) for request in asked]

        def bare() -> float:
            began = time.perf_counter()
            engine._llm.generate(prompts, parameters, use_tqdm=False)
            return time.perf_counter() - began

        told: dict[str, Any] = {"benchmark": "bare_engine", "judge": options.judge.name, "rows": len(samples)}
        told |= {"requests": len(asked), "prompt_tokens": sum(len(p["prompt_token_ids"]) for p in prompts)}
        for which in ("run", "bare") if options.first == "run" else ("bare", "run"):
            engine._llm.reset_prefix_cache()
            for state in ("cold", "warm"):
                if which == "run":
                    told |= {f"{state}_{k}": round(v, 2) for k, v in whole(samples, f"{which}-{state}")[0].items()}
                else:
                    told[f"{state}_bare_s"] = round(bare(), 2)
        for state in ("cold", "warm"):
            told[f"{state}_bare_over_engine"] = round(told[f"{state}_bare_s"] / told[f"{state}_engine_s"], 3)
            told[f"{state}_bare_over_run"] = round(told[f"{state}_bare_s"] / told[f"{state}_run_s"], 3)
        emit(told | {"first": options.first}, options.out)
        engine.close()


if __name__ == "__main__":
    main()
