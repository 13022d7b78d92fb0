"""An engine with canned replies, for edge cases and for trying a pipeline without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import DataError
from gpueval.fingerprint import digest
from gpueval.records import FAILURES, Completion, Request

Reply = Callable[[Request], Completion]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a rules file; the first rule that matches answers.

    Attributes:
        kind: Kind of request (``support``, ``useful``, ``relevant``, ``responds``, ``questions``, ``claims``,
            ``similar``, ``tokens``); empty matches all.
        contains: Text that the user part of the prompt must contain; empty matches all.
        labels: Probabilities of yes, no and cannot tell.
        text: Generated text.
        value: Cosine.
        failure: A failure state.
    """

    kind: str = ""
    contains: str = ""
    labels: tuple[float, ...] = ()
    text: str = ""
    value: float | None = None
    finish: str = "stop"
    failure: str = ""


class Scripted:
    """Answers every request through a function or through rules.

    Args:
        reply: Maps a request to its completion.
        name: Part of the fingerprint; two scripts with the same name share stored replies.
        max_prompt_tokens: Pretended limit.
    """

    def __init__(self, reply: Reply, name: str = "scripted", max_prompt_tokens: int = 8192) -> None:
        self._reply = reply
        self.fingerprint = f"scripted:{name}"
        self.max_prompt_tokens = max_prompt_tokens

    def count_tokens(self, text: str) -> int:
        """Count words."""
        return len(text.split())

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Answer in order."""
        reply = self._reply
        for request in requests:
            yield reply(request)

    def facts(self) -> Mapping[str, Any]:
        """Say that nothing was judged by a model."""
        return {"engine": "scripted", "fingerprint": self.fingerprint}

    def close(self) -> None:
        """Nothing to give back."""


def from_rules(path: Path) -> Scripted:
    """Load a rules file (JSONL, see :class:`Rule`).

    Raises:
        DataError: A line is not a rule; the file has no rule for a request (raised at that request).
    """
    rules: list[Rule] = []
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(path)) from error
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rule = msgspec.json.decode(line, type=Rule)
        except msgspec.DecodeError as error:
            raise DataError(f"not a rule: {error}", file=str(path), line=number) from error
        if rule.failure and rule.failure not in FAILURES:
            known = ", ".join(sorted(FAILURES))
            raise DataError(f"unknown failure '{rule.failure}' (known: {known})", file=str(path), line=number)
        rules.append(rule)

    def reply(request: Request) -> Completion:
        text = "".join(request.parts)
        for rule in rules:
            if rule.kind in ("", request.ask.kind) and rule.contains in text:
                return Completion(
                    request.key, rule.text, rule.labels, rule.value, rule.finish, rule.failure, "scripted"
                )
        raise DataError(f"no rule matches a request of kind '{request.ask.kind}'", file=str(path))

    return Scripted(reply, digest(content).hex())
