"""The three operations of gpueval_kernels against what one would otherwise call, in one process on the same arrays.

    python benchmarks/kernel_speed.py                 the NumPy definitions on this processor
    python benchmarks/kernel_speed.py --device cuda   the Triton kernels, against their definitions too

Rivals: torch (a blocked product and topk; a padded batched product; randint and gather), FAISS (flat, filled before the
clock starts) and SciPy's bootstrap, each where installed. The second of two calls of ours must give the same bits. Each
way runs once to warm up and then three times; the fastest counts. `difference` says how far ours and the rival are
apart: the share of queries with other documents, or the largest difference of a value.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from result_rows import emit

from gpueval_kernels import bootstrap, cosine_topk, greedy_match

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One operation on one set of arrays.

    Attributes:
        operation: Its name.
        size: What it was run on, in words.
        ours: Call of ours; returns an array.
        implementation: What ran.
        rivals: Calls that return an array to set beside ours.
        difference: Of ours and a rival's.
    """

    operation: str
    size: str
    ours: Call
    implementation: str
    rivals: dict[str, Call]
    difference: Callable[[Any, Any], float]


def largest(a: Any, b: Any) -> float:
    """Largest difference of two arrays."""
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())


def others(a: Any, b: Any) -> float:
    """Share of queries with another set of documents."""
    return float((np.sort(a, axis=1) != np.sort(b, axis=1)).any(axis=1).mean())


def searches(device: str) -> Iterator[Case]:
    """Nearest vectors, in clusters as embeddings have them."""
    sizes = [(179, 20_000, 384, 100, torch.float32), (1000, 100_000, 384, 10, torch.float32)]
    if device == "cuda":
        sizes = [
            (1, 1_000_000, 384, 10, torch.float16), (10, 10_000_000, 64, 10, torch.float16),
            (1000, 1_000_000, 384, 10, torch.float16),
            (1000, 1_000_000, 384, 100, torch.float32), (1000, 1_000_000, 1024, 100, torch.bfloat16),
        ]  # fmt: skip
    for n, m, d, k, dtype in sizes:
        torch.manual_seed(0)
        centres = torch.randn(1000, d, device=device)
        documents, queries = (
            torch.nn.functional.normalize(
                centres[torch.randint(0, 1000, (rows,), device=device)] + 0.8 * torch.randn(rows, d, device=device)
            ).to(dtype)
            for rows in (m, n)
        )
        given = (queries, documents) if device == "cuda" else (queries.numpy(), documents.numpy())
        rivals: dict[str, Call] = {"torch": lambda q=queries, t=documents, k=k: torch_search(q, t, k)}
        if device == "cuda":
            rivals["reference"] = lambda given=given, k=k: cosine_topk(*given, k, implementation="reference").ids
        if find_spec("faiss"):
            rivals["faiss flat"] = faiss_search(queries.float().cpu().numpy(), documents.float().cpu().numpy(), k)
        yield Case(
            "cosine_topk", f"{n:,} x {m:,}, d {d}, k {k}, {str(dtype)[6:]}",
            lambda given=given, k=k: cosine_topk(*given, k).ids,
            cosine_topk(*given, k).implementation, rivals, others,
        )  # fmt: skip


def torch_search(queries: torch.Tensor, documents: torch.Tensor, k: int) -> Any:
    """Blocks of documents, the best of each, and the best of those."""
    unit = torch.nn.functional.normalize(queries, dim=1)
    scores, ids = [], []
    for start in range(0, len(documents), 65_536):
        block = torch.nn.functional.normalize(documents[start : start + 65_536], dim=1)
        best = (unit @ block.T).topk(min(k, len(block)), dim=1)
        scores.append(best.values)
        ids.append(best.indices + start)
    best = torch.cat(scores, 1).topk(k, dim=1).indices
    return torch.cat(ids, 1).gather(1, best).cpu().numpy()


def faiss_search(queries: Any, documents: Any, k: int) -> Call:
    """FAISS's exact index, on the GPU where it sees one."""
    import faiss

    index = faiss.IndexFlatIP(documents.shape[1])
    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus():
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    index.add(documents)
    return lambda: index.search(queries, k)[1]


def matches(device: str) -> Iterator[Case]:
    """Samples of 8 claims with 8 to 40 tokens against 10 chunks with 50 to 250, every claim with every chunk."""
    sizes = [(20, 384, torch.float32)]
    if device == "cuda":
        sizes = [(430, 384, torch.float16), (430, 1024, torch.bfloat16), (430, 384, torch.float32)]
    for samples, d, dtype in sizes:
        draw = np.random.default_rng(0)
        lengths = np.concatenate([draw.integers(8, 41, (samples, 8)), draw.integers(50, 251, (samples, 10))], 1).ravel()
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        first = np.arange(samples) * 18
        claims, chunks = first[:, None] + np.arange(8), first[:, None] + np.arange(8, 18)
        pairs = np.stack([np.repeat(claims, 10, 1).ravel(), np.tile(chunks, 8).ravel()], 1)
        torch.manual_seed(0)
        tokens = torch.randn(int(offsets[-1]), d, device=device).to(dtype)
        given = tokens if device == "cuda" else tokens.numpy()
        rivals: dict[str, Call] = {"torch padded": lambda t=tokens, o=offsets, p=pairs: torch_match(t, o, p)}
        if device == "cuda":
            rivals["reference"] = lambda t=tokens, o=offsets, p=pairs: (
                greedy_match(t, o, p, implementation="reference").f1
            )
        yield Case(
            "greedy_match", f"{len(pairs):,} pairs, {len(tokens):,} tokens, d {d}, {str(dtype)[6:]}",
            lambda t=given, o=offsets, p=pairs: greedy_match(t, o, p).f1,
            greedy_match(given, offsets, pairs[:1]).implementation, rivals, largest,
        )  # fmt: skip


def torch_match(tokens: torch.Tensor, offsets: Any, pairs: Any) -> Any:
    """As the bert-score package does: batches of 64 pairs, padded to the longest, every table of cosines written."""
    unit = torch.nn.functional.normalize(tokens, dim=1)
    found = []
    for start in range(0, len(pairs), 64):
        padded, masks = [], []
        for side in pairs[start : start + 64].T:
            texts = [unit[offsets[text] : offsets[text + 1]] for text in side]
            padded.append(torch.nn.utils.rnn.pad_sequence(texts, batch_first=True))
            sizes = torch.tensor([len(text) for text in texts], device=tokens.device)
            masks.append(torch.arange(padded[-1].shape[1], device=tokens.device)[None, :] < sizes[:, None])
        cosines = torch.bmm(padded[0], padded[1].transpose(1, 2))
        cosines = cosines.masked_fill(~(masks[0][:, :, None] & masks[1][:, None, :]), -2.0)
        p, r = (
            (cosines.max(axis).values.float() * mask).sum(1) / mask.sum(1)
            for axis, mask in ((2, masks[0]), (1, masks[1]))
        )
        found.append(2 * p * r / (p + r))
    return torch.cat(found).cpu().numpy()


def resampled(device: str) -> Iterator[Case]:
    """2,000 resamples of 16 columns that share their draws; both ends of every 95 % interval."""
    for n in (1000, 5000, 100_000) if device == "cuda" else (430, 5000):
        values = np.random.default_rng(0).beta(5, 2, (n, 16))
        tensor = torch.from_numpy(values).to(device)
        given = tensor if device == "cuda" else values
        rivals: dict[str, Call] = {"torch": lambda t=tensor: ends(torch_bootstrap(t))}
        if device == "cuda":
            rivals["reference"] = lambda v=values: ends(bootstrap(v, implementation="reference").estimates)
        elif find_spec("scipy"):
            rivals["scipy"] = lambda v=values: scipy_bootstrap(v)
        yield Case(
            "bootstrap", f"{n:,} x 16 columns, 2,000 resamples", lambda g=given: ends(bootstrap(g).estimates),
            bootstrap(given, resamples=1).implementation, rivals, largest,
        )  # fmt: skip


def ends(estimates: Any) -> Any:
    """Both ends of the percentile interval of each column."""
    return np.quantile(estimates, [0.025, 0.975], axis=0)


def torch_bootstrap(values: torch.Tensor) -> Any:
    """Draw with randint, gather, average; in blocks that fit."""
    torch.manual_seed(0)
    block = max(1, (1 << 24) // len(values))
    found = []
    for start in range(0, 2000, block):
        drawn = torch.randint(0, len(values), (min(block, 2000 - start), len(values)), device=values.device)
        found.append(values[drawn].mean(dim=1))
    return torch.cat(found).cpu().numpy()


def scipy_bootstrap(values: Any) -> Any:
    """SciPy's percentile interval."""
    from scipy.stats import bootstrap as resample

    found = resample((values,), np.mean, n_resamples=2000, axis=0, method="percentile", batch=50, rng=0)
    return np.stack([found.confidence_interval.low, found.confidence_interval.high])


def fastest(call: Call, device: str) -> tuple[float, Any]:
    """Milliseconds of the fastest of three calls after one to warm up, and the last result."""
    call()
    times = []
    for _ in range(3):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        found = call()  # every call returns an array of NumPy's, so the device is done
        times.append(time.perf_counter() - began)
    return 1e3 * min(times), found


def main() -> None:
    """Measure every case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    rows = []
    for cases in (searches, matches, resampled):
        for case in cases(options.device):
            ours_ms, ours = fastest(case.ours, options.device)
            if not np.array_equal(ours, case.ours()):
                raise SystemExit(f"{case.operation} {case.size}: two calls gave different results")
            for rival, call in case.rivals.items():
                theirs_ms, theirs = fastest(call, options.device)
                row = {
                    "benchmark": "kernels", "device": name, "operation": case.operation, "size": case.size,
                    "implementation": case.implementation, "ours_ms": round(ours_ms, 2), "rival": rival,
                    "rival_ms": round(theirs_ms, 2), "times_ours": round(theirs_ms / ours_ms, 2),
                    "difference": float(f"{case.difference(ours, theirs):.2g}"),
                }  # fmt: skip
                rows.append(row)
                emit(row, options.out)
    line = "{:<12} {:<46} {:<10} {:>9}  {:<13} {:>9} {:>7} {:>11}"
    print(f"\n{name}\n" + line.format("operation", "size", "ran", "ms", "rival", "ms", "ratio", "difference"))
    for row in rows:
        print(line.format(*list(row.values())[2:]))


if __name__ == "__main__":
    main()
