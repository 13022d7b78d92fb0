"""Prompts as token ids, joined from pieces that are tokenised once.

Pieces are joined as ids, not as text: a merge over a seam would make the same passage tokenise differently from
request to request, and neither the prefix cache nor a repeated run would see the same prompt. Text under test is
encoded without special tokens, so ``<|im_end|>`` in an answer is ten ordinary characters.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from gpueval.errors import PrerequisiteError
from gpueval.records import Ask, Request

_CACHE_TOKENS = 4_000_000
"""Token ids kept for pieces seen before (about 8 bytes each)."""

_SENTINEL = "\x02gpueval\x03"


class PromptTokens:
    """Builds token ids for one tokenizer and its chat template.

    Args:
        tokenizer: A fast Hugging Face tokenizer.

    Raises:
        PrerequisiteError: The tokenizer is not a fast one.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise PrerequisiteError(
                "The judge's tokenizer has no fast version (tokenizer.json).",
                "Convert it with transformers' AutoTokenizer(...).save_pretrained(FOLDER).",
            )
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()  # some training scripts leave them on in tokenizer.json
        self._backend.no_padding()
        self._frames: dict[str, tuple[list[int], list[int]]] = {}
        self._pieces: OrderedDict[str, list[int]] = OrderedDict()
        self._kept_tokens = 0
        self._turn = threading.RLock()  # samples are planned while others are asked: both count tokens
        self._labels: dict[str, tuple[tuple[int, ...], ...]] = {}

    def prompt(self, request: Request) -> list[int]:
        """Return the token ids of a request's prompt, ending where the reply begins."""
        head, tail = self._frame(request.ask.system)
        ids = list(head)
        for part in request.parts:
            ids += self._piece(part)
        return ids + tail

    def label_ids(self, ask: Ask) -> tuple[tuple[int, ...], ...]:
        """Return per label the ids of its surface forms, resolved where the reply begins.

        A form counts when it is exactly one token there. "Cannot tell" may have none.

        Raises:
            PrerequisiteError: Yes or no has no one-token form.
        """
        found = self._labels.get(ask.kind)
        if found is not None:
            return found
        tail = self._frame(ask.system)[1]
        context = self._tokenizer.decode(tail[-4:])
        start = self._special(context)
        groups: list[tuple[int, ...]] = []
        for forms in ask.labels:
            ids: dict[int, None] = {}
            for form in forms:
                encoded = self._special(context + form)
                if encoded[:-1] == start:
                    ids[encoded[-1]] = None
            groups.append(tuple(ids))
        for name, group in zip(("yes", "no"), groups, strict=False):
            if not group:
                raise PrerequisiteError(
                    f"The judge's tokenizer has no single token for the label '{name}'.",
                    "Choose another judge: a verdict is read from the probability of one token.",
                )
        result = self._labels[ask.kind] = tuple(groups)
        return result

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._piece(text))

    def _frame(self, system: str) -> tuple[list[int], list[int]]:
        frame = self._frames.get(system)
        if frame is None:
            before, _, after = self._rendered(system).partition(_SENTINEL)
            frame = self._frames[system] = (self._special(before), self._special(after))
        return frame

    def _rendered(self, system: str) -> str:
        if not self._tokenizer.chat_template:
            return f"{self._tokenizer.bos_token or ''}{system}\n\n{_SENTINEL}\n"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": _SENTINEL}]
        merged = [{"role": "user", "content": f"{system}\n\n{_SENTINEL}"}]
        for attempt in (messages, merged):
            try:
                text: str = self._tokenizer.apply_chat_template(
                    attempt, tokenize=False, add_generation_prompt=True, enable_thinking=False
                )
            except Exception as error:  # templates raise their own kinds, e.g. "System role not supported"
                failure = error
                continue
            if text.count(_SENTINEL) == 1:
                return text
            failure = ValueError("the template does not keep the user text")
        raise PrerequisiteError(f"The judge's chat template cannot be used: {failure}.", "Choose an instruct model.")

    def _special(self, text: str) -> list[int]:
        return self._encoded(text, special=True)

    def _piece(self, text: str) -> list[int]:
        with self._turn:
            ids = self._pieces.get(text)
            if ids is not None:
                self._pieces.move_to_end(text)
                return ids
            encoded = self._encoded(text, special=False)
            self._pieces[text] = encoded
            self._kept_tokens += len(encoded)
            while self._kept_tokens > _CACHE_TOKENS:
                _, dropped = self._pieces.popitem(last=False)
                self._kept_tokens -= len(dropped)
            return encoded

    def _encoded(self, text: str, *, special: bool) -> list[int]:
        """Encode with the names of special tokens as these tokens, or as ordinary characters."""
        with self._turn:
            self._backend.encode_special_tokens = not special
            try:
                ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
            finally:
                self._backend.encode_special_tokens = False
            return ids


def summed(probabilities: dict[int, float], groups: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Sum token probabilities per label."""
    return tuple(sum(probabilities.get(token, 0.0) for token in group) for group in groups)
