"""Similarity of two texts by a sentence-transformers model folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpueval.engines.text_encoder import TextEncoder
from gpueval.fingerprint import model_digest
from gpueval.records import Completion, Request
from gpueval_kernels import Matches, greedy_match

_BLOCK_PAIRS = 8192
"""Pairs embedded at a time: bounds the vectors in memory."""

_BLOCK_CLAIMS = 64
"""Claims whose evidence is looked for at a time: those of a sample share its sentences."""

_BLOCK_TOKEN_PAIRS = 256
"""Pairs whose tokens are matched at a time; a token takes a vector of its own."""


class SentenceEmbedder:
    """Embeds each distinct text of a block once and answers similarity requests.

    Both texts of a pair are embedded alike (the task is symmetric), with the model's query prompt where it has one; for
    token matching without a prompt.

    ``similar``
        ``value`` is the cosine of the two texts.
    ``tokens``
        ``value`` is BERTScore's F1 over the token vectors of the model's last layer and ``labels`` are its precision
        and recall, without baseline rescaling. Special tokens can be matched and do not count, as in the bert-score
        package.
    ``evidence``
        The first text against each of the others: ``labels`` are the precisions alone, how much of the first text's
        tokens each other one holds; ``value`` is their maximum.

    Args:
        folder: Local sentence-transformers model folder.
        device: ``cpu``, ``cuda``, ``mps``, or None for the library's choice.
        log: File for the library's own output; None leaves it on the terminal.

    Raises:
        PrerequisiteError: sentence-transformers is not installed.
        EngineError: The model cannot be loaded.
    """

    def __init__(self, folder: Path, *, device: str | None = None, log: Path | None = None) -> None:
        self._encoder = TextEncoder(folder, device=device, log=log)
        self.fingerprint = f"embed:{model_digest(folder)}"
        self._facts = {
            "engine": "sentence-transformers",
            "engine_version": self._encoder.version,
            "model": folder.name,
            "fingerprint": self.fingerprint,
            "device": self._encoder.device,
            "max_seq_length": self._encoder.max_tokens,
        }

    def facts(self) -> Mapping[str, Any]:
        """Model, versions, and how many texts were longer than the model reads."""
        return dict(self._facts) | {"n_texts": self._encoder.n_texts, "n_truncated": self._encoder.n_truncated}

    def close(self) -> None:
        """Let go of the model."""
        del self._encoder

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Answer similarity requests block by block."""
        for kind, size, answer in (
            ("similar", _BLOCK_PAIRS, self._cosines),
            ("tokens", _BLOCK_TOKEN_PAIRS, self._token_matches),
            ("evidence", _BLOCK_CLAIMS, self._evidence),
        ):
            mine = [request for request in requests if request.ask.kind == kind]
            for start in range(0, len(mine), size):
                yield from answer(mine[start : start + size])

    def _cosines(self, requests: Sequence[Request]) -> Iterator[Completion]:
        texts, pairs = _distinct(requests)
        vectors = self._encoder.encode(texts, "query")
        cosines = np.einsum("ij,ij->i", vectors[pairs[:, 0]], vectors[pairs[:, 1]])
        for request, cosine in zip(requests, cosines.tolist(), strict=True):
            yield Completion(request.key, value=cosine)

    def _token_matches(self, requests: Sequence[Request]) -> Iterator[Completion]:
        found = self._matched(requests)
        sides = (found.precision.tolist(), found.recall.tolist(), found.f1.tolist())
        for request, precision, recall, f1 in zip(requests, *sides, strict=True):
            yield Completion(request.key, value=f1, labels=(precision, recall))

    def _evidence(self, requests: Sequence[Request]) -> Iterator[Completion]:
        found, start = self._matched(requests).precision.tolist(), 0
        for request in requests:
            shares = tuple(found[start : start + len(request.parts) - 1])
            start += len(shares)
            yield Completion(request.key, value=max(shares, default=0.0), labels=shares)

    def _matched(self, requests: Sequence[Request]) -> Matches:
        texts, pairs = _distinct(requests)
        tokens = self._encoder.tokens(texts)
        return greedy_match(tokens.vectors, tokens.offsets, pairs, weights=(~tokens.special).astype(np.float64))


def _distinct(requests: Sequence[Request]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct texts and the numbers of those that belong together, shape (pairs, 2): of every request its
    first text with each of the others.
    """
    numbers: dict[str, int] = {}
    pairs = [
        [numbers.setdefault(text, len(numbers)) for text in (request.parts[0], other)]
        for request in requests
        for other in request.parts[1:]
    ]
    return list(numbers), np.array(pairs, np.int64).reshape(-1, 2)
