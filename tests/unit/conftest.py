"""Parts of the tests of documents and test sets: two documents, an encoder and a writer without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpueval.engines.scripted import Scripted
from gpueval.records import Completion, Request
from gpueval.testset.checks import Check
from gpueval.testset.items import Item, Proof
from gpueval.testset.kinds import Kind
from gpueval.testset.trust import Trust

BERG = (
    "The Berg Library in Oslo was founded in 1921 by Ada Berg. It opens at nine on weekdays. "
    "If a reader loses a card, a new card costs five crowns at the Berg Library desk in Oslo."
)
HARBOUR = (
    "Ada Berg was born in Bergen Harbour in 1880 and worked as a ship's carpenter. "
    "Her brother Nils Berg painted the harbour of Bergen from 1900 to 1910."
)


class Words:
    """An encoder by words: texts that share words are near."""

    fingerprint, dimensions, block_texts, device = "words", 64, 64, "cpu"

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        found = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.casefold().split():
                row[sum(word.strip(".,?").encode()) % 64] += 1
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def reply(request: Request) -> Completion:
    """A judge that writes about Ada Berg and finds everything in order."""
    kind, text = request.ask.kind, "".join(request.parts)
    if kind == "write/unanswerable":
        return Completion(
            request.key,
            json.dumps({"missing_detail": "fee", "question": "How many books does the Berg Library in Oslo own?"}),
        )
    if kind == "write/follow_up":
        turns = {
            "first_question": "Who founded the Berg Library in Oslo?",
            "first_answer": "Ada Berg founded it.",
            "second_question": "When was she born?",
            "second_question_alone": "When was Ada Berg, founder of the Berg Library, born?",
            "second_answer": "Ada Berg was born in 1880.",
        }
        return Completion(request.key, json.dumps(turns))
    if kind == "write/multi_hop":
        whose = {"question": "Where was the founder of the Oslo library born?", "answer": "In Bergen Harbour."}
        return Completion(request.key, json.dumps(whose))
    if kind.startswith("write/"):
        focus = text.partition("<sentence>\n")[2].partition("\n")[0] or kind
        question = f"What is said of {' '.join(focus.split()[:9])}?"
        return Completion(request.key, json.dumps({"question": question, "answer": focus or "Nothing at all."}))
    if kind == "closed":
        return Completion(request.key, "I do not know.")
    if kind == "answerable":
        joined = "\n\n" in text.partition("</document>")[0]
        return Completion(
            request.key, labels=(0.9, 0.1, 0.0) if joined or "How many books" not in text else (0.1, 0.9, 0.0)
        )
    return Completion(request.key, labels=(0.9, 0.1, 0.0))


class Writer(Scripted):
    """Writes about Ada Berg, finds everything in order, and counts what it is asked."""

    reply = staticmethod(reply)

    def __init__(self, answer=reply) -> None:
        super().__init__(answer)
        self.n = 0

    def run(self, requests):
        for one in super().run(requests):
            self.n += 1
            yield one


TRUSTED = {check: Trust(0.5, 1.0, 9, 9, used=True) for check in Check}


@pytest.fixture
def berg() -> str:
    return BERG


@pytest.fixture
def harbour() -> str:
    return HARBOUR


@pytest.fixture
def words() -> Any:
    return Words()


@pytest.fixture
def writer() -> type[Scripted]:
    return Writer


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in ("make", "examine"):
        monkeypatch.setattr(f"gpueval.testset.{module}.measure", lambda ask, keys: TRUSTED)
    monkeypatch.setenv("GPUEVAL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "berg.md").write_text(BERG)
    (folder / "harbour.txt").write_text(HARBOUR)
    return folder


@pytest.fixture
def item() -> Callable[..., Item]:
    def make(question: str, reference: str | None = "Ada Berg founded it.", kind: Kind = Kind.FACTUAL, **more) -> Item:
        proof = Proof("berg.md#1", "berg.md", 0, len(BERG), BERG)
        return Item(
            id=question,
            question=question,
            reference=reference,
            group=str(kind),
            evidence=(proof,),
            relevant_ids=("berg.md#1",),
            **more,
        )

    return make
