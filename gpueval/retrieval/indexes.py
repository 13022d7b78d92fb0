"""FAISS indexes: which there are, how they are built and kept, and how they are searched.

FAISS comes as faiss-cpu, faiss-gpu or faiss-gpu-cuvs, all under the same import name; what the installed one can do is
asked of it. Only one of them may be installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpueval.engines.text_encoder import Vectors
from gpueval.errors import PrerequisiteError, UsageError
from gpueval.lazy import require
from gpueval.retrieval.search import Found
from gpueval.retrieval.vectors import Rows, VectorStore

KINDS = ("exact", "flat", "ivf", "hnsw", "ivfpq", "gpu_flat", "gpu_ivf", "cagra")
_ON_GPU = ("gpu_flat", "gpu_ivf", "cagra")

_TRAIN_PER_LIST = 64
_LISTS_LOOKED_INTO = (1, 4, 16, 64)
_CANDIDATES_PER_RESULT = (1, 2, 8)
_LEAST_FOR_QUANTISATION = 10_000
_LEAST_FOR_CAGRA = 1_000
"""Fewer make a graph not worth its name; with a handful FAISS is known to hang (its issue 4260)."""

_CAGRA_DEGREE = 64
_CAGRA_STEP = 32
"""CAGRA's candidate lists come in multiples of this."""


@dataclass(frozen=True, slots=True)
class Built:
    """A FAISS index and what it cost.

    Attributes:
        index: The index.
        seconds: Time to train and fill it; 0 when it was read from disk.
        size_bytes: Its size on disk; of CAGRA, which FAISS does not write as such, vectors and graph.
    """

    index: Any
    seconds: float
    size_bytes: int


def check(kinds: Iterable[str], documents: int | None = None) -> None:
    """Say what cannot be built before anything is.

    Args:
        kinds: Kinds asked for.
        documents: Number of documents; None where it is not known yet.

    Raises:
        PrerequisiteError: FAISS is not installed, or has no GPU, or no CAGRA.
        UsageError: An unknown kind, or too few documents for one.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"Unknown index '{kind}'.", f"Known: {', '.join(KINDS)}")
        if kind == "exact":
            continue
        faiss = require("faiss", "retrieve")
        if kind in _ON_GPU:
            lacking = _lacking(faiss, kind)
            if lacking:
                raise PrerequisiteError(
                    f"Index '{kind}' cannot be built: {lacking}", "Choose exact, flat, ivf or hnsw."
                )
        least = {"ivfpq": _LEAST_FOR_QUANTISATION, "cagra": _LEAST_FOR_CAGRA}.get(kind, 0)
        if documents is not None and documents < least:
            raise UsageError(
                f"{kind} needs {least:,} documents to build on; there are {documents:,}.", "Use hnsw, ivf or exact."
            )


def _lacking(faiss: Any, kind: str) -> str:
    """Say what this FAISS lacks for an index on the GPU; empty where it has all."""
    if not hasattr(faiss, "StandardGpuResources"):
        return "this FAISS is faiss-cpu; replace it by faiss-gpu or faiss-gpu-cuvs (never both)."
    if kind == "cagra" and not hasattr(faiss, "GpuIndexCagra"):
        return "this FAISS has no CAGRA; replace it by faiss-gpu-cuvs."
    return "" if faiss.get_num_gpus() else "FAISS sees no GPU."


def build(kind: str, store: VectorStore, rows: Rows, dimensions: int, file: Path) -> Built:
    """Build a FAISS index over documents, or read it where it was built before.

    Args:
        kind: One of :data:`KINDS` but ``exact``; see :func:`check`.
        store: Vectors.
        rows: Rows of the documents.
        dimensions: Length of a vector.
        file: Where it is kept; its name must tell documents and kind apart.
    """
    faiss = require("faiss", "retrieve")
    if kind == "cagra":
        return _built_cagra(faiss, store, rows, dimensions)
    if file.is_file():
        try:
            return Built(_placed(faiss, kind, faiss.read_index(str(file))), 0.0, file.stat().st_size)
        except RuntimeError:  # cut off or of another FAISS: it is built again
            file.unlink()
    began = time.perf_counter()
    empty = faiss.index_factory(dimensions, _factory(kind, len(rows), dimensions), faiss.METRIC_INNER_PRODUCT)
    index = _placed(faiss, kind, empty)
    if not index.is_trained:
        wanted = min(len(rows), max(10_000, _TRAIN_PER_LIST * _lists(len(rows))))
        sample = np.random.Generator(np.random.Philox(0)).choice(len(rows), wanted, replace=False)
        index.train(store.take(rows[np.sort(sample)]))
    for block in store.blocks(rows):
        index.add(block)
    seconds = time.perf_counter() - began
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    faiss.write_index(faiss.index_gpu_to_cpu(index) if kind in _ON_GPU else index, str(partial))
    partial.replace(file)
    return Built(index, seconds, file.stat().st_size)


def _placed(faiss: Any, kind: str, index: Any) -> Any:
    """Move an index to the GPU where its kind asks for that."""
    if kind not in _ON_GPU:
        return index
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)  # the index keeps the resources alive


def _built_cagra(faiss: Any, store: VectorStore, rows: Rows, dimensions: int) -> Built:
    """Build a CAGRA graph. It is not kept: FAISS writes it only as an HNSW index, and one read back may point into
    memory that is gone (its issue 4742).
    """
    vectors = store.take(rows)
    config = faiss.GpuIndexCagraConfig()
    config.graph_degree = _CAGRA_DEGREE
    began = time.perf_counter()
    index = faiss.GpuIndexCagra(faiss.StandardGpuResources(), dimensions, faiss.METRIC_INNER_PRODUCT, config)
    index.train(vectors)
    return Built(index, time.perf_counter() - began, vectors.nbytes + len(rows) * _CAGRA_DEGREE * 4)


def _lists(documents: int) -> int:
    """Lists of an inverted file: about four times the square root of the documents, a power of two."""
    return int(2 ** max(2, round(np.log2(4 * documents**0.5))))


def _factory(kind: str, documents: int, dimensions: int) -> str:
    """FAISS' name of an index."""
    if kind.endswith("flat"):
        return "Flat"
    if kind == "hnsw":
        return "HNSW32,Flat"
    lists = _lists(documents)
    if documents < 40 * lists:
        lists = max(1, documents // 40)
    if kind.endswith("ivf"):
        return f"IVF{lists},Flat"
    parts = next(parts for parts in range(max(1, dimensions // 8), 0, -1) if dimensions % parts == 0)
    return f"IVF{lists},PQ{parts}"


def settings(kind: str, index: Any, k: int) -> Sequence[int | None]:
    """Search settings of the trade-off table: lists looked into, or candidates kept; None for an index without."""
    if kind == "hnsw":
        return [share * k for share in _CANDIDATES_PER_RESULT]
    if kind == "cagra":
        least = -(-k // _CAGRA_STEP) * _CAGRA_STEP
        return [share * least for share in _CANDIDATES_PER_RESULT]
    if "ivf" in kind:
        return [lists for lists in _LISTS_LOOKED_INTO if lists <= index.nlist]
    return (None,)


def search(kind: str, built: Built, queries: Vectors, k: int, setting: int | None) -> Found:
    """Search an index with one setting; a first query before the clock starts loads what is loaded once."""
    faiss = require("faiss", "retrieve")
    parameters = None
    if kind == "hnsw":
        parameters = faiss.SearchParametersHNSW(efSearch=setting)
    elif kind == "cagra":
        parameters = faiss.SearchParametersCagra(itopk_size=setting)
    elif setting is not None:
        parameters = faiss.SearchParametersIVF(nprobe=setting)
    built.index.search(queries[:1], k, params=parameters)
    began = time.perf_counter()
    scores, documents = built.index.search(queries, k, params=parameters)
    return Found(documents.astype(np.int64), scores, time.perf_counter() - began)
