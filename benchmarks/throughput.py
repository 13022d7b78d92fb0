r"""Faithfulness, answer relevancy and context precision by gpueval, Ragas and DeepEval: same rows, judge, embedder.

    gpueval serve JUDGE --port 8000                       (or any vLLM server)
    python benchmarks/throughput.py DATA/begin_wow/begin_dev_wow.tsv --embedder FOLDER --tool ragas [--rows 64]
    python benchmarks/throughput.py DATA/begin_wow/begin_dev_wow.tsv --embedder FOLDER --tool in-process --judge JUDGE

Run it with the Python of an environment that holds the tool, see peers.py. The rows have no reference: context
precision is asked against the answer (Ragas' form without reference; DeepEval gets the answer as its expected output,
and needs no embedder). ``in-process`` needs no server: the engine's start is reported apart and is not in the rate, as
the server's is not. Prints one JSON line: samples per second, tokens, and the rows that lack one of the three values.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from peers import QUIET, Rows, Scores, begin, counted, deepeval_table, ragas_table, samples_of
from result_rows import emit

METRICS = ("faithfulness", "answer_relevancy", "context_precision_answer")


def with_gpueval(rows: Rows, judge: str, embedder: str, options: dict[str, Any]) -> tuple[list[Scores], dict[str, Any]]:
    """As ``gpueval run``; a cell with a named state that is no failure counts as scored."""
    import gpueval
    from gpueval.records import FAILURES

    with tempfile.TemporaryDirectory() as folder:
        found = gpueval.evaluate(
            samples_of(rows), judge=judge, embedder=embedder, metrics=METRICS, out=folder, engine_options=options
        )
        cells = [list(line["scores"].values()) for line in found.cells()]
        facts = json.loads((Path(folder) / "run.json").read_text())
    values = [[None if cell["state"] in FAILURES else cell["value"] or 0.0 for cell in line] for line in cells]
    requests = facts["requests"]
    return values, {
        "seconds": round(facts["timing_s"]["judge_and_score"], 1),
        "start_s": round(facts["timing_s"]["start"], 1),
        "judge_s": round(requests["judge_s"], 1),
        "prompt_tokens": requests["prompt_tokens"],
        "cached_tokens": requests["cached_tokens"],
        "generated_tokens": requests["output_tokens"],
        "requests": requests["n_requests"],
    }


def with_ragas(rows: Rows, base: str, model: str, embedder: str) -> list[Scores]:
    """Ragas' three metrics."""
    from langchain_core.embeddings import Embeddings
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.metrics import Faithfulness, LLMContextPrecisionWithoutReference, ResponseRelevancy
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(embedder, device="cpu", local_files_only=True)

    class Local(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return encoder.encode(texts).tolist()  # type: ignore[no-any-return]

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    def metrics_of(llm: Any) -> list[Any]:
        relevancy = ResponseRelevancy(llm=llm, embeddings=LangchainEmbeddingsWrapper(Local()))
        return [Faithfulness(llm=llm), relevancy, LLMContextPrecisionWithoutReference(llm=llm)]

    return ragas_table(rows, base, model, metrics_of)


def with_deepeval(rows: Rows, base: str, model: str, embedder: str) -> list[Scores]:
    """DeepEval's three metrics."""
    from deepeval.metrics import AnswerRelevancyMetric, ContextualPrecisionMetric, FaithfulnessMetric

    kinds = (FaithfulnessMetric, AnswerRelevancyMetric, ContextualPrecisionMetric)
    return deepeval_table(rows, base, model, kinds)


PEERS = {"ragas": with_ragas, "deepeval": with_deepeval}


def main() -> None:
    """Run one tool and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tool", choices=["in-process", "gpueval", *PEERS], required=True)
    parser.add_argument("--embedder", required=True)
    parser.add_argument("--judge", help="model folder, for in-process")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--server", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.update(QUIET)
    rows, base = begin(options.data, options.rows), options.server.rstrip("/")
    told: dict[str, Any] = {"benchmark": "throughput", "tool": options.tool, "rows": len(rows), "metrics": len(METRICS)}
    if options.tool == "in-process":
        values, more = with_gpueval(rows, options.judge, options.embedder, {})
        told |= {"judge": Path(options.judge).name, **more}
    else:
        model = json.load(urllib.request.urlopen(f"{base}/models", timeout=10))["data"][0]["id"]
        before, began = counted(base), time.perf_counter()
        if options.tool == "gpueval":
            values, _ = with_gpueval(rows, base, options.embedder, {"model": model})
        else:
            values = PEERS[options.tool](rows, base, model, options.embedder)
        seconds, after = time.perf_counter() - began, counted(base)
        told |= {"judge": model, "seconds": round(seconds, 1)}
        told |= {name: int(after[name] - before[name]) for name in after}
    whole = [line for line in values if all(value is not None for value in line)]
    told["samples_per_s"] = round(len(rows) / told["seconds"], 3)
    told["rows_with_a_lost_cell"] = len(rows) - len(whole)
    emit(told, options.out)
    os._exit(0)  # threads of rows that ran out of time would hold the exit


if __name__ == "__main__":
    main()
