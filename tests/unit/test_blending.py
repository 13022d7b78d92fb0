"""Claims that mix two documents are flagged with both sentences; honest conclusions from two are not."""

from __future__ import annotations

import pytest

import gpueval
from gpueval.records import Passage

MIXED = [
    (
        "The Lisbon office opened in 2004 and employs 30 people.",
        "The Porto office opened in 2011 and employs 12 people.",
        "The Lisbon office employs 12 people.",
    ),
    (
        "Dr. Weiss treats patients on Tuesdays.",
        "Dr. Adler treats patients on Fridays.",
        "Dr. Weiss treats patients on Fridays.",
    ),
    (
        "Acme acquired Bolt in 2015 for $20 million.",
        "Cyan acquired Delta in 2018 for $45 million.",
        "Acme acquired Bolt in 2018.",
    ),
    ("Jane Austen wrote Emma.", "Mary Shelley wrote Frankenstein.", "Jane Austen wrote Frankenstein."),
    ("Employees get 30 days of leave.", "Contractors get 10 days of leave.", "Employees get 10 days of leave."),
    ("The Nile flows through Egypt.", "The Danube flows through Vienna.", "The Nile flows through Vienna."),
]
HONEST = [
    ("Jane Austen wrote Emma.", "Emma was published in 1815.", "Jane Austen's novel Emma was published in 1815."),
    ("The CEO of Acme is Lee Park.", "Lee Park studied physics in Seoul.", "The CEO of Acme studied physics in Seoul."),
    (
        "The Nile flows through Egypt.",
        "Egypt borders the Red Sea.",
        "The Nile flows through a country that borders the Red Sea.",
    ),
    (
        "Employees get 30 days of leave.",
        "Contractors get 10 days of leave.",
        "Employees get more days of leave than contractors.",
    ),
    (
        "The warranty covers the battery.",
        "The battery must be registered within 30 days.",
        "The warranty covers the battery, which must be registered within 30 days.",
    ),
    (
        "Tickets cost 12 euros.",
        "Children under six enter free.",
        "Tickets cost 12 euros, and children under six enter free.",
    ),
    ("The mill burnt down in 1994.", "The bakery opened in 2001.", "The school was painted green."),
]


@pytest.fixture
def blending(scripted, sample, tmp_path):
    """Score an answer over two documents; the judge supports what ``together`` and ``alone`` say."""

    def scored(first, second, claim, *, together=0.4, alone=0.1, sources=("a", "b")):
        def support(request):
            return together if first in request.parts[0] and second in request.parts[0] else alone

        contexts = (Passage(first, id="d1", source=sources[0]), Passage(second, id="d2", source=sources[1]))
        asked = sample(answer=claim, contexts=contexts)
        result = gpueval.evaluate([asked], judge=scripted(support=support), metrics=["blending"], out=tmp_path)
        return next(iter(result.cells()))["scores"]["blending"]

    return scored


@pytest.mark.parametrize(("first", "second", "claim"), MIXED)
def test_swapped_relations_and_crossed_dates_are_flagged_whether_or_not_the_judge_believes_them(
    blending, first, second, claim
) -> None:
    for together in (0.2, 0.8):
        cell = blending(first, second, claim, together=together)
        assert cell["value"] == 1.0
        assert cell["blended"] == [{"claim": claim, "documents": ["a", "b"], "sentences": [first, second]}]


@pytest.mark.parametrize(("first", "second", "claim"), HONEST)
def test_honest_conclusions_are_not_flagged_and_counted_as_synthesis(blending, first, second, claim) -> None:
    cell = blending(first, second, claim, together=0.8)
    assert cell["value"] == 0.0
    assert cell["n_synthesis"] == 1
    assert "blended" not in cell


def test_a_claim_that_one_document_supports_is_not_blended(blending) -> None:
    assert blending(*MIXED[0], alone=0.9)["value"] == 0.0


def test_sentences_of_one_document_are_not_mixed(blending) -> None:
    assert blending(*MIXED[0], sources=("a", "a"))["value"] == 0.0


def test_a_missing_verdict_leaves_the_answer_open(scripted, sample, tmp_path) -> None:
    from gpueval.records import Completion

    def support(request):
        return Completion(request.key, failure="timeout") if "Porto" in request.parts[0] else 0.1

    first, second, claim = MIXED[0]
    asked = sample(answer=f"{claim} The Lisbon office has a garden.", contexts=[first, second])
    result = gpueval.evaluate([asked], judge=scripted(support=support), metrics=["blending"], out=tmp_path)
    cell = next(iter(result.cells()))["scores"]["blending"]
    assert (cell["state"], cell["low"], cell["high"]) == ("partial", 0.0, 0.5)
