"""Failing claims that say alike: clusters by meaning, each with a label that can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpueval.diagnosis.diagnose import FailingClaim
from gpueval.diagnosis.failures import Failure
from gpueval.lazy import require
from gpueval.metrics.wording import key, telling, tokens_of

MOST_CLAIMS = 5_000
"""Claims clustered at most, evenly over the run: the clustering compares all pairs."""

_TERMS, _EXAMPLES = 3, 5


class Encoder(Protocol):
    """Turns texts into vectors of length 1."""

    def encode(self, texts: Sequence[str], kind: Any) -> NDArray[np.float32]:
        """Return (texts, dimensions) float32."""
        ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failing claims that say alike.

    Attributes:
        label: The claim nearest to the cluster's centre.
        terms: Words that set it apart from the other clusters, the most telling first.
        n: Claims.
        n_samples: Samples they come from.
        kinds: Claims per kind of failure, most frequent first.
        examples: Claims nearest to the centre, each of another sample, with the sample's id.
    """

    label: str
    terms: tuple[str, ...]
    n: int
    n_samples: int
    kinds: dict[Failure, int]
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters of a run's failing claims.

    Attributes:
        clusters: The largest first.
        n_claims: Claims that were clustered.
        n_left_out: Failing claims above :data:`MOST_CLAIMS`.
        n_alone: Claims in no cluster.
    """

    clusters: tuple[Cluster, ...]
    n_claims: int
    n_left_out: int
    n_alone: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def find_clusters(claims: Sequence[FailingClaim], encoder: Encoder, *, smallest: int = 3) -> Clusters:
    """Cluster failing claims by meaning: HDBSCAN (Campello et al. 2013) as kept by scikit-learn, on unit vectors.

    The number of clusters is found, not given, and what lies alone stays alone. O(n^2) time for n claims, at most
    :data:`MOST_CLAIMS`.

    Args:
        claims: The failing claims of a run.
        encoder: Of the claims.
        smallest: Fewest claims of a cluster.

    Raises:
        PrerequisiteError: scikit-learn is not installed.
    """
    step = max(1, -(-len(claims) // MOST_CLAIMS))
    some = claims[::step]
    if len(some) < 2 * smallest:
        return Clusters((), len(some), len(claims) - len(some), len(some))
    vectors = encoder.encode([claim.text for claim in some], "query")
    method, given = require("sklearn.cluster", "diagnose").HDBSCAN, {"min_cluster_size": smallest, "min_samples": 1}
    labels: NDArray[np.int64] = method(**given, copy=True).fit_predict(vectors)
    if labels.max() < 0:  # it never takes all for one cluster unless it may
        labels = method(**given, copy=True, allow_single_cluster=True).fit_predict(vectors)
    members = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    terms = _terms([[some[i].text for i in rows] for rows in members])
    found = [_cluster([some[i] for i in rows], vectors[rows], own) for rows, own in zip(members, terms, strict=True)]
    found.sort(key=lambda one: -one.n)
    return Clusters(tuple(found), len(some), len(claims) - len(some), int((labels < 0).sum()))


def _cluster(claims: Sequence[FailingClaim], vectors: NDArray[np.float32], terms: tuple[str, ...]) -> Cluster:
    order = np.argsort(-(vectors @ vectors.mean(axis=0)), kind="stable").tolist()
    examples: dict[str, str] = {}
    for i in order:
        examples.setdefault(claims[i].sample, claims[i].text)
    kinds = Counter(claim.kind for claim in claims)
    return Cluster(
        claims[order[0]].text,
        terms,
        len(claims),
        len(examples),
        dict(kinds.most_common()),
        tuple((text, sample) for sample, text in list(examples.items())[:_EXAMPLES]),
    )


def _terms(clusters: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return each cluster's most telling words.

    Class-based tf-idf (Grootendorst, BERTopic, 2022): ``tf(w, c) ln(1 + A / f(w))`` with tf the claims of the cluster
    that hold w, f those of all clusters, A the mean number of claims per cluster.
    """
    surfaces: dict[str, Counter[str]] = {}
    held = []
    for texts in clusters:
        counts = Counter[str]()
        for text in texts:
            counts.update(telling(text))
            for token in tokens_of(text):
                surfaces.setdefault(key(token), Counter())[token] += 1
        held.append(counts)
    total = sum(held, Counter[str]())
    mean = sum(len(texts) for texts in clusters) / max(1, len(clusters))
    found = []
    for counts in held:
        weights = {word: n * log(1 + mean / total[word]) for word, n in counts.items() if n > 1 or len(counts) == 1}
        best = sorted(weights, key=lambda word: (-weights[word], word))[:_TERMS]
        found.append(tuple(surfaces[word].most_common(1)[0][0] for word in best))
    return found
