"""Corpora, stored vectors, exact and FAISS search, with an encoder that needs no model."""

from __future__ import annotations

import sys
import types
from hashlib import blake2b
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from gpueval.engines.text_encoder import batches
from gpueval.errors import DataError, PrerequisiteError, UsageError
from gpueval.report.tradeoff import tradeoff_svg
from gpueval.retrieval.corpus import beir_grades, locate, texts
from gpueval.retrieval.indexes import build, check, search, settings
from gpueval.retrieval.search import Found, agreement, exact, lists_of
from gpueval.retrieval.vectors import VectorStore


class Hashed:
    """Maps a text to a vector that its words decide."""

    dimensions = 16
    block_texts = 8192

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, some, kind):
        self.asked += some
        found = np.zeros((len(some), self.dimensions), np.float32)
        for row, text in zip(found, some, strict=True):
            for word in text.split():
                row += np.random.default_rng(
                    int.from_bytes(blake2b((word + kind).encode(), digest_size=4).digest(), "big")
                ).normal(size=self.dimensions)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def test_batches_hold_every_text_once_within_the_token_budget() -> None:
    lengths = np.array([5, 900, 30, 30, 2, 512, 7, 9000])
    found = list(batches(lengths, 1000))
    assert sorted(np.concatenate(found).tolist()) == list(range(8))
    for rows in found:
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= 1000
    assert list(batches(np.zeros(0, np.int64))) == []


def test_a_text_is_encoded_once_and_a_crash_between_the_files_costs_one_block(tmp_path) -> None:
    encoder = Hashed()
    store = VectorStore(tmp_path, 16)
    rows = store.add(["a b", "c", "a b"], encoder, "document")
    assert rows.tolist() == [0, 1, 0]
    assert encoder.asked == ["a b", "c"]
    again = VectorStore(tmp_path, 16)
    assert again.add(["c", "d"], encoder, "document").tolist() == [1, 2]
    assert encoder.asked == ["a b", "c", "d"]
    with (tmp_path / "vectors.f32").open("ab") as stream:  # vectors without keys: the process was killed in between
        stream.write(bytes(100))
    torn = VectorStore(tmp_path, 16)
    assert len(torn) == 3
    assert torn.add(["e"], encoder, "document").tolist() == [3]
    assert np.allclose(torn.take(np.array([3, 0])), Hashed().encode(["e", "a b"], "document"))


def test_rows_are_identified_by_their_texts_not_by_their_numbers(tmp_path) -> None:
    first, second = VectorStore(tmp_path / "1", 16), VectorStore(tmp_path / "2", 16)
    one = first.add(["a", "b"], Hashed(), "document")
    other = second.add(["c", "d"], Hashed(), "document")
    assert one.tolist() == other.tolist()
    assert first.digest_of(one) != second.digest_of(other)
    again = second.add(["a", "b"], Hashed(), "document")
    assert first.digest_of(one) == second.digest_of(again)


@pytest.fixture
def store(tmp_path):
    """500 documents, some of them twice."""
    names = [f"w{i % 190} w{i % 7}" for i in range(500)]
    made = VectorStore(tmp_path / "vectors", 16)
    return made, made.add(names, Hashed(), "document")


def brute(queries, vectors, k):
    scores = queries @ vectors.T
    return np.array([sorted(range(len(row)), key=lambda i: (-row[i], i))[:k] for row in scores])


def test_exact_search_equals_brute_force_with_ties_and_in_small_blocks(store, monkeypatch) -> None:
    made, rows = store
    vectors = made.take(rows)
    queries = Hashed().encode([f"w{i}" for i in range(20)], "document")
    wanted = brute(queries, vectors, 30)
    for size in (500, 64, 7):
        blocks = VectorStore.blocks
        monkeypatch.setattr(VectorStore, "blocks", lambda self, r, _=0, size=size, blocks=blocks: blocks(self, r, size))
        found = exact(queries, made, rows, 30)
        scores = np.take_along_axis(queries @ vectors.T, wanted, 1)
        assert np.allclose(found.scores, scores, atol=1e-6)
        assert (found.documents == wanted).mean() > 0.97  # equal documents may differ in the last bit between blocks
        monkeypatch.undo()
    assert exact(queries, made, rows[:5], 30).documents.shape == (20, 5)


def test_equal_scores_go_to_the_lower_document(tmp_path) -> None:
    made = VectorStore(tmp_path, 16)
    rows = made.add(["same", "other", "same", "same"], Hashed(), "document")
    found = exact(Hashed().encode(["same"], "document"), made, rows, 3)
    assert found.documents.tolist() == [[0, 2, 3]]


def test_an_index_is_measured_by_documents_not_by_the_scores_it_claims(tmp_path) -> None:
    made = VectorStore(tmp_path, 16)
    rows = made.add(["a b", "c", "a b", "d e", "f"], Hashed(), "document")
    queries = Hashed().encode(["a b", "c"], "document")
    truth = exact(queries, made, rows, 1)
    assert truth.documents.tolist() == [[0], [1]]
    for documents, share in (([[2], [1]], 1.0), ([[3], [1]], 0.5), ([[-1], [4]], 0.0)):
        claimed = Found(np.array(documents), np.array([[2.0], [2.0]], np.float32), 0.0)
        assert agreement(claimed, truth, 1, queries, made, rows) == share


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_faiss_indexes_agree_with_the_exact_search_and_are_reused(store, tmp_path, kind) -> None:
    pytest.importorskip("faiss", reason="pip install 'gpueval[retrieve]'")
    made, rows = store
    queries = Hashed().encode([f"w{i} w{i % 7}" for i in range(50)], "document")
    truth = exact(queries, made, rows, 10)
    file = tmp_path / f"{kind}.faiss"
    built = build(kind, made, rows, 16, file)
    widest = settings(kind, built.index, 10)[-1]
    found = search(kind, built, queries, 10, widest)
    assert np.allclose(found.scores[:, 0], truth.scores[:, 0], atol=1e-5)
    if kind == "flat":
        assert np.allclose(found.scores, truth.scores, atol=1e-5)
    assert agreement(found, truth, 10, queries, made, rows) > 0.6
    again = build(kind, made, rows, 16, file)
    assert again.seconds == 0
    assert np.array_equal(search(kind, again, queries, 10, widest).documents, found.documents)


def test_product_quantisation_says_that_it_needs_more_documents() -> None:
    pytest.importorskip("faiss", reason="pip install 'gpueval[retrieve]'")
    with pytest.raises(UsageError, match="needs 10,000 documents"):
        check(["hnsw", "ivfpq"], 9_999)
    check(["hnsw", "ivfpq"], 10_000)


class _FakeGpuFaiss(types.ModuleType):
    """faiss-cpu with the names that faiss-gpu-cuvs adds; its "GPU" indexes are CPU indexes that know where they are."""

    def __init__(self, gpus: int = 1) -> None:
        import faiss

        super().__init__("faiss")
        self.__dict__.update({name: value for name, value in vars(faiss).items() if name != "__name__"})
        self.moved: list[str] = []

        class Cagra:
            def __init__(self, resources, dimensions, metric, config) -> None:
                assert isinstance(resources, StandardGpuResources)
                assert config.graph_degree > 0
                self.index = faiss.IndexHNSWFlat(dimensions, 32, metric)

            def train(self, vectors) -> None:
                self.index.add(vectors)

            def search(self, queries, k, *, params):
                assert params.itopk_size % 32 == 0
                assert params.itopk_size >= k
                return self.index.search(queries, k, params=faiss.SearchParametersHNSW(efSearch=params.itopk_size))

        class StandardGpuResources:
            pass

        def index_cpu_to_gpu(resources, device, index):
            assert isinstance(resources, StandardGpuResources)
            assert index.ntotal == 0 or self.moved  # it is filled there, unless it was read from disk
            self.moved.append("to gpu")
            return index

        def index_gpu_to_cpu(index):
            self.moved.append("to cpu")
            return index

        self.StandardGpuResources, self.get_num_gpus = StandardGpuResources, lambda: gpus
        self.index_cpu_to_gpu, self.index_gpu_to_cpu = index_cpu_to_gpu, index_gpu_to_cpu
        self.GpuIndexCagra, self.GpuIndexCagraConfig = Cagra, types.SimpleNamespace
        self.SearchParametersCagra = types.SimpleNamespace


@pytest.mark.parametrize("kind", ["gpu_flat", "gpu_ivf", "cagra"])
def test_indexes_on_a_gpu_take_the_same_way(store, tmp_path, monkeypatch, kind) -> None:
    pytest.importorskip("faiss", reason="pip install 'gpueval[retrieve]'")
    fake = _FakeGpuFaiss()
    monkeypatch.setitem(sys.modules, "faiss", fake)
    made, rows = store
    check([kind], 5_000)
    queries = Hashed().encode([f"w{i} w{i % 7}" for i in range(50)], "document")
    file = tmp_path / f"{kind}.faiss"
    built = build(kind, made, rows, 16, file)
    widest = settings(kind, built.index, 10)[-1]
    found = search(kind, built, queries, 10, widest)
    truth = exact(queries, made, rows, 10)
    assert np.allclose(found.scores[:, 0], truth.scores[:, 0], atol=1e-5)
    assert built.size_bytes > len(rows) * 16 * 4
    assert fake.moved == ([] if kind == "cagra" else ["to gpu", "to cpu"])
    again = build(kind, made, rows, 16, file)
    assert (again.seconds == 0) == (kind != "cagra")
    assert np.array_equal(search(kind, again, queries, 10, widest).documents, found.documents)


def test_a_missing_gpu_is_named_once_and_early(monkeypatch) -> None:
    pytest.importorskip("faiss", reason="pip install 'gpueval[retrieve]'")
    fake = _FakeGpuFaiss(gpus=0)
    monkeypatch.setitem(sys.modules, "faiss", fake)
    with pytest.raises(PrerequisiteError, match="sees no GPU"):
        check(["gpu_flat"])
    del fake.GpuIndexCagra
    with pytest.raises(PrerequisiteError, match="faiss-gpu-cuvs"):
        check(["cagra"])
    del fake.StandardGpuResources
    with pytest.raises(PrerequisiteError, match="this FAISS is faiss-cpu"):
        check(["flat", "gpu_ivf"])


def test_the_trade_off_is_drawn() -> None:
    rows = [
        {"index": "exact", "setting": None, "recall_of_exact": 1.0, "queries_per_s": 900.0},
        {"index": "hnsw", "setting": 10, "recall_of_exact": 0.62, "queries_per_s": 21_000.0},
        {"index": "hnsw", "setting": 80, "recall_of_exact": 0.97, "queries_per_s": 4_000.0},
    ]
    drawn = ElementTree.fromstring(tradeoff_svg(rows, "a < b & <script>"))
    points = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    by_speed = sorted(points, key=lambda point: float(point.get("cx")))
    assert [point[0].text.split(":")[0] for point in by_speed] == ["exact", "hnsw 80", "hnsw 10"]
    by_share = sorted(points, key=lambda point: float(point.get("cy")))
    assert [point[0].text.split(":")[0] for point in by_share] == ["exact", "hnsw 80", "hnsw 10"]
    assert not list(drawn.iter("{http://www.w3.org/2000/svg}script"))


def test_lists_leave_out_places_that_no_document_took() -> None:
    from gpueval.retrieval.search import Found

    found = Found(np.array([[1, -1]]), np.array([[0.5, -1.0]], np.float32), 1.0)
    assert list(lists_of(found, ["q"], ["a", "b"])) == [("q", (["b"], [0.5]))]


def folder(path: Path) -> Path:
    (path / "qrels").mkdir(parents=True)
    (path / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "Cats", "text": "purr"}\n{"_id": "d2", "text": "bark"}\n'
    )
    (path / "queries.jsonl").write_text('{"_id": "q1", "text": "who barks"}\n')
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    return path


def test_a_beir_folder_is_found_and_read(tmp_path) -> None:
    corpus, queries, qrels = locate(folder(tmp_path), None, None)
    assert dict(texts(corpus)) == {"d1": "Cats purr", "d2": "bark"}
    assert dict(texts(queries)) == {"q1": "who barks"}
    assert beir_grades(qrels) == {"q1": {"d2": 1.0}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"_id": "a"}\n', "line 1, field 'text': is missing"),
        ('{"text": "a"}\n', "line 1, field 'id': is missing"),
        ('{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n', "line 2, field 'id': '1' is used twice"),
        ("{\n", "line 1: is no JSON"),
        ("", "holds no line"),
    ],
)
def test_wrong_corpora_are_named_with_line_and_field(tmp_path, content, words) -> None:
    (tmp_path / "c.jsonl").write_text(content)
    with pytest.raises(DataError, match=words):
        list(texts(tmp_path / "c.jsonl"))


def test_missing_parts_are_named(tmp_path) -> None:
    made = folder(tmp_path)
    with pytest.raises(DataError, match="field 'queries': is missing"):
        locate(made / "corpus.jsonl", None, None)
    with pytest.raises(DataError, match=r"nowhere\.jsonl: does not exist"):
        locate(made / "corpus.jsonl", made / "nowhere.jsonl", None)
    (made / "qrels" / "test.tsv").write_text("q1\td2\tmuch\n")
    with pytest.raises(DataError, match="line 1: is not"):
        beir_grades(made / "qrels" / "test.tsv")


def test_an_unknown_index_is_a_usage_error(tmp_path) -> None:
    from gpueval.retrieval.retrieve import retrieve

    with pytest.raises(UsageError, match="Unknown index 'lsh'"):
        retrieve(folder(tmp_path), embedder="x", indexes=["lsh"], out=tmp_path / "out")
