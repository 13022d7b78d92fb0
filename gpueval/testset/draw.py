"""What to ask about: chunks and sentences drawn over the whole corpus, the same for the same seed. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, zip_longest
from random import Random

from gpueval.judge.injection import instructs
from gpueval.judge.sentences import sentences
from gpueval.metrics.abstention import says_nothing
from gpueval.metrics.wording import telling, tokens_of
from gpueval.testset.asks import Manner
from gpueval.testset.chunks import Chunk
from gpueval.testset.graph import Link, spread_over
from gpueval.testset.items import Order
from gpueval.testset.kinds import Kind

_SHORTEST_WORDS = 6
"""Telling words of a sentence that is worth a question."""

_SHORTEST_LETTERS, _LONG_TOKEN = 12, 9
"""The same where words are not set apart, and the mean length of a token from which they are not."""

_LONGEST_CHARACTERS = 400
_WHOLE = frozenset({Kind.REASONING, Kind.OPEN_ENDED, Kind.FOLLOW_UP})
_SENTENCES_OF_WHOLE = 3
_CONDITION = re.compile(
    r"\b(?:if|unless|only|except|when|whenever|until|provided|in case|as long as|at least|at most|within|before|after|"
    r"wenn|falls|sofern|nur|außer|bis|si|sauf|seulement|lorsque|cuando|solo|salvo|quando|soltanto|se|alleen|als|tenzij)\b"
    r"|如果|除非|もし|場合",
    re.IGNORECASE,
)


def orders(
    kind: Kind, chunks: Sequence[Chunk], links: Sequence[Link], manners: Sequence[Manner], seed: int
) -> Iterator[Order]:
    """Yield what can be asked of a kind, once each, until there is no more.

    Documents take turns, in an order drawn by the seed, and so do the sentences of a document: the first questions are
    spread over as many documents as there are. Pairs of chunks come by the strength of their link, shaken by the seed.

    Args:
        kind: Kind of question.
        chunks: Chunks.
        links: Pairs of chunks, for questions over two.
        manners: Ways of wording, taken in turn.
        seed: Decides the order.
    """
    random = Random(f"{seed}/{kind}")
    places = _pairs(links, random) if kind is Kind.MULTI_HOP else _turns(kind, chunks, random)
    for (where, focus), manner in zip(places, cycle(manners), strict=False):
        yield Order(kind, where, focus, manner)


def _pairs(links: Sequence[Link], random: Random) -> Iterator[tuple[tuple[int, ...], str]]:
    shaken = [replace(link, weight=link.weight * random.uniform(0.5, 1)) for link in links]
    shaken.sort(key=lambda link: -link.weight)
    for link in spread_over(shaken, len(shaken)):
        where = (link.first, link.second) if random.random() < 0.5 else (link.second, link.first)
        yield where, link.bridge


def _turns(kind: Kind, chunks: Sequence[Chunk], random: Random) -> Iterator[tuple[tuple[int, ...], str]]:
    of_document: defaultdict[str, list[tuple[tuple[int, ...], str]]] = defaultdict(list)
    for i, chunk in enumerate(chunks):
        worth = [sentence for sentence in sentences(chunk.text) if is_worth_asking(sentence)]
        if kind is Kind.CONDITIONAL:
            worth = [sentence for sentence in worth if _CONDITION.search(sentence)]
        if kind in _WHOLE:
            worth = [""] if len(worth) >= _SENTENCES_OF_WHOLE else []
        of_document[chunk.document] += [((i,), sentence) for sentence in worth]
    queues = list(of_document.values())
    random.shuffle(queues)
    for queue in queues:
        random.shuffle(queue)
    for turn in zip_longest(*queues):
        yield from (place for place in turn if place is not None)


def is_worth_asking(sentence: str) -> bool:
    """Whether a sentence says enough to be asked about, and speaks of its subject rather than to a model."""
    return (
        len(sentence) <= _LONGEST_CHARACTERS
        and _says_enough(sentence)
        and not says_nothing(sentence)
        and not instructs(sentence)
    )


def _says_enough(sentence: str) -> bool:
    """Count telling words, or letters in a script that sets no blanks between words."""
    tokens = tokens_of(sentence)
    if sum(map(len, tokens)) > _LONG_TOKEN * len(tokens):
        return sum(map(len, tokens)) >= _SHORTEST_LETTERS
    return len(telling(sentence)) >= _SHORTEST_WORDS
