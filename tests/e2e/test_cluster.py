"""The judge on a real Ray cluster: same scores as alone, deaths of actors and nodes, poison, no room."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="pip install 'gpueval[ray]'")

import ray

import gpueval
from gpueval.engines import as_one
from gpueval.engines.ray_replica import NoPlace, Recipe, start_replicas
from gpueval.judge.prompts import SUPPORT
from gpueval.records import Request, State

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
)

SLOW_JUDGE = '''
"""A judge for workers of the tests: a request takes 10 ms; one that says so kills the process."""
import os, time
from gpueval.records import Completion

class Slow:
    fingerprint, max_prompt_tokens = "slow", 4096
    def count_tokens(self, text): return len(text)
    def facts(self): return {"pid": os.getpid(), "n_seen": 0}
    def close(self): pass
    def run(self, requests):
        for request in requests:
            time.sleep(0.01)
            if "poison" in request.parts[-1]:
                os._exit(1)
            yield Completion(request.key, labels=(0.9, 0.1, 0.0))
'''


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A cluster of two nodes with one core each."""
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("workers")
    (folder / "slow_judge.py").write_text(SLOW_JUDGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        store = {"object_store_memory": 80 * 2**20}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1} | store)
        second = cluster.add_node(num_cpus=1, **store)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster, second
        ray.shutdown()
        cluster.shutdown()


def asked(n, poison=()):
    return [
        Request(
            f"{i}".encode().ljust(16), SUPPORT, (f"passage {i // 4}", f"poison {i}" if i in poison else f"claim {i}")
        )
        for i in range(n)
    ]


SLOW = Recipe("slow_judge:Slow", (), cpus=1.0)


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_no_room_is_said_before_anything_is_judged(nodes, monkeypatch) -> None:
    monkeypatch.setattr("gpueval.engines.ray_replica._PLACE_S", 5.0)
    with pytest.raises(NoPlace, match="no place for replica") as error:
        start_replicas(SLOW, 3)
    assert error.value.exit_code == 3
    assert "1 CPUs on one node" in error.value.message


def test_an_actor_that_dies_comes_back_and_poison_is_found(nodes, capsys) -> None:
    both = as_one(start_replicas(SLOW, 2))
    requests = asked(600, poison=(301,))
    found = list(both.run(requests))
    both.close()
    assert sorted(one.key for one in found) == sorted(request.key for request in requests)
    assert [(one.key.strip(), one.failure, one.fatal) for one in found if one.failure] == [
        (b"301", State.ENGINE_ERROR, True)
    ]
    assert "starting it again" in capsys.readouterr().err


def test_a_node_that_dies_leaves_its_work_to_the_other(nodes, monkeypatch) -> None:
    cluster, second = nodes
    monkeypatch.setattr("gpueval.engines.ray_replica._PLACE_S", 5.0)
    both = as_one(start_replicas(SLOW, 2))
    requests = asked(1500)
    timer = later(1.5, lambda: cluster.remove_node(second, allow_graceful=False))
    began = time.monotonic()
    found = list(both.run(requests))
    timer.join()
    both.close()
    assert sorted(one.key for one in found) == sorted(request.key for request in requests)
    assert not [one for one in found if one.failure]
    assert time.monotonic() - began > 8  # 15 s of work for two, of which one was lost soon


def test_two_replicas_of_a_real_judge_score_as_one(nodes, models, vllm_judge, tmp_path) -> None:
    cluster, _ = nodes
    if len(ray.nodes()) < 2 or not cluster.list_all_nodes()[1:]:
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    samples = Path("gpueval/example/handbook.jsonl")
    options = {"metrics": ["faithfulness", "context_recall", "answer_relevancy"]}
    settings = {"max_model_len": 2048, "kv_cache_gib": 1, "max_num_seqs": 32}
    one = gpueval.evaluate(samples, judge=vllm_judge, embedder=str(models[1]), out=tmp_path / "one", **options)
    two = gpueval.evaluate(
        samples,
        judge=str(models[0]),
        embedder=str(models[1]),
        out=tmp_path / "two",
        ray="auto",
        replicas=2,
        engine_options=settings,
        **options,
    )
    facts = json.loads((tmp_path / "two" / "run.json").read_text())
    assert facts["judge"]["replicas"] == facts["embedder"]["replicas"] == 2
    pairs = list(zip(one.cells(), two.cells(), strict=True))
    for a, b in pairs:
        assert {k: v["state"] for k, v in a["scores"].items()} == {k: v["state"] for k, v in b["scores"].items()}
    apart = [
        abs(x["p"] - y["p"])
        for a, b in pairs
        for name in ("faithfulness", "context_recall")
        for x, y in zip(a["scores"][name].get("claims", []), b["scores"][name].get("claims", []), strict=True)
    ]
    assert apart
    assert max(apart) < 0.02  # bfloat16, other batches
