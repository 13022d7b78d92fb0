"""The plain fallback: transformers on CPU, CUDA or Apple's MPS, in padded batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpueval.engines.prompt_tokens import PromptTokens, summed
from gpueval.engines.quiet import output_to, stay_offline
from gpueval.errors import EngineError
from gpueval.fingerprint import model_digest
from gpueval.lazy import require
from gpueval.records import Completion, Request, State

_BATCH_TOKENS = 8192
"""Padded prompt tokens in one batch."""


class TransformersLocal:
    """A judge on transformers.

    There is no grammar here: a reply that is not the JSON asked for is a ``parse_failed``, asked again once.

    Args:
        folder: Local Hugging Face model folder.
        max_model_len: Longest prompt with reply, in tokens; None takes the model's own limit, at most 8,192.
        device: ``cpu``, ``cuda``, ``mps``, or None for the best there is.
        log: File for the library's own output; None leaves it on the terminal.

    Raises:
        PrerequisiteError: torch or transformers is not installed.
        EngineError: The model cannot be loaded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_model_len: int | None = None,
        device: str | None = None,
        log: Path | None = None,
    ) -> None:
        with output_to(log):
            self._load(folder, max_model_len, device)

    def _load(self, folder: Path, max_model_len: int | None, device: str | None) -> None:
        stay_offline()
        self._torch = torch = require("torch", "transformers")
        transformers = require("transformers", "transformers")
        self._device = device or best_device(torch)
        dtype = torch.float32 if self._device == "cpu" else torch.float16
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=dtype)
        except (OSError, ValueError) as error:
            raise EngineError(f"transformers cannot load {folder}: {error}") from error
        self._model = model.to(self._device).eval()
        self._tokens = PromptTokens(tokenizer)
        self._tokenizer = tokenizer
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        limit = int(getattr(model.config, "max_position_embeddings", 8192))
        self.max_prompt_tokens = max_model_len or min(8192, limit)
        self.fingerprint = f"transformers:{str(dtype).removeprefix('torch.')}:{model_digest(folder)}"
        self._facts = {
            "engine": "transformers",
            "engine_version": transformers.__version__,
            "model": folder.name,
            "fingerprint": self.fingerprint,
            "device": self._device,
            "max_model_len": self.max_prompt_tokens,
        }

    def count_tokens(self, text: str) -> int:
        """Count with the judge's own tokenizer."""
        return self._tokens.count(text)

    def facts(self) -> Mapping[str, Any]:
        """Model, versions and device."""
        return self._facts

    def close(self) -> None:
        """Let go of the model."""
        del self._model

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Answer in batches of similar length."""
        prompts = [(self._tokens.prompt(request), request) for request in requests]
        order = sorted(range(len(prompts)), key=lambda i: (not prompts[i][1].ask.labels, len(prompts[i][0])))
        batch: list[int] = []
        for i in [*order, -1]:
            full = batch and (
                i < 0
                or (len(batch) + 1) * len(prompts[i][0]) > _BATCH_TOKENS
                or bool(prompts[i][1].ask.labels) != bool(prompts[batch[0]][1].ask.labels)
            )
            if full:
                yield from self._answer([prompts[j] for j in batch])
                batch = []
            batch.append(i)

    def _answer(self, batch: list[tuple[list[int], Request]]) -> Iterator[Completion]:
        torch = self._torch
        fitting = [(ids, request) for ids, request in batch if len(ids) + request.max_tokens <= self.max_prompt_tokens]
        for ids, request in batch:
            if len(ids) + request.max_tokens > self.max_prompt_tokens:
                message = f"{len(ids)} prompt tokens exceed {self.max_prompt_tokens}"
                yield Completion(request.key, failure=State.CONTEXT_OVERFLOW, message=message)
        if not fitting:
            return
        width = max(len(ids) for ids, _ in fitting)
        padded = torch.tensor([[self._pad] * (width - len(ids)) + ids for ids, _ in fitting], device=self._device)
        mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in fitting], device=self._device)
        with torch.inference_mode():
            if not fitting[0][1].ask.labels:
                yield from self._generate(fitting, padded, mask)
                return
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            logits = self._model(input_ids=padded, attention_mask=mask, position_ids=positions, logits_to_keep=1).logits
            chances = torch.softmax(logits[:, -1].float(), dim=-1).cpu()
        for row, (ids, request) in enumerate(fitting):
            groups = self._tokens.label_ids(request.ask)
            found = {token: float(chances[row, token]) for group in groups for token in group}
            yield Completion(request.key, labels=summed(found, groups), prompt_tokens=len(ids), output_tokens=1)

    def _generate(self, batch: list[tuple[list[int], Request]], padded: Any, mask: Any) -> Iterator[Completion]:
        limit = max(request.max_tokens for _, request in batch)
        output = self._model.generate(
            input_ids=padded,
            attention_mask=mask,
            max_new_tokens=limit,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=self._pad,
        )
        for row, (ids, request) in enumerate(batch):
            reply = output[row, padded.shape[1] :].tolist()[: request.max_tokens]
            stops = self._model.generation_config.eos_token_id
            ends = set(stops if isinstance(stops, list) else [stops])
            ended = next((n for n, token in enumerate(reply) if token in ends), None)
            kept = reply if ended is None else reply[:ended]
            yield Completion(
                request.key,
                text=self._tokenizer.decode(kept, skip_special_tokens=True),
                finish="length" if ended is None else "stop",
                prompt_tokens=len(ids),
                output_tokens=len(kept),
            )


def best_device(torch: Any) -> str:
    """Return the device that torch would best run on: ``cuda``, ``mps`` or ``cpu``."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
