"""Blocks, memory, speed, plans, and what is remembered of launches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpueval.errors import PrerequisiteError, UsageError
from gpueval.judge.run import Tally
from gpueval.launch import actual, preflight, remember, workload, workload_of_file
from gpueval.metrics import DEFAULT, choose
from gpueval.sizing import actuals, questions
from gpueval.sizing.estimate import available_bytes, size
from gpueval.sizing.hardware import Hardware, find
from gpueval.sizing.hardware.device import Device
from gpueval.sizing.kv_blocks import layout
from gpueval.sizing.memory import Load, estimate
from gpueval.sizing.model import load_model
from gpueval.sizing.model.layers import Attention, Latent, Recurrent
from gpueval.sizing.plan import Workload, make_plan
from gpueval.sizing.throughput import decode, prefill

GIB = 1 << 30
QWEN_STATE = Recurrent(8192, 4, 32 * 128 * 128, 4)


def cut(layers, **options):
    return layout(layers, **({"element_bytes": 2, "model_bytes": 2} | options))


def test_qwen36_35b_a3b_as_its_log_says() -> None:
    """299 blocks, 4.33x, 567,978 tokens at 131,072 with an fp8 cache of 5.98 GiB (research: section 2.4)."""
    found = cut([Attention(2, 256, 256)] * 10 + [QWEN_STATE] * 30, element_bytes=1)
    assert (found.block_tokens, found.bytes_per_block) == (2096, 21_463_040)
    assert found.blocks(5.98 * GIB) == 299
    assert found.blocks_per_sequence(131_072) == 69
    assert int(found.concurrency(299, 131_072) * 131_072) == 567_978


def test_qwen36_27b_with_two_ranks_and_three_draft_tokens_as_its_log_says() -> None:
    """426 blocks, 623,873 tokens at 262,144; the log's 11.05 GiB are rounded."""
    state = Recurrent(10_240, 4, 48 * 128 * 128, 4)
    found = cut([Attention(4, 256, 256)] * 17 + [state] * 48, element_bytes=1, ranks=2, draft_tokens=3)
    assert (found.block_tokens, found.bytes_per_block) == (1600, 27_852_800)
    assert found.blocks_per_sequence(262_144) == 179
    assert found.blocks(11.054 * GIB) == 426
    assert int(found.concurrency(426, 262_144) * 262_144) == 623_873


def test_uniform_layers_are_one_group() -> None:
    found = cut([Attention(8, 128, 128)] * 32)
    assert (found.bytes_per_block, len(found.groups)) == (16 * 131_072, 1)
    assert found.blocks_per_sequence(17) == 2


def test_layers_of_different_width_but_one_kind_share_ids() -> None:
    assert len(cut([Attention(8, 128, 128)] * 2 + [Attention(4, 128, 128)] * 3).groups) == 1


def test_window_layers_get_their_own_ids_and_stop_growing() -> None:
    layers = [Attention(2, 512, 512)] * 5 + [Attention(8, 256, 256, 1024)] * 25  # Gemma 4 26B
    found = cut(layers)
    assert found.bytes_per_block == 5 * 16 * 8192
    assert sum(group.copies for group in found.groups) == 6
    long, longer = found.blocks_per_sequence(32_000), found.blocks_per_sequence(64_000)
    assert longer - long == 1000  # the global layers' blocks hold 32 tokens: their pages are half as wide


def test_nearly_even_kinds_are_padded_to_the_larger() -> None:
    layers = [Attention(8, 64, 64)] * 12 + [Attention(8, 64, 64, 128)] * 14
    assert [group.copies for group in cut(layers).groups] == [1, 1]


def test_latent_caches_are_not_divided_by_ranks() -> None:
    one, eight = cut([Latent(512, 64)] * 61), cut([Latent(512, 64)] * 61, ranks=8)
    assert one.bytes_per_block == eight.bytes_per_block == 16 * 70_272


def test_a_model_that_keeps_nothing_has_no_layout() -> None:
    assert cut([]) is None


H100 = find("H100 SXM")
RTX = find("RTX 4090")


def test_more_memory_never_means_fewer_sequences_or_a_shorter_context() -> None:
    spec, before = load_model("gemma-4-26b-a4b"), None
    for gib in range(50, 140, 6):
        found = estimate(spec, Load(), "vllm", gib * GIB)
        if before:
            assert found.max_concurrency >= before.max_concurrency
            assert found.max_context_tokens >= before.max_context_tokens
        before = found


def test_what_is_said_to_fit_at_most_does_fit_and_one_token_more_does_not() -> None:
    spec = load_model("llama-3.1-8b")
    longest = estimate(spec, Load(), "vllm", 20 * GIB).max_context_tokens
    at = estimate(spec, Load(context_tokens=longest), "vllm", 20 * GIB)
    over = estimate(spec, Load(context_tokens=longest + 1), "vllm", 20 * GIB)
    assert at.kv_cache <= at.kv_available.mid < over.kv_cache


def test_terms_add_up() -> None:
    found = size(load_model("llama-3.1-8b"), H100, Load(concurrency=8)).to_dict()
    for key in ("low", "mid", "high"):
        parts = found["weights_bytes"] + found["kv_cache_bytes"] + found["overhead_bytes"][key]
        assert found["total_bytes"][key] == pytest.approx(parts, abs=2)
    assert found["overhead_bytes"]["mid"] == pytest.approx(
        sum(term["mid"] for term in found["overhead_terms_bytes"].values()), abs=4
    )


def test_fitting_has_three_answers() -> None:
    spec = load_model("llama-3.1-8b")
    need = estimate(spec, Load(), "vllm", 80 * GIB).total
    for available, fits in ((need.high, "yes"), (need.mid, "tight"), (need.mid - GIB, "no")):
        assert estimate(spec, Load(), "vllm", round(available) + 1).fits == fits
    assert estimate(spec, Load(), "vllm", None).fits == "unknown"


def test_the_seed_example() -> None:
    found = size(load_model("llama-3.1-70b", "q4_k_m"), find("128GB 400GB/s"), Load())
    assert found.memory.weights / GIB == pytest.approx(39.6, abs=0.1)
    assert found.memory.kv_cache / GIB == 2.5
    assert found.decode.low < 7.3 < found.decode.high
    assert found.fits == "yes"


def test_other_processes_lower_what_vllm_may_ask() -> None:
    busy = replace(RTX.devices[0], memory_free_bytes=15 * GIB)
    available, notes = available_bytes(busy, "vllm", 0.92)
    assert available < 15 * GIB
    assert "at most 0.6" in notes[0]


def test_unknown_memory_and_bandwidth_are_said_not_guessed() -> None:
    machine = Hardware((Device("mystery", "nvidia"),))
    found = size(load_model("llama-3.1-8b"), machine, Load())
    assert found.fits == "unknown"
    assert found.decode is None
    assert found.prefill is None
    assert json.dumps(found.to_dict())


def test_ranks_must_divide_the_heads_and_exist() -> None:
    spec = load_model("qwen2.5-7b")  # 28 heads
    with pytest.raises(UsageError, match="28 attention heads"):
        size(spec, find("8 x L4"), Load(ranks=8))
    with pytest.raises(UsageError, match="there are 1"):
        size(spec, find("L4"), Load(ranks=2))


def test_the_fewest_ranks_that_fit_are_taken() -> None:
    found = questions.size("llama-3.1-70b", quant="fp8", hardware="4 x H100 SXM")
    assert found.load.ranks == 2
    assert found.memory.weights < 40 * GIB


def test_speed_grows_with_batch_and_is_bounded_by_the_bandwidth() -> None:
    spec, device = load_model("llama-3.1-8b"), H100.devices[0]
    one, many = (decode(spec, device, "vllm", Load(context_tokens=1024, concurrency=n)) for n in (1, 64))
    assert one.low < one.mid < one.high
    assert one.high < device.bandwidth_bytes_per_s / spec.read_bytes()
    assert 20 * one.mid < many.mid < 64 * one.mid


def test_a_mixture_of_experts_is_sized_by_all_and_timed_by_the_active_weights() -> None:
    mixture, dense = load_model("qwen3-30b-a3b"), load_model("qwen3-32b")
    assert mixture.weight_bytes > 0.9 * dense.weight_bytes
    fast, slow = (decode(spec, H100.devices[0], "vllm", Load(context_tokens=512)) for spec in (mixture, dense))
    assert fast.mid > 3 * slow.mid
    assert mixture.expert_share(1) == pytest.approx(8 / 128)
    assert mixture.expert_share(64) == pytest.approx(1 - (1 - 8 / 128) ** 64)


def test_prefill_is_slower_on_long_prompts() -> None:
    spec, device = load_model("llama-3.1-8b"), H100.devices[0]
    short, long = (prefill(spec, device, "vllm", Load(context_tokens=n)) for n in (512, 65_536))
    assert long.mid < short.mid


WORK = Workload(1000, 5000, 5_000_000, 2_000_000, 50_000, 3000)


def test_a_plan_names_vllms_arguments_and_says_what_binds() -> None:
    found = make_plan(load_model("llama-3.1-8b"), H100, workload=WORK)
    assert found.arguments["max_model_len"] == 8192
    assert found.arguments["gpu_memory_utilization"] == 0.92
    assert 1 <= found.arguments["max_num_seqs"] <= 256
    assert found.seconds.low < found.seconds.mid < found.seconds.high
    assert any("prefill-bound" in note for note in found.notes)


def test_a_small_plan_for_a_card_without_bf16() -> None:
    assert make_plan(load_model("qwen2.5-7b"), find("V100 SXM2 32GB")).arguments["dtype"] == "float16"


def test_alternatives_fit_and_start_with_the_smallest_change() -> None:
    found = make_plan(load_model("llama-3.1-70b"), H100, workload=WORK)
    assert not found.fits
    assert found.alternatives
    assert all(option.sizing.fits in ("yes", "tight") for option in found.alternatives)
    changes = " | ".join(option.change for option in found.alternatives)
    assert "on 2 of them" in changes
    assert "as fp8" in changes or "as awq-int4" in changes


def test_a_context_that_is_too_long_is_shortened_first() -> None:
    found = make_plan(load_model("llama-3.1-8b"), RTX, context_tokens=120_000)
    assert not found.fits
    assert "a context of" in found.alternatives[0].change
    assert found.alternatives[0].sizing.load.context_tokens < 120_000


def test_memory_of_another_model_is_kept_free() -> None:
    alone = questions.plan("llama-3.1-8b", hardware="RTX 4090")
    beside = questions.plan("llama-3.1-8b", hardware="RTX 4090", reserved_bytes=2 * GIB)
    assert beside.sizing.memory.available < alone.sizing.memory.available
    assert beside.arguments["gpu_memory_utilization"] < alone.arguments["gpu_memory_utilization"]


EXAMPLE = Path(__file__).parents[2] / "gpueval" / "example" / "handbook.jsonl"


def test_a_files_work_is_counted_from_its_requests() -> None:
    one = workload_of_file(EXAMPLE)
    assert one.samples == 24
    assert one.requests > 24
    assert 0 < one.cached_tokens < one.prompt_tokens
    assert one.scaled(2400).prompt_tokens == one.prompt_tokens * 100


def test_longer_documents_mean_more_prompt_tokens(sample) -> None:
    metrics = choose(DEFAULT)
    short, long = (workload([sample(contexts=("word " * n,))], metrics) for n in (100, 1000))
    assert long.prompt_tokens > 3 * short.prompt_tokens
    assert 900 < long.longest_tokens - short.longest_tokens < 1200  # 900 words more, about 4.3 bytes a token


def test_preflight_refuses_what_does_not_fit_and_force_goes_on(monkeypatch, sample, tmp_path) -> None:
    from gpueval.config import RunConfig

    (tmp_path / "config.json").write_text(json.dumps(_config("llama-3.1-70b")))
    monkeypatch.setattr(questions, "detect", lambda: RTX)
    config = RunConfig(str(tmp_path), None, ("faithfulness",))
    spec = load_model(str(tmp_path))
    metrics = choose(("faithfulness",))
    with pytest.raises(PrerequisiteError, match="does not fit") as caught:
        preflight(spec, config, [sample()], 1, metrics)
    assert "would fit" in caught.value.message
    assert "B200" in caught.value.message
    assert "--hardware" not in caught.value.message  # run has no such option
    assert not preflight(spec, replace(config, force=True), [sample()], 1, metrics).fits


def planned(folder: Path):
    from gpueval.config import RunConfig
    from gpueval.pipeline import _planned

    (folder / "samples.jsonl").write_bytes(b'{"id":"1","question":"q","answer":"a","contexts":[{"text":"c"}]}\n')
    return _planned(RunConfig(str(folder), None, ("faithfulness",)), folder, 1, choose(("faithfulness",)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"compress_ratios": [4]}, "DeepSeek V4"),
        ({"intermediate_size": "wide"}, "does not hold together"),
        ({"num_attention_heads": None}, "is missing"),
    ],
)
def test_a_model_that_sizing_cannot_read_is_left_to_the_engine(tmp_path, change, reason) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_config("llama-3.1-8b") | change))
    found, why = planned(tmp_path)
    assert found is None
    assert reason in why


def test_a_folder_of_pickles_is_not_sized_and_a_missing_one_is_no_preset(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_config("llama-3.1-8b")))
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert "pickle" in planned(tmp_path)[1]
    with pytest.raises(PrerequisiteError, match="does not exist"):
        planned_judge("llama-3.1-70b", tmp_path)


def planned_judge(judge: str, folder: Path):
    from gpueval.config import RunConfig
    from gpueval.pipeline import _planned

    return _planned(RunConfig(judge, None, ("faithfulness",)), folder, 1, choose(("faithfulness",)))


def test_unknown_memory_leaves_vllms_own_limits() -> None:
    found = make_plan(load_model("llama-3.1-8b"), Hardware((Device("mystery", "nvidia"),)))
    assert found.arguments["gpu_memory_utilization"] == 0.92
    assert "max_num_seqs" not in found.arguments


def test_a_cpu_plan_holds_one_sequence_of_full_length() -> None:
    machine = Hardware((Device("cpu", "cpu", 23 * GIB, 22 * GIB, 20e9, 3e11, unified=True),))
    found = make_plan(load_model("llama-3.1-8b"), machine, context_tokens=32_768)
    assert found.sizing.memory.kv_cache == 4 * GIB
    assert found.arguments["kv_cache_gib"] >= 4


def test_fp32_weights_are_sized_as_vllm_loads_them(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_config("llama-3.1-8b") | {"torch_dtype": "float32"}))
    wide, plain = (questions.size(name, hardware="RTX 4090") for name in (str(tmp_path), "llama-3.1-8b"))
    assert wide.memory.weights == plain.memory.weights
    assert wide.memory.kv_per_token == plain.memory.kv_per_token


@pytest.mark.parametrize("name", ["qwen3.5-27b", "nemotron-3-nano-30b-a3b", "gemma-3-27b", "llama-3.1-8b"])
def test_as_many_sequences_as_the_cache_holds_at_the_mean_length(name) -> None:
    found = make_plan(load_model(name), H100, workload=WORK)
    memory = found.sizing.memory
    each = memory.layout.blocks_per_sequence(round(WORK.mean_tokens))
    held = memory.layout.blocks(memory.kv_available.mid) // each
    assert found.arguments["max_num_seqs"] <= min(256, held)
    assert found.arguments["max_num_seqs"] >= min(256, held) // 3


def test_kv_heads_and_slices_limit_tensor_parallelism() -> None:
    with pytest.raises(UsageError, match="does not divide over 7"):
        size(load_model("qwen2.5-7b"), find("7 x L4"), Load(ranks=7))  # 28 heads, 4 KV heads
    slices = Hardware((replace(H100.devices[0], details={"mig": True}),) * 2)
    assert make_plan(load_model("llama-3.1-70b"), slices).sizing.load.ranks == 1


def test_experts_without_a_width_of_their_own_count_in_a_step() -> None:
    from gpueval.sizing.memory import activation_bytes

    load = Load(batch_tokens=8192)
    routed = 8192 * 2 * (2 * 14_336 + 4096) * 2
    assert activation_bytes(load_model("mixtral-8x7b"), load) > routed


def test_formats_that_vllm_lacks_are_refused_and_its_names_used() -> None:
    assert make_plan(load_model("llama-3.1-8b"), H100, kv_dtype="bf16").arguments["kv_cache_dtype"] == "bfloat16"
    with pytest.raises(UsageError, match="no KV cache of format 'q8_0'"):
        make_plan(load_model("llama-3.1-8b"), H100, kv_dtype="q8_0")


def test_a_mac_keeps_its_wired_limit_under_every_engine() -> None:
    found = questions.size("qwen3-8b", hardware="M3 Max 40 64GB", engine="vllm")
    assert found.memory.available <= 48 * GIB


def test_alternatives_of_a_crowd_start_with_a_smaller_crowd() -> None:
    found = questions.with_alternatives(questions.size("llama-3.1-8b", hardware="L4", load=Load(concurrency=64)))
    assert found["alternatives"][0]["option"].startswith("--concurrency")


def test_an_odd_format_does_not_break_the_search_for_alternatives(tmp_path) -> None:
    declared = {"quant_method": "gptq", "bits": 8, "group_size": 128}
    (tmp_path / "c.json").write_text(json.dumps(_config("llama-3.1-70b") | {"quantization_config": declared}))
    assert questions.with_alternatives(questions.size(str(tmp_path / "c.json"), hardware="L4"))["fits"] == "no"


def test_a_dear_machine_is_not_cheapest_beside_one_without_a_price() -> None:
    from gpueval.cli.plan import _choose

    seconds = {"mid": 60.0}
    rows = [
        {"fits": "yes", "seconds": seconds, "cost": cost, "available_bytes": memory, "load": {"ranks": 1}}
        for cost, memory in ((None, 3), (0.01, 2), (99.0, 1))
    ]
    _choose(rows, None)
    assert [row.get("chosen", False) for row in rows] == [False, True, False]


def test_an_unknown_cache_format_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="Unknown format 'int3'"):
        questions.size("llama-3.1-8b", hardware="RTX 4090", load=Load(kv_dtype="int3"))


def _config(name: str) -> dict:
    from gpueval.sizing.model import presets

    return presets()[name]["config"]


def test_what_an_engine_got_replaces_the_prior(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GPUEVAL_CACHE", str(tmp_path / "cache"))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(_config("llama-3.1-8b")))
    machine = replace(H100, supposed=False)
    before = questions.plan(str(model), hardware=machine, work=WORK)
    assert before.sizing.memory.overhead_total.low < before.sizing.memory.overhead_total.mid
    weights = before.sizing.memory.weights
    blocks = before.sizing.memory.layout.blocks(before.sizing.memory.available - weights - 3 * GIB)
    facts = {"kv_cache_blocks": blocks, "max_model_len": 8192, "engine_version": "0.33.0"}
    tally = Tally(prompt_tokens=5_000_000, cached_tokens=2_000_000, output_tokens=50_000, judge_s=300.0)
    seen = actual(before, facts, tally, {"weights_bytes": weights})
    assert seen["overhead_bytes"] == pytest.approx(3 * GIB, rel=0.01)
    remember(before, facts, seen)
    after = questions.plan(str(model), hardware=machine, work=WORK)
    assert after.sizing.memory.overhead_total.mid == pytest.approx(3 * GIB, rel=0.01)
    assert after.seconds.mid == pytest.approx(300, rel=0.01)
    assert any("1 earlier launch" in note for note in after.notes)
    assert after.sizing.decode == before.sizing.decode  # a run's speed says nothing of a single stream
    # another device, or a supposed one, is not this machine
    assert not any("earlier" in note for note in questions.plan(str(model), hardware=RTX, work=WORK).notes)


def test_a_damaged_memory_of_launches_is_passed_over(tmp_path) -> None:
    path = tmp_path / "sizing.jsonl"
    good = {"actual": {"overhead_bytes": 5}, "device": "d", "engine": "e", "model_digest": "m"}
    path.write_text('{"half\n[]\n' + json.dumps(good) + "\n")
    assert actuals.prior("d", "e", "m", path).overhead_bytes == {(1, 0): 5}
    assert actuals.prior("x", "e", "m", path).launches == 0


def test_vllms_log_is_read(tmp_path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        "INFO Model loading took 14.99 GiB memory and 3.2 seconds\nINFO Available KV cache memory: 3.81 GiB\n"
        "INFO GPU KV cache size: 31,232 tokens, Maximum concurrency for 20,000 tokens per request: 1.56x\n"
    )
    assert actuals.read_log(log) == {
        "weights_bytes": round(14.99 * GIB), "kv_cache_bytes": round(3.81 * GIB), "kv_cache_tokens": 31232,
        "max_concurrency": 1.56,
    }  # fmt: skip


def gpueval(*arguments: str, **environment: str):
    command = [sys.executable, "-m", "gpueval", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def test_size_on_the_command_line_has_its_stable_json_and_exit_codes() -> None:
    done = gpueval("size", "llama-3.1-70b", "--quant", "q4_k_m", "--hardware", "M3 Max 40", "--json")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert {
        "model", "hardware", "weights_bytes", "kv_bytes_per_token", "kv_bytes_per_sequence_fixed", "kv_cache_bytes",
        "overhead_bytes", "total_bytes", "available_bytes", "fits", "max_context_tokens", "max_concurrency",
        "decode_tokens_per_s", "prefill_tokens_per_s", "alternatives",
    } <= set(body)  # fmt: skip
    assert gpueval("size", "llama-3.1-70b", "--hardware", "RTX 4090").returncode == 3
    assert gpueval("size", "llama-9").returncode == 2
    assert gpueval("size", "./nothing").returncode == 3
    assert gpueval("size", "llama-3.1-8b", "--hardware", "H100").returncode == 2


def test_plan_marks_the_cheapest_that_is_in_time() -> None:
    machines = ("--hardware", "RTX 4090 @ 0.40", "--hardware", "H100 SXM @ 2.50", "--hardware", "T4 @ 0.10")
    done = gpueval("plan", "--model", "llama-3.1-8b", *machines, "--samples", "10000", "--within", "8h", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["plans"]
    assert [row["fits"] for row in rows] == ["yes", "yes", "no"]
    good = [row for row in rows if row["fits"] == "yes" and row["seconds"]["mid"] <= 8 * 3600]
    assert [row["hardware_name"] for row in rows if row.get("chosen")] == [
        min(good, key=lambda row: row["cost"])["hardware_name"]
    ]
    none = gpueval("plan", "--model", "llama-3.1-8b", "--hardware", "T4")
    assert none.returncode == 3
    assert gpueval("plan", "--model", "./nothing", "--hardware", "T4").returncode == 3
    late = gpueval("plan", "--model", "llama-3.1-8b", "--hardware", "L4", "--samples", "100000", "--within", "1m")
    assert "not within 60 s" in late.stdout or "not within 1 min" in late.stdout
    assert gpueval("plan", "--model", "llama-3.1-8b", "--within", "soon").returncode == 2


def test_size_starts_light() -> None:
    code = (
        "import sys\nfrom gpueval.cli.main import main\n"
        "try: main(['size', 'llama-3.1-8b', '--hardware', 'RTX 4090', '--json'])\nexcept SystemExit: pass\n"
        "print('MODULES', *sys.modules)\n"
    )
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    modules = set(listed.split("MODULES")[1].split())
    assert not {"torch", "vllm", "transformers", "numpy", "sqlite3", "pynvml"} & modules
