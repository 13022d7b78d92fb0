"""Nearest vectors: both implementations against a plain definition in float64, on ordinary and on hostile input."""

from __future__ import annotations

import numpy as np
import pytest

from gpueval_kernels import TopK, cosine_topk


def plain(queries, documents, k, similarity="cosine", ranges=None, mask=None):
    """The definition, one pair after the other."""
    with np.errstate(over="ignore", invalid="ignore"):
        q, d = queries.astype(np.float64), documents.astype(np.float64)
        fit_q, fit_d = (np.isfinite((one.astype(np.float32) ** 2).sum(1)) for one in (queries, documents))
    scores = np.full((len(q), k), -np.inf, np.float32)
    ids = np.full((len(q), k), -1)
    for i in range(len(q)):
        found = []
        for j in range(len(d)):
            hidden = (ranges is not None and not ranges[i, 0] <= j < ranges[i, 1]) or (
                mask is not None and not mask[i, j]
            )
            if hidden or not fit_q[i] or not fit_d[j]:
                continue
            score = float(q[i] @ d[j])
            if similarity == "cosine":
                lengths = np.linalg.norm(q[i]), np.linalg.norm(d[j])
                score = score / (lengths[0] * lengths[1]) if min(lengths) >= 2.0**-45 else 0.0
            found.append((-np.float32(score), j))
        for place, (score, j) in enumerate(sorted(found)[:k]):
            scores[i, place], ids[i, place] = -score, j
    return scores, ids


def check(found, expected) -> None:
    np.testing.assert_allclose(found.scores, expected[0], rtol=3e-7, atol=1e-7)
    np.testing.assert_array_equal(found.ids, expected[1])


def vectors(seed, n, d, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(
    ("n", "m", "d", "k"),
    [(1, 1, 1, 1), (1, 1, 7, 5), (3, 31, 5, 4), (5, 33, 64, 33), (65, 129, 65, 3), (2, 600, 130, 10), (7, 300, 3, 1)],
)
def test_odd_sizes(run, n, m, d, k, similarity) -> None:
    q, docs = vectors(1, n, d), vectors(2, m, d)
    check(run(cosine_topk, q, docs, k, similarity=similarity), plain(q, docs, k, similarity))


def test_half_precision_input_is_scored_exactly(run) -> None:
    q, docs = vectors(1, 4, 48, np.float16), vectors(2, 200, 48, np.float16)
    check(run(cosine_topk, q, docs, 6), plain(q, docs, 6))


def test_bfloat16_input(run) -> None:
    torch = pytest.importorskip("torch", reason="NumPy has no bfloat16")
    if run.is_triton and not run.on_gpu:
        pytest.skip("Triton's interpreter has no product of bfloat16")
    q, docs = (torch.from_numpy(vectors(seed, n, 48)).to(run.device).bfloat16() for seed, n in ((1, 4), (2, 200)))
    check(run(cosine_topk, q, docs, 6), plain(q.float().cpu().numpy(), docs.float().cpu().numpy(), 6))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_hostile_vectors(run, similarity) -> None:
    q, docs = vectors(1, 8, 20), vectors(2, 1000, 20)
    docs[[3, 200]] = np.nan
    docs[4, 7], docs[5, 0], docs[6] = np.inf, -np.inf, 3e38
    docs[10] = 0
    docs[100:180] = docs[99]  # more equal documents than places and than spare candidates
    docs[350] = docs[99]
    q[1] = 0
    q[2, 3] = np.nan
    q[3] = docs[99]
    q[4] = -docs[99]
    q[5] *= 1e-12
    q[6] *= 1e-22
    docs[400:500] *= 1e-22
    docs[500:600] *= 1e-12
    check(run(cosine_topk, q, docs, 9, similarity=similarity), plain(q, docs, 9, similarity))


def test_every_document_equal(run) -> None:
    docs = np.repeat(vectors(3, 1, 16), 700, axis=0)
    found = run(cosine_topk, vectors(4, 2, 16), docs, 5)
    np.testing.assert_array_equal(found.ids, [[0, 1, 2, 3, 4]] * 2)


def test_nearly_equal_documents_are_ordered_by_their_exact_scores(run) -> None:
    base = vectors(5, 1, 96)
    docs = np.repeat(base, 1200, axis=0)
    docs[:, 0] += np.random.default_rng(6).permutation(1200).astype(np.float32) * 2e-7
    check(run(cosine_topk, base, docs, 8), plain(base, docs, 8))


def test_ranges_and_masks(run) -> None:
    q, docs = vectors(1, 5, 12), vectors(2, 150, 12)
    ranges = np.array([[0, 150], [10, 13], [40, 40], [149, 150], [30, 101]])
    mask = np.random.default_rng(3).random((5, 150)) < 0.3
    mask[4] = False
    check(run(cosine_topk, q, docs, 6, ranges=ranges), plain(q, docs, 6, ranges=ranges))
    check(run(cosine_topk, q, docs, 6, mask=mask), plain(q, docs, 6, mask=mask))
    check(run(cosine_topk, q, docs, 6, ranges=ranges, mask=mask), plain(q, docs, 6, ranges=ranges, mask=mask))


def test_a_mask_of_numbers_hides_where_it_is_zero(run) -> None:
    q, docs = vectors(1, 2, 12), vectors(2, 40, 12)
    mask = np.random.default_rng(3).integers(0, 2, (2, 40))
    for given in (mask, mask.astype(np.uint8) * 255, mask * 256):
        check(run(cosine_topk, q, docs, 6, mask=given), plain(q, docs, 6, mask=mask != 0))


def test_other_types_of_numbers(run) -> None:
    q, docs = np.rint(vectors(1, 3, 20) * 9), np.rint(vectors(2, 50, 20) * 9)
    wanted = plain(q, docs, 4)
    for types in ((np.float64, np.float64), (np.int64, np.int64), (np.float16, np.float32), (np.float32, np.float16)):
        check(run(cosine_topk, q.astype(types[0]), docs.astype(types[1]), 4), wanted)


def test_blocks_give_what_one_call_gives(run) -> None:
    q, docs = vectors(1, 6, 24), vectors(2, 210, 24)
    docs[150:160] = docs[20]
    whole = run(cosine_topk, q, docs, 7)
    carry = None
    for first in (0, 64, 65, 130):
        last = {0: 64, 64: 65, 65: 130, 130: 210}[first]
        carry = run(cosine_topk, q, docs[first:last], 7, first_id=first, carry=carry)
    np.testing.assert_array_equal(carry.ids, whole.ids)
    np.testing.assert_array_equal(carry.scores, whole.scores)


@pytest.mark.parametrize(("n", "m"), [(0, 5), (3, 0), (0, 0)])
def test_empty(run, n, m) -> None:
    found = run(cosine_topk, vectors(1, n, 4), vectors(2, m, 4), 3)
    assert found.ids.shape == (n, 3)
    assert (found.ids == -1).all()
    assert np.isneginf(found.scores).all()


def test_earlier_results_that_are_empty_stay_empty(run) -> None:
    nothing = TopK(np.full((2, 2), -np.inf, np.float32), np.full((2, 2), -1), "reference")
    found = run(cosine_topk, vectors(1, 2, 4), vectors(2, 1, 4), 2, carry=nothing, first_id=9)
    np.testing.assert_array_equal(found.ids, [[9, -1], [9, -1]])


@pytest.mark.parametrize(
    "bad",
    [
        {"k": 0},
        {"similarity": "euclid"},
        {"ranges": np.zeros((1, 2))},
        {"mask": np.ones((2, 4), bool)},
        {"carry": TopK(np.zeros((2, 1), np.float32), np.zeros((2, 1), np.int64), "reference")},
        {"documents": np.ones((3, 5), np.float32)},
    ],
)
def test_bad_input_is_refused(bad) -> None:
    given = {"queries": np.ones((2, 4), np.float32), "documents": np.ones((3, 4), np.float32), "k": 2}
    with pytest.raises(ValueError, match=r"go together|at least|similarity|shape"):
        cosine_topk(**given | bad)
