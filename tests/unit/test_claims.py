"""Sentences as claims: what leans on the question is read with what follows."""

from __future__ import annotations

import pytest

from gpueval.judge.claims import from_sentences


@pytest.mark.parametrize(
    ("parts", "claims"),
    [
        (["Yes.", "It is a twelve-bar blues song."], ["Yes. It is a twelve-bar blues song."]),
        (["yes !", "It does.", "Skiing is a sport."], ["yes ! It does. Skiing is a sport."]),
        (["It really is .", "It lies between blue and yellow."], ["It really is . It lies between blue and yellow."]),
        (["Ja.", "Der Vertrag endet 2021."], ["Ja. Der Vertrag endet 2021."]),
        (["i believe it was.", "The tombs are old."], ["i believe it was. The tombs are old."]),
        (["Yes."], ["Yes."]),
        (["The mill burnt down.", "Yes."], ["The mill burnt down.", "Yes."]),
        (["Hello!", "No.", "Thanks for asking!", "It costs 3 euros."], ["No. It costs 3 euros."]),
        (["It is red.", "It does not work."], ["It is red.", "It does not work."]),
        (["There are no buses.", "That is all."], ["There are no buses.", "That is all."]),
        (
            ["No dogs are allowed.", "Right turns are forbidden."],
            ["No dogs are allowed.", "Right turns are forbidden."],
        ),
        (["是的。", "门票十元。"], ["是的。 门票十元。"]),
        ([], []),
    ],
)
def test_claims_of_sentences(parts, claims) -> None:
    assert list(from_sentences(parts)) == claims
