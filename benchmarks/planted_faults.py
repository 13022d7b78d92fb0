r"""Faults planted one at a time in a small real pipeline: does diagnosis or ablation name them, and does it cry wolf?

    python benchmarks/planted_faults.py JUDGE --embedder FOLDER --work FOLDER [--products 24] [--questions 32] \
        [--repetitions 20] [--out benchmarks/results/planted_faults.jsonl]

The pipeline is :mod:`faulty_rag`; the judge's model also writes the answers. Every pipeline answers two questions per
product and is judged once; a repetition draws some of the questions (and, of a noisy retriever, one of two
disturbances), so repetitions of one fault share judgments and are not independent runs of the judge. Each is asked:

``alone``    which cause ``gpueval diagnose RUN`` names first, in the run alone
``against``  which change ``gpueval diagnose RUN --against HEALTHY`` finds behind most of what moved; ``rose``: which
             cause became more frequent
``ablate``   which part ``gpueval ablate`` finds to lose answers

Prints a row per fault with the counts of each answer. A healthy pipeline should be named by none.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from faulty_rag import FAULTS, NOISES, PLAIN, build, noise_of, products, retrieved
from result_rows import emit

import gpueval
from gpueval.ablation.ablate import ablate
from gpueval.diagnosis.changes import changes
from gpueval.diagnosis.diagnose import diagnose
from gpueval.engines import load_judge, start_embedder
from gpueval.engines.text_encoder import TextEncoder
from gpueval.records import Sample
from gpueval.run_folder import read_samples

METRICS = ("answer_correctness", "faithfulness", "context_recall")
SEED = 7


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge", help="Model folder: judge and generator.")
    parser.add_argument("--embedder", type=Path, required=True, help="Sentence-transformers folder.")
    parser.add_argument("--work", type=Path, required=True, help="Folder of runs; what it holds is not judged again.")
    parser.add_argument("--products", type=int, default=24, help="Pages in the corpus.")
    parser.add_argument("--questions", type=int, default=32, help="Questions of a repetition.")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    judge = load_judge(given.judge, log=given.work / "engine.log")
    embedder, encoder = start_embedder(str(given.embedder)), TextEncoder(given.embedder)
    models = {"judge": judge, "rag": judge, "embedder": embedder}
    made = products(given.products, SEED)
    began = time.perf_counter()
    pools: dict[tuple[str, int], list[Sample]] = {}
    prompts = {}
    for fault in FAULTS:
        pipeline = build(fault, made, encoder, SEED)
        prompts[fault] = pipeline.prompt
        corpus = _corpus(given.work, fault)
        corpus.write_bytes(
            b"".join(msgspec.json.encode({"id": k, "text": v}) + b"\n" for k, v in pipeline.documents.items())
        )
        for noise in range(NOISES if fault == "noisy" else 1):
            samples = retrieved(pipeline, made, encoder, SEED, noise)
            folder = given.work / f"pool-{fault}-{noise}"
            if not folder.exists():  # the same questions of the same texts were answered and judged there
                _seed(given.work / "pool-none-0", folder)
            whole = ablate(samples, out=folder, corpus=corpus, prompt=pipeline.prompt, metrics=METRICS, **models)
            pools[fault, noise] = samples
            shares = {str(name): round(one.share, 3) for name, one in whole.whole.right.items()}
            print(f"pool {fault} {noise}: {shares} {' '.join(whole.whole.conclusions)}", flush=True)
    judged_s = time.perf_counter() - began
    for fault in FAULTS:
        counts: dict[str, Counter[str]] = {name: Counter() for name in ("alone", "against", "rose", "ablate")}
        named = Counter[str]()
        for repetition in range(given.repetitions):
            found = _repetition(given, fault, repetition, pools, prompts[fault], models)
            named.update(found.pop("named"))
            for name, one in found.items():
                counts[name][one] += 1
        row = {name: dict(one.most_common()) for name, one in counts.items()}
        kept = {"products": given.products, "questions": given.questions, "repetitions": given.repetitions}
        emit(
            {"benchmark": "planted_faults", "judge": Path(given.judge).name, "planted": fault}
            | row
            | {"any_named": dict(named.most_common())}
            | kept
            | {"answering_and_judging_s": round(judged_s)},
            given.out,
        )


def _repetition(
    given: argparse.Namespace,
    fault: str,
    repetition: int,
    pools: dict[tuple[str, int], list[Sample]],
    prompt: str,
    models: dict[str, Any],
) -> dict[str, Any]:
    """Ask a repetition's questions of a faulty and of the healthy pipeline, and look for what is wrong."""
    noise = noise_of(repetition) if fault == "noisy" else 0
    chosen = {sample.id for sample in random.Random(repetition).sample(pools[fault, noise], given.questions)}

    def drawn(name: str, number: int, system: str) -> tuple[Any, Path]:
        pool, folder = given.work / f"pool-{name}-{number}", given.work / f"some-{name}"
        for target in (folder, given.work / f"run-{name}"):
            shutil.rmtree(target, ignore_errors=True)
            _seed(pool, target)
        some = [sample for sample in pools[name, number] if sample.id in chosen]
        ablation = ablate(some, out=folder, corpus=_corpus(given.work, name), prompt=system, metrics=METRICS, **models)
        full = [
            msgspec.structs.replace(sample, id=sample.extra["ablation_id"], group=None, extra={})
            for sample in read_samples(folder / "samples.jsonl")
            if sample.group == "full"
        ]
        run = given.work / f"run-{name}"
        gpueval.evaluate(full, judge=models["judge"], embedder=models["embedder"], metrics=METRICS, out=run)
        return ablation, run

    _, healthy = drawn("none", 0, PLAIN)
    ablation, run = drawn(fault, noise, prompt)
    if fault == "none":  # another draw of the same pipeline: nothing differs but the questions' number
        healthy = run
    alone = diagnose(run)
    since = changes(healthy, run)
    return {
        "alone": next((one.cause for one in alone.main()), "none"),
        "named": [one.cause for one in alone.findings if one.named],
        "against": _behind(since),
        "rose": next(iter(since.risen()), "none"),
        "ablate": ablation.whole.conclusions[0] if ablation.whole.conclusions else "none",
    }


def _seed(pool: Path, folder: Path) -> None:
    """Make a run folder that holds the replies of another one."""
    folder.mkdir()
    for file in ("judgments.sqlite", "answers.sqlite"):
        if (pool / file).exists():
            shutil.copy(pool / file, folder / file)


def _behind(since: Any) -> str:
    """The change behind most of the metric that moved most; where none moved, the most frequent change."""
    moved = since.moved()
    if moved:
        name = max(moved, key=lambda metric: abs(moved[metric].difference or 0.0))
        return str(max(since.parts[name], key=lambda kind: abs(since.parts[name][kind].difference)))
    return "no metric moved, mostly " + str(max(since.counts, key=lambda kind: since.counts[kind]))


def _corpus(work: Path, fault: str) -> Path:
    return work / f"corpus-{fault}.jsonl"


if __name__ == "__main__":
    main()
