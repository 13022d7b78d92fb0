r"""Faithfulness by gpueval, Ragas, DeepEval and TruLens on the same rows, judge and server.

    gpueval serve JUDGE --port 8000                       (or any vLLM server)
    python benchmarks/peers.py DATA/begin_wow/begin_dev_wow.tsv --rows 64 --tool gpueval|ragas|deepeval|trulens

Run it with the Python of an environment that holds the tool: they do not install beside each other (ragas 0.4.3 needs
langchain-community below 0.4; trulens-providers-openai 2.16 needs openai below 2). Every tool works as documented,
16 rows at a time, 300 s for a row, without telemetry. Prints one JSON line: samples per second, tokens as the
server counted them, rows without a score, area under the ROC curve of the rest, and with lost rows as 0.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AT_ONCE = 16
ROW_S = 300.0
REPLY_TOKENS = 1024
QUIET = {
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "DEEPEVAL_PER_ATTEMPT_TIMEOUT_SECONDS_OVERRIDE": str(ROW_S),
    "DEEPEVAL_PER_TASK_TIMEOUT_SECONDS_OVERRIDE": str(ROW_S),
    "HF_HUB_OFFLINE": "1",
    "OPENAI_API_KEY": "none",
}
Rows = list[dict[str, Any]]
Scores = list[float | None]


def samples_of(rows: Rows) -> Rows:
    """The rows as gpueval takes them."""
    return [{"id": str(i), **{k: row[k] for k in ("question", "answer", "contexts")}} for i, row in enumerate(rows)]


def with_gpueval(rows: Rows, base: str, model: str) -> Scores:
    """As ``gpueval run --judge URL --metrics faithfulness``: the answer's weakest claim; no claim is 0."""
    import gpueval

    with tempfile.TemporaryDirectory() as folder:
        options = {"concurrency": AT_ONCE * 2, "model": model}
        result = gpueval.evaluate(
            samples_of(rows), judge=base, metrics=["faithfulness"], out=folder, engine_options=options
        )
        cells = [line["scores"]["faithfulness"] for line in result.cells()]
    return [0.0 if cell["state"] == "no_claims" else cell.get("p_grounded") for cell in cells]


def with_ragas(rows: Rows, base: str, model: str) -> Scores:
    """Ragas' Faithfulness."""
    from ragas.metrics import Faithfulness

    return [line[0] for line in ragas_table(rows, base, model, lambda llm: [Faithfulness(llm=llm)])]


def ragas_table(rows: Rows, base: str, model: str, metrics_of: Callable[[Any], list[Any]]) -> list[Scores]:
    """Score every row by Ragas metrics through its instructor client; a cell that fails is NaN there, None here."""
    from openai import AsyncOpenAI
    from ragas import EvaluationDataset, SingleTurnSample, evaluate
    from ragas.llms import llm_factory
    from ragas.run_config import RunConfig

    client = AsyncOpenAI(base_url=base, api_key="none", timeout=ROW_S)
    metrics = metrics_of(llm_factory(model, provider="openai", client=client, max_tokens=REPLY_TOKENS))
    data = EvaluationDataset(
        samples=[
            SingleTurnSample(user_input=row["question"], response=row["answer"], retrieved_contexts=row["contexts"])
            for row in rows
        ]
    )
    found = evaluate(
        data,
        metrics=metrics,
        run_config=RunConfig(max_workers=AT_ONCE, timeout=ROW_S),
        raise_exceptions=False,
        show_progress=False,
    )
    columns = [[None if v is None or math.isnan(v) else float(v) for v in found[metric.name]] for metric in metrics]
    return [list(line) for line in zip(*columns, strict=True)]


def with_deepeval(rows: Rows, base: str, model: str) -> Scores:
    """DeepEval's FaithfulnessMetric."""
    from deepeval.metrics import FaithfulnessMetric

    return [line[0] for line in deepeval_table(rows, base, model, [FaithfulnessMetric])]


def deepeval_table(rows: Rows, base: str, model: str, kinds: Sequence[Callable[..., Any]]) -> list[Scores]:
    """Score every row by DeepEval metrics without reasons (one call less); one metric object per cell, as they keep
    state. The answer stands for the expected output, which some of them want.
    """
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase

    judge = LocalModel(
        model=model, base_url=base, api_key="none", temperature=0.0, generation_kwargs={"max_tokens": REPLY_TOKENS}
    )

    async def every() -> list[Scores]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(row: dict[str, Any], kind: Callable[..., Any]) -> float | None:
            async with gate:
                metric = kind(model=judge, include_reason=False, async_mode=True)
                case = LLMTestCase(
                    input=row["question"],
                    actual_output=row["answer"],
                    expected_output=row["answer"],
                    retrieval_context=row["contexts"],
                )
                try:
                    return await asyncio.wait_for(metric.a_measure(case, _show_indicator=False), ROW_S)
                except Exception:  # whatever goes wrong, the cell is lost
                    return None

        cells = await asyncio.gather(*(one(row, kind) for row in rows for kind in kinds))
        return [list(cells[i : i + len(kinds)]) for i in range(0, len(cells), len(kinds))]

    return asyncio.run(every())


def with_trulens(rows: Rows, base: str, model: str) -> Scores:
    """TruLens' groundedness; its download of a sentence splitter per row is left out, and sentences end at marks."""
    import re

    import trulens.feedback.llm_provider as provider
    from trulens.providers.openai import OpenAI

    provider.nltk.download = lambda *_, **__: True
    provider.sent_tokenize = lambda text, **_: [part for part in re.split(r"(?<=[.!?])\s+", text) if part]
    judge = OpenAI(model_engine=model, base_url=base, api_key="none", timeout=ROW_S, max_retries=0, rpm=1_000_000)
    judge._set_capabilities({"responses_api": False, "structured_outputs": False, "temperature": True})

    def one(row: dict[str, Any]) -> float | None:
        found: list[float] = []

        def ask() -> None:
            source = "\n\n".join(row["contexts"])
            found.append(float(judge.groundedness_measure_with_cot_reasons(source=source, statement=row["answer"])[0]))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(ROW_S)
        return found[0] if found and found[0] >= 0 else None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, rows))


TOOLS: dict[str, Callable[[Rows, str, str], Scores]] = {
    "gpueval": with_gpueval,
    "ragas": with_ragas,
    "deepeval": with_deepeval,
    "trulens": with_trulens,
}


def begin(path: Path, n: int) -> Rows:
    """The first rows of BEGIN (Dziri et al. 2022)."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:n]
    return [
        {
            "question": line["message"],
            "answer": line["response"],
            "contexts": [line["knowledge"]],
            "label": line["begin_label"] == "Fully attributable",
        }
        for line in lines
    ]


def counted(base: str) -> dict[str, float]:
    """Tokens and requests as vLLM's server counts them."""
    names = {"vllm:prompt_tokens_total": "prompt_tokens", "vllm:generation_tokens_total": "generated_tokens"}
    names["vllm:request_success_total"] = "requests"
    found = dict.fromkeys(names.values(), 0.0)
    text = urllib.request.urlopen(base.removesuffix("/v1") + "/metrics", timeout=10).read().decode()
    for line in text.splitlines():
        key = names.get(line.split("{")[0].split(" ")[0])
        if key:
            found[key] += float(line.rsplit(" ", 1)[1])
    return found


def auc(scores: list[float], labels: list[bool]) -> float | None:
    """Area under the ROC curve, ties counted half."""
    right = [s for s, label in zip(scores, labels, strict=True) if label]
    wrong = [s for s, label in zip(scores, labels, strict=True) if not label]
    if not right or not wrong:
        return None
    return sum((a > b) + (a == b) / 2 for a in right for b in wrong) / (len(right) * len(wrong))


def main() -> None:
    """Run one tool and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tool", choices=TOOLS, required=True)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--server", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.update(QUIET)
    rows, base = begin(options.data, options.rows), options.server.rstrip("/")
    model = json.load(urllib.request.urlopen(f"{base}/models", timeout=10))["data"][0]["id"]
    before, began = counted(base), time.perf_counter()
    scores = TOOLS[options.tool](rows, base, model)
    seconds, after = time.perf_counter() - began, counted(base)
    labels = [row["label"] for row in rows]
    kept = [(s, label) for s, label in zip(scores, labels, strict=True) if s is not None]
    told = {
        "benchmark": "peers",
        "tool": options.tool,
        "judge": model,
        "rows": len(rows),
        "lost": len(rows) - len(kept),
        "seconds": round(seconds, 1),
        "samples_per_s": round(len(rows) / seconds, 3),
        **{name: int(after[name] - before[name]) for name in after},
        "auc": auc([s for s, _ in kept], [label for _, label in kept]),
        "auc_lost_as_0": auc([0.0 if s is None else s for s in scores], labels),
    }
    print(json.dumps(told), flush=True)
    if options.out:
        with options.out.open("a") as file:
            file.write(json.dumps(told) + "\n")
    os._exit(0)  # threads of rows that ran out of time would hold the exit


if __name__ == "__main__":
    main()
