"""Texts to unit vectors with a sentence-transformers folder, in batches of about equally many tokens.

The library pads every text of a batch to its longest one. Here texts are sorted by length and a batch is closed when
its padded size reaches a token budget: short texts travel in large batches, long ones in small ones, and little is
padding. Pooling, prompts, normalisation and the length limit come from the model's own files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpueval.engines.quiet import output_to, stay_offline
from gpueval.errors import EngineError, UsageError
from gpueval.fingerprint import model_digest
from gpueval.lazy import require

Kind = Literal["query", "document"]
Vectors = NDArray[np.float32]

BLOCK_TEXTS = 8192
"""Texts that an encoder is given at a time: bounds the vectors in memory."""

_BATCH_TOKENS = 8192
_MOST_TEXTS = 512


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Vectors of the tokens of several texts, one text after the other.

    Attributes:
        vectors: (tokens, dimensions) torch tensor on the model's device, not normalised.
        offsets: (texts + 1,) where each text begins.
        special: (tokens,) marks tokens that the tokenizer added around the text.
    """

    vectors: Any
    offsets: NDArray[np.int64]
    special: NDArray[np.bool_]


class TextEncoder:
    """Encodes queries and documents.

    Attributes:
        dimensions: Length of a vector.
        fingerprint: Identifies model and dimensions.
        device: Where the model lies.
        version: Version of sentence-transformers.
        max_tokens: Longest text that the model reads whole.
        n_texts: Texts encoded so far.
        n_truncated: How many of them were longer.

    Args:
        folder: Local model folder.
        device: ``cpu``, ``cuda``, ``mps``, or None for the library's choice.
        dimensions: Keep the first dimensions only and normalise again (for models trained that way: Kusupati et al.,
            Matryoshka representation learning, 2022).
        log: File for the library's own output.

    Raises:
        PrerequisiteError: sentence-transformers is not installed.
        EngineError: The model cannot be loaded.
        UsageError: More dimensions than the model has.
    """

    def __init__(
        self, folder: Path, *, device: str | None = None, dimensions: int | None = None, log: Path | None = None
    ) -> None:
        stay_offline()
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        with output_to(log):
            library = require("sentence_transformers", "embed")
            try:
                self._model: Any = library.SentenceTransformer(str(folder), device=device, local_files_only=True)
            except Exception as error:  # each library below has its own errors for a bad file or device
                raise EngineError(f"sentence-transformers cannot load {folder}: {error}") from error
        ask = getattr(self._model, "get_embedding_dimension", None) or self._model.get_sentence_embedding_dimension
        whole = int(ask())
        if dimensions is not None and not 1 <= dimensions <= whole:
            raise UsageError(f"{folder.name} has {whole} dimensions; {dimensions} were asked.")
        self.dimensions = dimensions or whole
        self.device, self.version = str(self._model.device), str(library.__version__)
        self.max_tokens = int(self._model.max_seq_length or 1 << 20)
        self.block_texts = BLOCK_TEXTS
        self.n_texts = self.n_truncated = 0
        self._prompts: dict[str, str] = self._model.prompts or {}
        self.fingerprint = f"{model_digest(folder)}:{self.dimensions}"

    def prompt(self, kind: Kind) -> str:
        """The model's own prompt for a kind of text; empty where it has none."""
        names = ("query",) if kind == "query" else ("document", "passage", "corpus")
        return next((self._prompts[name] for name in names if self._prompts.get(name)), "")

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Encode texts.

        Args:
            texts: Texts.
            kind: Decides the model's prompt.

        Returns:
            (texts, dimensions) float32, each of length 1; a text that the model maps to zero stays zero.
        """
        prompt = self.prompt(kind)
        lengths = self._lengths([prompt + text for text in texts])
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for rows in batches(np.minimum(lengths, self.max_tokens)):
            vectors = self._model.encode(
                [texts[i] for i in rows],
                batch_size=len(rows),
                prompt=prompt or None,
                convert_to_numpy=True,
                normalize_embeddings=False,
                show_progress_bar=False,
            )
            found[rows] = np.asarray(vectors, np.float32)[:, : self.dimensions]
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        unit: Vectors = np.divide(found, norms, out=found, where=norms > 0)
        return unit

    def tokens(self, texts: Sequence[str]) -> TokenVectors:
        """Encode the tokens of texts: the last layer of the model, without a prompt.

        Raises:
            EngineError: The model does not give one vector per token.
        """
        torch = require("torch", "embed")
        if not texts:
            return TokenVectors(torch.zeros(0, self.dimensions), np.zeros(1, np.int64), np.zeros(0, bool))
        lengths = self._lengths(texts)
        found: list[Any] = [None] * len(texts)
        (around,) = self._model.tokenizer(["a"], return_special_tokens_mask=True)["special_tokens_mask"]
        before, after = around.index(0), around[::-1].index(0)
        for rows in batches(np.minimum(lengths, self.max_tokens)):
            some = self._model.encode(
                [texts[i] for i in rows],
                batch_size=len(rows),
                prompt="",
                output_value=None,  # everything the model made of a text: its tokens are those that it saw
                convert_to_numpy=False,
                show_progress_bar=False,
            )
            for row, made in zip(rows.tolist(), some, strict=True):
                if not {"token_embeddings", "attention_mask"} <= made.keys():
                    raise EngineError("The embedding model gives no vectors of tokens, so tokens cannot be matched.")
                found[row] = made["token_embeddings"][made["attention_mask"].bool()]
        offsets = np.concatenate([[0], np.cumsum([len(vectors) for vectors in found])])
        special = np.zeros(offsets[-1], bool)
        for begin, end in pairwise(offsets.tolist()):  # by place: an unknown word's token is special too, by its number
            special[begin : begin + before] = special[end - after : end] = True
        return TokenVectors(torch.cat(found), offsets, special)

    def _lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the texts and those that are too long, and return the tokens of each, special tokens included."""
        if not texts:
            return np.zeros(0, np.int64)
        ids = self._model.tokenizer(list(texts), add_special_tokens=True, truncation=False, verbose=False)["input_ids"]
        lengths = np.fromiter((len(one) for one in ids), np.int64, len(texts))
        self.n_texts += len(texts)
        self.n_truncated += int((lengths > self.max_tokens).sum())
        return lengths


def batches(lengths: NDArray[np.int64], budget: int = _BATCH_TOKENS) -> Iterator[NDArray[np.int64]]:
    """Yield rows in batches whose padded size stays within ``budget`` tokens, longest texts first.

    Args:
        lengths: (n,) tokens of each text.
        budget: Most tokens of a batch, padding included; a longer text travels alone.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        size = max(1, min(_MOST_TEXTS, budget // longest))
        yield order[start : start + size]
        start += size
