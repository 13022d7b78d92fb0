"""Answers for the conditions of an ablation: from a model, from a server, or from the user's own function."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpueval import engines
from gpueval.config import is_server
from gpueval.engines.base import Engine
from gpueval.errors import DataError, EngineError, UsageError
from gpueval.fingerprint import digest, text_digest
from gpueval.judge.answers import answers
from gpueval.judge.store import Store
from gpueval.metrics.base import is_blank
from gpueval.records import Ask, Completion, Request, Sample, State

Answerer = Callable[[str, Sequence[str]], str]
"""The user's generator: question and documents in, answer out."""

Progress = Callable[[str, int, int], None]

WITH_DOCUMENTS = (
    "Answer the question from the documents in one or two sentences. Say only what the documents say. If they do not "
    'hold the answer, say "The documents do not say."'
)
WITHOUT_DOCUMENTS = (
    'Answer the question in one or two sentences from what you know. If you do not know, say "I do not know."'
)

_KIND = "answer"


@dataclass(frozen=True, slots=True)
class Generator:
    """Who answers, and how it is asked.

    Attributes:
        rag: Model folder, server URL, ``module:function``, an engine, or a function of question and documents.
        prompt: System text where there are documents; without any it is :data:`WITHOUT_DOCUMENTS`.
        max_tokens: Longest answer.
        engine: For a model folder, ``vllm`` or ``transformers``.
        options: Arguments of the engine.
    """

    rag: str | Engine | Answerer
    prompt: str = WITH_DOCUMENTS
    max_tokens: int = 256
    engine: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people; also identifies a function."""
        if isinstance(self.rag, str):
            return self.rag
        if callable(self.rag):
            return str(getattr(self.rag, "__qualname__", type(self.rag).__qualname__))
        return str(self.rag.facts().get("model") or self.rag.facts().get("engine"))


def answer(samples: Sequence[Sample], generator: Generator, folder: Path, progress: Progress) -> list[Sample]:
    """Return the samples with the generator's answers; an answer that could not be had stays None.

    Args:
        samples: Samples with contexts; none at all asks for what the model knows.
        generator: Who answers.
        folder: Every answer is kept here (``answers.sqlite``) and not asked again.
        progress: Called with stage, done and total.

    Raises:
        UsageError: The generator's name fits nothing.
        DataError: A sample has no question.
        EngineError: It answers nothing at all, or a function fails.
    """
    for sample in samples:
        if is_blank(sample.question):
            raise DataError(f"sample '{sample.id}' has none", file="samples", field="question")
    rag = generator.rag
    if isinstance(rag, str) and _is_function(rag):
        rag = load_function(rag)
    with Store(folder / "answers.sqlite") as store, ExitStack() as stack:
        if callable(rag):
            answered = _by_function(samples, rag, generator.name, store, progress)
        else:
            if isinstance(rag, str):
                log = folder / "engine.log"
                rag = engines.start(rag, engine=generator.engine, options=dict(generator.options), log=log)
                stack.callback(rag.close)
            answered = _by_engine(samples, rag, generator, store, progress)
    if n_lost(answered) == len(answered):
        raise EngineError(
            f"{generator.name} answered none of {len(answered):,} questions.", f"See {folder}/engine.log."
        )
    return answered


def _is_function(rag: str) -> bool:
    return ":" in rag and not is_server(rag) and not rag.startswith("scripted:") and not Path(rag).exists()


def load_function(name: str) -> Answerer:
    """Load ``module:function``; the working directory is looked in first, as ``python -m`` does.

    Raises:
        UsageError: There is no such module or function.
    """
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function: Answerer = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"--rag {name} cannot be loaded: {error}.", "Write module:function, or a model folder, or a server's URL."
        ) from error
    if not callable(function):
        raise UsageError(f"--rag {name} is no function.")
    return function


def _by_engine(
    samples: Sequence[Sample], engine: Engine, generator: Generator, store: Store, progress: Progress
) -> list[Sample]:
    asks = {True: Ask(f"{_KIND}/documents", generator.prompt), False: Ask(f"{_KIND}/closed", WITHOUT_DOCUMENTS)}
    requests = []
    for sample in samples:
        ask = asks[bool(sample.contexts)]
        parts = _parts(sample)
        key = _key(engine.fingerprint, ask.system, str(generator.max_tokens), *parts)
        requests.append(Request(key, ask, parts, generator.max_tokens))
    replies = answers(requests, engine, store, "answers", progress)
    return [
        msgspec.structs.replace(sample, answer=_text(replies.get(request.key)))
        for sample, request in zip(samples, requests, strict=True)
    ]


def _by_function(
    samples: Sequence[Sample], function: Answerer, name: str, store: Store, progress: Progress
) -> list[Sample]:
    """Return the samples with the function's answers, asked one after the other; those stored are not asked again.

    Raises:
        EngineError: The function raises, or returns no text; what it answered before is kept.
    """
    found = []
    for done, sample in enumerate(samples, start=1):
        texts = [passage.text for passage in sample.contexts or ()]
        key = _key(name, sample.question or "", *texts)
        kept = store.get([key]).get(key)
        if kept is None:
            try:
                answer: Any = function(sample.question or "", texts)
            except Exception as error:  # the user's own code: anything may come
                raise EngineError(
                    f"{name} failed on sample '{sample.id}': {type(error).__name__}: {error}",
                    "Mend it and run the same command: what it answered is kept.",
                ) from error
            if not isinstance(answer, str):
                raise EngineError(f"{name} returned {type(answer).__name__} for sample '{sample.id}', not a text.")
            kept = Completion(key, answer)
            store.put(kept, _KIND)
        found.append(msgspec.structs.replace(sample, answer=kept.text))
        progress("answers", done, len(samples))
    return found


def n_lost(samples: Sequence[Sample]) -> int:
    """Count the samples that got no answer."""
    return sum(sample.answer is None for sample in samples)


def _key(*texts: str) -> bytes:
    return digest(*map(text_digest, texts))


def _parts(sample: Sample) -> tuple[str, ...]:
    return tuple(_prompt(sample))


def _prompt(sample: Sample) -> Iterator[str]:
    for number, passage in enumerate(sample.contexts or (), start=1):
        yield f"Document {number}:\n{passage.text}\n\n"
    yield f"Question: {sample.question}"


def _text(completion: Completion | None) -> str | None:
    """Return an answer; a cut one counts, a failed one does not."""
    if completion is None or (completion.failure and completion.failure != State.TRUNCATED):
        return None
    return completion.text.strip()
