"""An engine that answers nothing and counts what a real one would read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpueval.records import Completion, Request

_BYTES_PER_TOKEN = 4.3
"""UTF-8 bytes per token of English prose under vocabularies of 49 to 250 thousand entries; other languages have
fewer.
"""

_TEMPLATE_TOKENS = 12
_QUESTIONS = '{"questions":["What is this about?","What does it say?","Which facts are given?"]}'


class Counting:
    """Counts requests and tokens; its replies only let the second round be planned.

    Attributes:
        requests: Requests seen.
        prompt_tokens: Their prompt tokens, estimated from bytes.
        cached_tokens: Tokens of leading pieces that equal those of the request before.
        output_tokens: Tokens a judge would write.
        longest_tokens: Longest prompt with its reply.
    """

    fingerprint = "counting"
    max_prompt_tokens = 1 << 30

    def __init__(self) -> None:
        self.requests = self.prompt_tokens = self.cached_tokens = self.output_tokens = self.longest_tokens = 0
        self._last: tuple[str, ...] = ()

    def count_tokens(self, text: str) -> int:
        """Estimate from the bytes."""
        return round(len(text.encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Count in order."""
        for request in requests:
            pieces = (request.ask.system, *request.parts)
            sizes = [self.count_tokens(piece) for piece in pieces]
            shared = 0
            for size, piece, before in zip(sizes, pieces, self._last, strict=False):
                if piece != before:
                    break
                shared += size
            self._last = pieces
            completion = self._reply(request, sizes)
            total = sum(sizes) + _TEMPLATE_TOKENS
            self.requests += 1
            self.prompt_tokens += total
            self.cached_tokens += shared
            self.output_tokens += completion.output_tokens
            self.longest_tokens = max(self.longest_tokens, total + completion.output_tokens)
            yield completion

    def _reply(self, request: Request, sizes: Sequence[int]) -> Completion:
        if request.ask.labels:
            return Completion(request.key, labels=(0.9, 0.1, 0.0), output_tokens=1)
        if request.ask.kind == "questions":
            return Completion(request.key, text=_QUESTIONS, output_tokens=45)
        return Completion(request.key, text='{"claims":[]}', output_tokens=round(1.3 * sizes[-1]))

    def facts(self) -> Mapping[str, Any]:
        """Nothing to tell."""
        return {}

    def close(self) -> None:
        """Nothing to close."""
