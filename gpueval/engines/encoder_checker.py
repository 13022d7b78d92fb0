"""Claims checked by a small encoder from a local folder: the first, cheap tier before a judge, or alone.

Four kinds of folders are known, by what their makers publish as the way to ask them:

``pair``
    Sequence classification of (document, claim): natural language inference models, whose label "entailment" (or
    "supported", "consistent", "faithful", "grounded") counts, and models with one output, read through a sigmoid (HHEM
    1).
``minicheck``
    Two outputs, the second is "supported"; document and claim in one text, joined by the end token (Tang et al. 2024,
    MiniCheck's RoBERTa and DeBERTa).
``minicheck-t5``
    Sequence to sequence; "predict: " before the same text; the first reply token is "1" or "0" (MiniCheck's Flan-T5).
``factcg``
    Two outputs, the second is "supported"; document and claim in FactCG's question (Lei et al. 2025).

A document longer than the model reads goes in windows of whole sentences; p is the maximum over them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from gpueval.engines.quiet import output_to, stay_offline
from gpueval.engines.text_encoder import batches
from gpueval.engines.transformers_local import best_device
from gpueval.errors import EngineError, PrerequisiteError, UsageError
from gpueval.fingerprint import model_digest
from gpueval.lazy import require
from gpueval.records import Completion, Request, State

Format = Literal["pair", "minicheck", "minicheck-t5", "factcg"]

_SUPPORTED = frozenset({"entailment", "entailed", "supported", "consistent", "faithful", "grounded", "attributable"})
_FACTCG = (
    '{document}\n\nChoose your answer: based on the paragraph above can we conclude that "{claim}"?\n\n'
    "OPTIONS:\n- Yes\n- No\nI think the answer is "
)
_T5_WRONG, _T5_RIGHT = 3, 209
"""Reply tokens of MiniCheck's Flan-T5: the blank that begins "0", and "1"."""

_LONGEST_TOKENS = 2048
_ROOM_TOKENS = 8
"""Kept for special tokens and seams."""

_SMALLEST_WINDOW_TOKENS = 32
_BLOCK_REQUESTS = 512


class EncoderChecker:
    """Answers ``check`` requests, whose parts are the claim and the chunks of a passage: ``labels`` are p and 1 - p.

    Args:
        folder: Local model folder.
        form: How the model is asked; None tells it from the folder.
        device: ``cpu``, ``cuda``, ``mps``, or None for the best there is.
        sentences: Splits a text into sentences.
        log: File for the library's own output.

    Raises:
        PrerequisiteError: torch or transformers is not installed, or the folder needs code of its own.
        EngineError: The model cannot be loaded.
        UsageError: It cannot be told how the model is to be asked.
    """

    def __init__(
        self,
        folder: Path,
        *,
        sentences: Callable[[str], Sequence[str]],
        form: Format | None = None,
        device: str | None = None,
        log: Path | None = None,
    ) -> None:
        stay_offline()
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        with output_to(log):
            self._torch = torch = require("torch", "transformers")
            transformers = require("transformers", "transformers")
            try:
                config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            except (OSError, ValueError) as error:
                raise PrerequisiteError(
                    f"The checker {folder} cannot be loaded without running code from its folder or from elsewhere.",
                    "Choose a checker of a standard architecture; gpueval runs no code from model folders.",
                ) from error
            self.format = form or format_of(config, folder.name)
            kind = "AutoModelForSeq2SeqLM" if self.format == "minicheck-t5" else "AutoModelForSequenceClassification"
            try:
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
            except (OSError, ValueError) as error:
                raise EngineError(f"transformers cannot load {folder}: {error}") from error
        self._device = device or best_device(torch)
        self._model = model.to(self._device).eval()
        self._sentences = sentences
        self._right = _supported_index(config) if self.format == "pair" else 1
        limit = getattr(config, "max_position_embeddings", None) or _LONGEST_TOKENS
        self.max_tokens = min(int(limit), _LONGEST_TOKENS, int(self._tokenizer.model_max_length))
        if config.model_type in ("roberta", "xlm-roberta"):
            self.max_tokens = min(self.max_tokens, int(limit) - 2)  # positions start at 2 there
        self.fingerprint = f"checker:{self.format}:{model_digest(folder)}"
        self._facts = {
            "engine": "transformers",
            "engine_version": transformers.__version__,
            "model": folder.name,
            "fingerprint": self.fingerprint,
            "format": self.format,
            "device": self._device,
            "max_tokens": self.max_tokens,
        }

    def facts(self) -> Mapping[str, Any]:
        """Model, versions and how it is asked."""
        return self._facts

    def close(self) -> None:
        """Let go of the model."""
        del self._model

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Answer check requests block by block, windows of similar length together."""
        for start in range(0, len(requests), _BLOCK_REQUESTS):
            block = requests[start : start + _BLOCK_REQUESTS]
            asked: list[tuple[int, list[int]]] = []
            for number, request in enumerate(block):
                asked += [(number, ids) for ids in self._windows(request.parts[0], request.parts[1:])]
            best = [-1.0] * len(block)
            tokens = [0] * len(block)
            lengths = require("numpy", "transformers").array([len(ids) for _, ids in asked])
            for rows in batches(lengths) if len(asked) else ():
                some = [asked[row] for row in rows]
                for (number, ids), p in zip(some, self._probabilities([ids for _, ids in some]), strict=True):
                    best[number] = max(best[number], p)
                    tokens[number] += len(ids)
            for request, p, n in zip(block, best, tokens, strict=True):
                if p < 0:
                    message = f"the claim leaves no room for a document within {self.max_tokens} tokens"
                    yield Completion(request.key, failure=State.CONTEXT_OVERFLOW, message=message)
                else:
                    yield Completion(request.key, labels=(p, 1 - p), prompt_tokens=n)

    def _windows(self, claim: str, chunks: Sequence[str]) -> list[list[int]]:
        """Lay a passage out as inputs that each fit: whole when it does, else in windows of whole sentences."""
        whole = self._encoded("\n".join(chunks), claim)
        if len(whole) <= self.max_tokens:
            return [whole]
        room = self.max_tokens - len(self._encoded("", claim)) - _ROOM_TOKENS
        if room < _SMALLEST_WINDOW_TOKENS:
            return []
        found: list[str] = []
        used = room + 1
        pieces = (piece for chunk in chunks for part in self._sentences(chunk) for piece in self._cut(part, room))
        for sentence in pieces:
            size = self._size(sentence) + 1
            if used + size > room:
                found.append(sentence)
                used = size
            else:
                found[-1] += " " + sentence
                used += size
        return [self._encoded(text, claim)[: self.max_tokens] for text in found]

    def _cut(self, sentence: str, room: int) -> list[str]:
        if self._size(sentence) + 1 <= room or len(sentence) < 2:
            return [sentence]
        middle = sentence.find(" ", len(sentence) // 2)
        middle = middle if middle > 0 else len(sentence) // 2
        return self._cut(sentence[:middle].strip(), room) + self._cut(sentence[middle:].strip(), room)

    def _size(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])

    def _encoded(self, document: str, claim: str) -> list[int]:
        if self.format == "pair":
            texts: tuple[str, ...] = (document, claim)
        elif self.format == "factcg":
            texts = (_FACTCG.format(document=document, claim=claim),)
        else:
            joined = str(self._tokenizer.eos_token or self._tokenizer.sep_token).join((document, claim))
            texts = (f"predict: {joined}" if self.format == "minicheck-t5" else joined,)
        ids: list[int] = self._tokenizer(*texts, truncation=False, verbose=False)["input_ids"]
        return ids

    def _probabilities(self, rows: list[list[int]]) -> list[float]:
        torch = self._torch
        width = max(map(len, rows))
        pad = self._tokenizer.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=self._device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self._device)
        with torch.inference_mode():
            if self.format == "minicheck-t5":
                start = torch.zeros((len(rows), 1), dtype=torch.long, device=self._device)
                logits = self._model(input_ids=ids, attention_mask=mask, decoder_input_ids=start).logits[:, 0]
                logits = logits[:, [_T5_WRONG, _T5_RIGHT]]
            else:
                logits = self._model(**self._typed(ids, mask, rows)).logits
            logits = logits.float()
            p = torch.sigmoid(logits[:, 0]) if logits.shape[1] == 1 else torch.softmax(logits, -1)[:, self._right]
        found: list[float] = p.cpu().tolist()
        return found

    def _typed(self, ids: Any, mask: Any, rows: list[list[int]]) -> dict[str, Any]:
        """Add the marks of first and second text for models that were trained with them."""
        given = {"input_ids": ids, "attention_mask": mask}
        if self.format == "pair" and "token_type_ids" in self._tokenizer.model_input_names:
            separator = self._tokenizer.sep_token_id
            types = []
            for row in rows:
                first = row.index(separator) + 1
                types.append([0] * first + [1] * (len(row) - first) + [0] * (ids.shape[1] - len(row)))
            given["token_type_ids"] = self._torch.tensor(types, device=self._device)
        return given


def format_of(config: Any, name: str) -> Format:
    """Tell from a model's configuration how it is asked.

    Raises:
        UsageError: Two outputs without names: MiniCheck's and FactCG's look alike.
    """
    if config.is_encoder_decoder:
        return "minicheck-t5"
    labels = getattr(config, "id2label", None) or {}
    if len(labels) == 1 or any(str(label).casefold() in _SUPPORTED for label in labels.values()):
        return "pair"
    told = f"{name} {getattr(config, '_name_or_path', '')}".casefold()
    for form in ("minicheck", "factcg"):
        if form in told and len(labels) == 2:
            return form
    raise UsageError(
        f"The checker {name} has the outputs {', '.join(map(str, labels.values()))}, which do not say how to ask it.",
        f"Give --checker-format: {', '.join(get_args(Format))}",
    )


def _supported_index(config: Any) -> int:
    labels = config.id2label
    return next((int(i) for i, label in labels.items() if str(label).casefold() in _SUPPORTED), 1)
