"""What declines and what states a fact that happens to hold a "not"."""

from __future__ import annotations

import pytest

from gpueval.metrics.abstention import abstains, says_nothing


@pytest.mark.parametrize(
    "text",
    [
        "I don't know.",
        "I'm sorry, but I don't know.",
        "I am afraid I cannot answer that.",
        "The documents don't say.",
        "I'm sorry, but the provided documents do not contain information about that.",
        "The given context does not mention the price.",
        "The handbook does not specify this.",
        "not stated in the documents",
        "Not mentioned.",
        "Unknown.",
        "It is not specified.",
        "There is no information about prices in the context.",
        "No relevant information was found.",
        "This question cannot be answered.",
        "It cannot be determined from the provided documents.",
        "Das weiß ich nicht; ich weiß es nicht.",
        "Die Unterlagen enthalten dazu keine Angaben.",
        "Je ne sais pas.",
        "No lo sé.",
        "我不知道。",
    ],
)
def test_declines(text) -> None:
    assert abstains((text,))


@pytest.mark.parametrize(
    "text",
    [
        "The handbook does not cover water damage.",
        "It is not covered by the warranty.",
        "A 404 error means that the page cannot be found.",
        "The password cannot be found in plain text.",
        "Not available in Germany.",
        "Not covered.",
        "The text does not include VAT.",
        "The document does not contain personal data.",
        "The battery material does not contain lead.",
        "It is not known to cause cancer.",
        "No information about you is available to advertisers.",
        "No details are shared outside the knowledge base.",
        "The API does not return information about deleted users.",
        "No information is sent to third parties.",
        "I don't know exactly, but it costs 30 euros.",
        "Sorry, it costs 30 euros.",
    ],
)
def test_states_a_fact(text) -> None:
    assert not abstains((text,))
    assert not says_nothing(text)


@pytest.mark.parametrize("text", ["Sure.", "Of course.", "Feel free to return it within 30 days at no cost.", "Yes."])
def test_says_something(text) -> None:
    assert not says_nothing(text)


@pytest.mark.parametrize("text", ["Hello!", "Hope this helps.", "Thank you for asking!", "Sorry.", "What else?", "…"])
def test_says_nothing(text) -> None:
    assert says_nothing(text)
