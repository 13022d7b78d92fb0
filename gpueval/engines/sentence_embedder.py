"""Similarity of two texts by a sentence-transformers model folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpueval.engines.quiet import output_to, stay_offline
from gpueval.errors import EngineError
from gpueval.fingerprint import model_digest
from gpueval.lazy import require
from gpueval.records import Completion, Request

_BLOCK_PAIRS = 8192
"""Pairs embedded at a time: bounds the vectors in memory."""


class SentenceEmbedder:
    """Embeds each distinct text once and answers similarity requests with cosines.

    Pooling, normalisation and length limit come from the model's own files. Both texts of a pair are embedded alike
    (the task is symmetric), with the model's query prompt where it has one.

    Args:
        folder: Local sentence-transformers model folder.
        device: ``cpu``, ``cuda``, ``mps``, or None for the library's choice.
        log: File for the library's own output; None leaves it on the terminal.

    Raises:
        PrerequisiteError: sentence-transformers is not installed.
        EngineError: The model cannot be loaded.
    """

    def __init__(self, folder: Path, *, device: str | None = None, log: Path | None = None) -> None:
        with output_to(log):
            self._load(folder, device)

    def _load(self, folder: Path, device: str | None) -> None:
        stay_offline()
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        library = require("sentence_transformers", "embed")
        try:
            self._model = library.SentenceTransformer(str(folder), device=device, local_files_only=True)
        except (OSError, ValueError) as error:
            raise EngineError(f"sentence-transformers cannot load {folder}: {error}") from error
        self._prompt = "query" if "query" in (self._model.prompts or {}) and self._model.prompts["query"] else None
        self._n_texts = self._n_truncated = 0
        self.fingerprint = f"embed:{model_digest(folder)}"
        self._facts = {
            "engine": "sentence-transformers",
            "engine_version": library.__version__,
            "model": folder.name,
            "fingerprint": self.fingerprint,
            "device": str(self._model.device),
            "max_seq_length": self._model.max_seq_length,
        }

    def facts(self) -> Mapping[str, Any]:
        """Model, versions, and how many texts were longer than the model reads."""
        return dict(self._facts) | {"n_texts": self._n_texts, "n_truncated": self._n_truncated}

    def close(self) -> None:
        """Let go of the model."""
        del self._model

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Answer similarity requests block by block."""
        for start in range(0, len(requests), _BLOCK_PAIRS):
            block = requests[start : start + _BLOCK_PAIRS]
            rows: dict[str, int] = {}
            for request in block:
                for text in request.parts:
                    rows.setdefault(text, len(rows))
            texts = list(rows)
            self._count(texts)
            vectors = self._model.encode(
                texts,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
                prompt_name=self._prompt,
            ).astype(np.float32)
            left = vectors[[rows[request.parts[0]] for request in block]]
            right = vectors[[rows[request.parts[1]] for request in block]]
            for request, cosine in zip(block, np.einsum("ij,ij->i", left, right), strict=True):
                yield Completion(request.key, value=float(cosine))

    def _count(self, texts: Sequence[str]) -> None:
        limit = self._model.max_seq_length
        self._n_texts += len(texts)
        long = [text for text in texts if len(text.encode()) > limit]
        if long:
            lengths = self._model.tokenizer(long, add_special_tokens=True, truncation=False, verbose=False)["input_ids"]
            self._n_truncated += sum(len(ids) > limit for ids in lengths)
