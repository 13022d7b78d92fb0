"""Fixtures: an isolated environment, scripted engines, and one real vLLM engine per session."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from gpueval.engines.scripted import Scripted
from gpueval.machine import cache_folder
from gpueval.records import Completion, Passage, Request, Sample

os.environ.setdefault("HF_HUB_OFFLINE", "1")
settings.register_profile("gpueval", deadline=None)  # how long an example takes is no test's business
settings.load_profile("gpueval")
MODELS = cache_folder()
JUDGE_FOLDER = MODELS / "smollm2-135m-instruct"
EMBEDDER_FOLDER = MODELS / "all-minilm-l6-v2"

Rule = Callable[[Request], Any]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("GPUEVAL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))  # launches are remembered there
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves the machine, name look-ups included."""

    def refuse(*arguments: Any, **_: Any) -> Any:
        raise AssertionError(f"network used: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def reply(request: Request, answer: Any) -> Completion:
    """Turn a short answer into a completion: a number is p(yes) or a cosine, a text is generated text."""
    if isinstance(answer, Completion):
        return answer
    if request.ask.kind == "similar":
        return Completion(request.key, value=float(answer))
    if request.ask.kind == "evidence":
        return Completion(request.key, value=float(answer), labels=(float(answer),) * (len(request.parts) - 1))
    if isinstance(answer, str):
        return Completion(request.key, text=answer, output_tokens=len(answer.split()))
    return Completion(request.key, labels=(float(answer), 1 - float(answer), 0.0))


QUESTIONS = '{"questions":["What is it?","Which one?","How so?"]}'


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    """Make an engine from answers per kind: a value, or a function of the request."""

    def make(name: str = "test", *, max_prompt_tokens: int = 8192, **answers: Any) -> Scripted:
        known = {
            "support": 0.9,
            "useful": 0.9,
            "relevant": 0.9,
            "responds": 0.9,
            "similar": 0.8,
            "evidence": 0.5,
            "check": 0.9,
            "questions": QUESTIONS,
        }
        known |= answers
        counted: list[Request] = []

        def answer(request: Request) -> Completion:
            counted.append(request)
            found = known[request.ask.kind]
            return reply(request, found(request) if callable(found) else found)

        engine = Scripted(answer, name, max_prompt_tokens)
        engine.requests = counted  # type: ignore[attr-defined]
        return engine

    return make


@pytest.fixture
def sample() -> Callable[..., Sample]:
    """Make a sample; contexts may be plain texts."""

    def make(**fields: Any) -> Sample:
        contexts = fields.pop("contexts", ("Paris is the capital of France.",))
        if contexts is not None:
            contexts = tuple(Passage(text) if isinstance(text, str) else text for text in contexts)
        given = {"id": "1", "question": "What is the capital of France?", "answer": "Paris is the capital."} | fields
        return Sample(contexts=contexts, **given)

    return make


@pytest.fixture(scope="session")
def models() -> tuple[Path, Path]:
    """Folders of the demo judge and embedder."""
    for folder in (JUDGE_FOLDER, EMBEDDER_FOLDER):
        if not (folder / "config.json").is_file():
            pytest.skip(f"{folder} is missing: run 'make test' or python scripts/demo_models.py")
    return JUDGE_FOLDER, EMBEDDER_FOLDER


@pytest.fixture(scope="session")
def vllm_judge(models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session's one vLLM engine."""
    pytest.importorskip("vllm", reason="vLLM is not installed: pip install 'gpueval[cpu]'")
    from gpueval import engines

    engine = engines.start(str(models[0]), log=tmp_path_factory.mktemp("vllm") / "engine.log")
    yield engine
    engine.close()
