"""The seam between the judge and whatever computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from gpueval.records import Completion, Request


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

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Answer requests: one completion each, in any order, yielded as soon as it is there.

        A request that fails is a completion with a ``failure``, not an exception.

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
