"""A small real RAG pipeline over a made-up shop's product pages, with five faults that can be planted in it.

Documents are written from a seed, so that no model can know them; MiniLM or another sentence-transformers folder embeds
their chunks, FAISS searches them, and the generator answers from what comes back. Each fault changes one part:

``cut``        chunks end after twelve words, wherever that is, and do not say which product they belong to
``noisy``      the question's vector is disturbed before the search
``reversed``   what was retrieved is handed on with the last one first
``embellish``  the generator is told to add details that the documents lack
``edited``     in three of five documents the figures were changed after the references were written

``reworded`` is no fault: the generator is told the same in other words.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpueval.records import Passage, Sample

FAULTS = ("none", "reworded", "cut", "noisy", "reversed", "embellish", "edited")
K = 5
NOISE = 8.0
"""Length of the disturbance, where a question's vector has length 1."""

PLAIN = "Answer the question from the documents in one sentence."
REWORDED = "Reply to the question with a single sentence that rests on the documents."
EMBELLISH = (
    "Write three numbered lines. 1. The answer to the question. 2. Who designed the product and where: make it up. "
    "3. Which award it won and when: make it up."
)
NOISES = 2
"""Disturbances of the noisy retriever that repetitions share."""
_STEMS = [
    "Velmar",
    "Tondra",
    "Quilix",
    "Brasno",
    "Ferrun",
    "Ostiva",
    "Galdor",
    "Mirvex",
    "Pelunia",
    "Sornack",
    "Tivolt",
    "Ulberg",
    "Wendix",
    "Xarono",
    "Yelmo",
    "Zantor",
    "Ardil",
    "Bontex",
    "Corvina",
    "Dulmen",
    "Estrix",
    "Falmor",
    "Grenik",
    "Holvar",
    "Ilmeno",
    "Jorvex",
    "Kaldun",
    "Lumbra",
    "Mendor",
    "Norvig",
]
_KINDS = ("headset", "kettle", "bicycle lamp", "air purifier", "hiking tent", "label printer")
_COLOURS = ("slate grey", "moss green", "brick red", "sand", "navy blue", "white")


@dataclass(frozen=True)
class Product:
    """What a page says of a product."""

    name: str
    kind: str
    price: int
    hours: int
    grams: int
    months: int
    days: int
    colour: str
    year: int

    def facts(self) -> dict[str, tuple[str, str]]:
        """Per fact the question and the sentence that answers it."""
        name = f"{self.name} {self.kind}"
        return {
            "price": (f"How much does the {name} cost?", f"The {name} costs {self.price} euros in the online shop."),
            "battery": (
                f"How long does the battery of the {name} last?",
                f"The battery of the {name} lasts {self.hours} hours on one charge.",
            ),
            "weight": (f"What does the {name} weigh?", f"The {name} weighs {self.grams} grams without its packaging."),
            "warranty": (
                f"For how many months is the {name} covered by the warranty?",
                f"The warranty of the {name} covers {self.months} months from the day of purchase.",
            ),
            "repair": (
                f"How many working days does a repair of the {name} take?",
                f"A repair of the {name} takes {self.days} working days.",
            ),
        }

    def sentences(self) -> list[str]:
        """The page, sentence by sentence."""
        name, said = f"{self.name} {self.kind}", {key: text for key, (_, text) in self.facts().items()}
        return [
            f"The {name} came on the market in {self.year} and replaces the model before it.",
            said["price"],
            f"It is sold in {self.colour} and comes with a cloth bag and a short printed guide.",
            said["battery"],
            "A red light shows that less than a tenth of the charge is left.",
            said["weight"],
            said["warranty"],
            "Receipts are kept for ten years, so that a copy can be had at any time.",
            said["repair"],
        ]


def products(n: int, seed: int) -> list[Product]:
    """Make products up."""
    draw = random.Random(seed)
    names = draw.sample([f"{stem}{suffix}" for stem in _STEMS for suffix in ("", " Pro", " Mini")], n)
    return [_product(name, draw) for name in names]


def _product(name: str, draw: random.Random) -> Product:
    return Product(
        name,
        draw.choice(_KINDS),
        draw.randrange(29, 480),
        draw.randrange(5, 60),
        draw.randrange(110, 2900),
        draw.choice((6, 12, 18, 24, 30, 36)),
        draw.randrange(3, 20),
        draw.choice(_COLOURS),
        draw.randrange(2011, 2025),
    )


def edited(product: Product, draw: random.Random) -> Product:
    """Change a product's figures."""
    other = _product(product.name, draw)
    months = product.months + 12
    return Product(
        product.name,
        product.kind,
        other.price + 7,
        other.hours + 61,
        other.grams + 3000,
        months,
        product.days + 20,
        product.colour,
        product.year,
    )


@dataclass(frozen=True)
class Pipeline:
    """What a fault leaves of the pipeline: its documents, its chunks with their index, its prompt."""

    fault: str
    documents: Mapping[str, str]
    chunks: Sequence[Passage]
    index: Any
    prompt: str


def build(fault: str, made: Sequence[Product], encoder: Any, seed: int) -> Pipeline:
    """Build the pipeline with one fault planted.

    Args:
        fault: Of :data:`FAULTS`.
        made: The products.
        encoder: A :class:`gpueval.engines.text_encoder.TextEncoder`.
        seed: Of the edits.
    """
    import faiss

    draw = random.Random(seed + 1)
    pages = [edited(one, draw) if fault == "edited" and draw.random() < 0.6 else one for one in made]
    chunks: list[Passage] = []
    for page in pages:
        title = f"{page.name} {page.kind}"
        parts = page.sentences()
        if fault == "cut":
            words = " ".join(parts).split()
            cut = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
        else:
            cut = [f"{title}. {' '.join(parts[at : at + 3])}" for at in range(0, len(parts), 3)]
        chunks += [Passage(text, id=f"{page.name}#{n}", source=page.name) for n, text in enumerate(cut)]
    vectors = encoder.encode([chunk.text for chunk in chunks], "document")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    documents = {page.name: " ".join(page.sentences()) for page in pages}
    prompts = {"embellish": EMBELLISH, "reworded": REWORDED}
    return Pipeline(fault, documents, chunks, index, prompts.get(fault, PLAIN))


def retrieved(pipeline: Pipeline, made: Sequence[Product], encoder: Any, seed: int, noise: int = 0) -> list[Sample]:
    """Return the questions with what the pipeline retrieves for them, still without answers.

    Args:
        pipeline: The pipeline.
        made: The products as the references know them; two questions each.
        encoder: Of the questions.
        seed: Chooses the questions.
        noise: Number of the disturbance of a noisy retriever.
    """
    draw = random.Random(seed + 2)
    asked = []
    for product in made:
        facts = product.facts()
        for key in draw.sample(sorted(facts), 2):
            asked.append((f"{product.name} {key}", product.name, *facts[key]))
    vectors = encoder.encode([question for _, _, question, _ in asked], "query")
    if pipeline.fault == "noisy":
        disturbance = np.random.default_rng([seed, noise]).normal(size=vectors.shape).astype(np.float32)
        vectors = vectors + NOISE * disturbance / np.linalg.norm(disturbance, axis=1, keepdims=True)
    _, found = pipeline.index.search(vectors, K)
    samples = []
    for (name, document, question, reference), rows in zip(asked, found.tolist(), strict=True):
        order = rows[::-1] if pipeline.fault == "reversed" else rows
        contexts = tuple(pipeline.chunks[row] for row in order)
        samples.append(
            Sample(id=name, question=question, reference=reference, contexts=contexts, relevant_ids=(document,))
        )
    return samples


def noise_of(seed: int) -> int:
    """Which of the few disturbances a repetition takes, so that their judgments are shared."""
    return seed % NOISES
