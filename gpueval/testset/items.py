"""The records of a test set: what is asked of a writer, and what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpueval.judge.parse import clean, json_object
from gpueval.metrics.base import is_blank
from gpueval.records import Completion
from gpueval.testset.asks import Manner, fields_of
from gpueval.testset.chunks import Chunk
from gpueval.testset.kinds import Kind


@dataclass(frozen=True, slots=True)
class Order:
    """One question to be written.

    Attributes:
        kind: Its kind.
        chunks: Positions of its evidence among the chunks: two for a question over two, else one.
        focus: The sentence to ask about, or the name that joins two chunks; empty where the whole chunk is asked about.
        manner: How it is worded.
    """

    kind: Kind
    chunks: tuple[int, ...]
    focus: str
    manner: Manner


class Proof(msgspec.Struct, frozen=True):
    """A chunk that a question rests on, with its place in characters of the document."""

    id: str
    document: str
    start: int
    end: int
    text: str


class Turn(msgspec.Struct, frozen=True):
    """An earlier question of a conversation and its answer."""

    question: str
    answer: str


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of ``testset.jsonl``: a sample without an answer yet, which ``gpueval run`` understands.

    Attributes:
        id: Kind and number.
        question: What the user asks; for a follow-up the last question alone.
        reference: The right answer; None for an unanswerable question.
        answerable: Whether the corpus holds the answer.
        relevant_ids: Ids of the evidence in ``corpus.jsonl``.
        group: The kind, so that every report tells kinds apart.
        evidence: The chunks it rests on; for an unanswerable question the chunk it was asked from.
        alone: The question as it can be understood without the conversation.
        history: Earlier turns.
        style, length, persona, language: How it was asked for; empty where nothing was said.
        rank: Place of its evidence in a plain retriever's list, the last of several; None beyond the places looked at.
        difficulty: ``easy``, ``medium``, ``hard`` or ``very hard`` by that rank; empty for an unanswerable question.
        problems: Reasons to drop it; those of a kept item are empty.
    """

    id: str
    question: str
    reference: str | None = None
    answerable: bool = msgspec.field(default_factory=lambda: True)  # a factory's value is written, a default is not
    relevant_ids: tuple[str, ...] = ()
    group: str = ""
    evidence: tuple[Proof, ...] = ()
    alone: str = ""
    history: tuple[Turn, ...] = ()
    style: str = ""
    length: str = ""
    persona: str = ""
    language: str = ""
    rank: int | None = None
    difficulty: str = ""
    problems: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Its kind: unanswerable where it is not answerable; an unknown group is taken as factual."""
        if not self.answerable:
            return Kind.UNANSWERABLE
        known = self.group in list(Kind) and self.group != Kind.UNANSWERABLE
        return Kind(self.group) if known else Kind.FACTUAL

    @property
    def standalone(self) -> str:
        """The question that can be understood alone."""
        return self.alone or self.question


@dataclass(frozen=True, slots=True)
class Checked:
    """An item with what the checks found.

    Attributes:
        item: The item, its rank and problems filled in.
        recall: Share of the reference's claims that the true evidence holds; None where it was not asked.
        vector: Of the question that can be understood alone.
    """

    item: Item
    recall: float | None
    vector: NDArray[np.float32]


def written(order: Order, chunks: Sequence[Chunk], completion: Completion | None, name: str) -> Item | None:
    """Read a writer's reply; None when it cannot be read or a field is empty."""
    if completion is None or completion.failure:
        return None
    fields = json_object(completion.text) or {}
    if any(not isinstance(fields.get(key), str) or is_blank(fields[key]) for key in fields_of(order.kind)):
        return None
    text = {key: clean(" ".join(fields[key].split())) for key in fields_of(order.kind)}
    held = [chunks[i] for i in order.chunks]
    shared: dict[str, Any] = {
        "id": name,
        "group": str(order.kind),
        "evidence": tuple(map(proof_of, held)),
        **asdict(order.manner),
    }
    if order.kind is Kind.UNANSWERABLE:
        return Item(question=text["question"], answerable=False, **shared)
    shared["relevant_ids"] = tuple(chunk.id for chunk in held)
    if order.kind is Kind.FOLLOW_UP:
        return Item(
            question=text["second_question"],
            reference=text["second_answer"],
            alone=text["second_question_alone"],
            history=(Turn(text["first_question"], text["first_answer"]),),
            **shared,
        )
    return Item(question=text["question"], reference=text["answer"], **shared)


def proof_of(chunk: Chunk) -> Proof:
    """Make a chunk evidence."""
    return Proof(chunk.id, chunk.document, chunk.start, chunk.end, chunk.text)
