"""The seam between the judge and whatever computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from gpueval.records import Completion, Request

RUNAWAY = {"max_pattern_size": 32, "min_pattern_size": 1, "min_count": 8}
"""A generation that says the same up to 32 tokens eight times in a row never ends: vLLM cuts it there."""


class Engine(Protocol):
    """Answers requests.

    Attributes:
        fingerprint: Identifies what decides the replies (model, engine, number format); part of every request's key.
        max_prompt_tokens: Longest prompt, template and reply included.
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def max_prompt_tokens(self) -> int: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text; may overestimate, never underestimate."""
        ...

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Answer requests: one completion each, in any order, yielded as soon as it is there.

        Requests are taken as there is room for them. An iterator that ends may have more later: it is asked again as
        long as something is being answered. A request that fails is a completion with a ``failure``, not an exception.

        Raises:
            EngineDied: The process that computes is gone; what was yielded before stands.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """What goes into ``run.json``: model, versions, settings, memory."""
        ...

    def close(self) -> None:
        """Give back memory and processes."""
        ...


class Embedder(Protocol):
    """Answers similarity requests: ``parts`` are two texts, the completion's ``value`` their cosine."""

    @property
    def fingerprint(self) -> str: ...

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Answer similarity requests, one completion each."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What goes into ``run.json``."""
        ...

    def close(self) -> None:
        """Give back memory."""
        ...
