"""Reading models: presets, configurations, safetensors headers, GGUF tables - and what is wrong with them."""

from __future__ import annotations

import csv
import json
import os
import struct
import tracemalloc
from pathlib import Path

import pytest

from gpueval.errors import DataError, GpuevalError, PrerequisiteError, UsageError
from gpueval.sizing.model import from_config, load_model, presets
from gpueval.sizing.model.layers import (
    Attention,
    Latent,
    Recurrent,
    fixed_bytes_per_sequence,
    growing_bytes_per_token,
)

DATA = Path(os.environ.get("GPUEVAL_DATA") or Path(__file__).parents[3] / "shared" / "data") / "sizing"
GIB = 1 << 30

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "torch_dtype": "bfloat16",
}  # fmt: skip


def rows(name: str) -> list[dict[str, str]]:
    if not (DATA / name).is_file():
        pytest.skip(f"set GPUEVAL_DATA to a folder that holds sizing/{name}, which is not part of this repository")
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def kv(config: dict) -> tuple[float, float]:
    spec = from_config(LLAMA | config, "m", "test")
    return growing_bytes_per_token(spec.layers, 2), fixed_bytes_per_sequence(spec.layers, 2, 2)


def test_kv_of_29_published_configurations_is_exact() -> None:
    vectors = rows("kv_test_vectors.csv")
    assert len(vectors) == 29
    for row in vectors:
        layers = load_model(row["model"]).layers
        assert growing_bytes_per_token(layers, 2) == int(row["growing_kv_bytes_per_token_bf16_tp1"]), row["model"]
        assert fixed_bytes_per_sequence(layers, 2, 2) == int(row["fixed_bytes_per_sequence_bf16_tp1"]), row["model"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen3-8b", 8_190_735_360),
        ("mixtral-8x7b", 46_702_792_704),
        ("mistral-nemo-12b", 12_247_782_400),
        ("smollm2-135m", 134_515_008),
        ("phi-4", 14_659_507_200),
        ("deepseek-v3", 671_026_419_200),
        ("gemma-2-9b", 9_241_705_984),
        ("granite-4.0-h-small", 32_207_337_984),
    ],
)
def test_counted_parameters_match_the_published_ones(name, parameters) -> None:
    assert load_model(name).parameters == pytest.approx(parameters, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "active_b"),
    [("deepseek-v3", 36.6), ("qwen3-30b-a3b", 3.0), ("gpt-oss-120b", 5.1), ("mixtral-8x7b", 12.75), ("kimi-k2", 32)],
)
def test_active_parameters_of_mixtures(name, active_b) -> None:
    assert load_model(name).active_parameters / 1e9 == pytest.approx(active_b, rel=0.02)


def test_every_preset_can_be_sized_and_names_its_source() -> None:
    for name, entry in presets().items():
        spec = load_model(name)
        assert spec.weight_bytes > 0, name
        assert spec.layers, name
        assert entry["source"], name


@pytest.mark.parametrize(
    ("quant", "gib"),
    [
        # sizes of published Llama-3-70B files, https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference
        ("q8_0", 69.8), ("q6_k", 53.9), ("q5_k_m", 46.5), ("q5_k_s", 45.3), ("q4_k_m", 39.6), ("q4_k_s", 37.6),
        ("q3_k_m", 31.9), ("q3_k_s", 28.8), ("q2_k", 24.6), ("iq4_xs", 35.3),
    ],
)  # fmt: skip
def test_gguf_mixtures_of_a_70b_are_within_one_percent_of_the_files(quant, gib) -> None:
    assert load_model("llama-3.1-70b", quant).weight_bytes / GIB == pytest.approx(gib, rel=0.01)


FILES = {
    "Qwen3-8B-Q4_K_M.gguf": "qwen3-8b", "Qwen3-14B-Q4_K_M.gguf": "qwen3-14b", "phi-4-Q4_K_M.gguf": "phi-4",
    "Mistral-Nemo-Instruct-2407-Q4_K_M.gguf": "mistral-nemo-12b", "Qwen2.5-7B-Instruct-Q4_K_M.gguf": "qwen2.5-7b",
    "Llama-3.2-3B-Instruct-Q4_K_M.gguf": "llama-3.2-3b", "Llama-3.2-1B-Instruct-Q4_K_M.gguf": "llama-3.2-1b",
    "gemma-3-4b-it-Q4_K_M.gguf": "gemma-3-4b", "gemma-3-27b-it-Q4_K_M.gguf": "gemma-3-27b",
    "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf": "mistral-7b-v0.3", "Qwen3-4B-Q4_K_M.gguf": "qwen3-4b",
    "Qwen2.5-14B-Instruct-Q4_K_M.gguf": "qwen2.5-14b", "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf": "llama-3.1-8b",
}  # fmt: skip


def test_counted_q4_k_m_weights_match_the_files_of_13_models() -> None:
    sizes = {row["model"]: float(row["weights_gib"]) for row in rows("decode_speed.csv") if row["model"] in FILES}
    assert set(sizes) == set(FILES)
    for file, gib in sizes.items():
        counted = load_model(FILES[file], "q4_k_m").weight_bytes / GIB
        assert counted == pytest.approx(gib, rel=0.003, abs=0.01), file


def test_small_models_keep_more_bits_in_a_gguf_mixture() -> None:
    assert load_model("llama-3.1-8b", "q4_k_m").weight_bytes / GIB == pytest.approx(4.58, rel=0.005)
    tiny = load_model("smollm2-135m", "q4_k_m")  # rows of 576 weights are no multiple of 256: llama.cpp falls back
    assert tiny.weight_bytes * 8 / tiny.parameters > 5.8


def test_head_dim_is_read_before_it_is_divided() -> None:
    assert kv({})[0] == 2 * 2 * (16 + 16) * 2
    assert kv({"head_dim": 32})[0] == 2 * 2 * (32 + 32) * 2
    assert kv({"head_dim": None})[0] == kv({})[0]


def test_missing_kv_heads_mean_one_per_head_and_multi_query_means_one() -> None:
    plain = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert from_config(plain, "m", "").layers[0] == Attention(4, 16, 16)
    falcon = plain | {"model_type": "falcon", "multi_query": True}
    assert from_config(falcon, "m", "").layers[0] == Attention(1, 16, 16)


def test_sliding_windows_and_their_switch() -> None:
    assert kv({"model_type": "mistral", "sliding_window": 100}) == (0, 2 * 100 * 128)
    assert kv({"model_type": "mistral", "sliding_window": None})[1] == 0
    assert kv({"model_type": "qwen2", "sliding_window": 100, "use_sliding_window": False})[1] == 0
    layers = from_config(LLAMA | {"model_type": "gemma2", "sliding_window": 100}, "m", "").layers
    assert [layer.window for layer in layers] == [100, None]


def test_shared_latent_chunked_and_recurrent_layers() -> None:
    shared = from_config(LLAMA | {"num_hidden_layers": 4, "num_kv_shared_layers": 3}, "m", "")
    assert len(shared.layers) == 1
    latent = LLAMA | {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32,
                      "v_head_dim": 32}  # fmt: skip
    assert from_config(latent, "m", "").layers[0] == Latent(512, 64)
    assert from_config(latent, "m", "").layers[0].bytes_per_token(2, ranks=8) == 576 * 2  # every rank keeps it all
    chunk = LLAMA | {"model_type": "llama4_text", "num_hidden_layers": 4, "attention_chunk_size": 128}
    assert [layer.window for layer in from_config(chunk, "m", "").layers] == [128, 128, 128, None]
    mamba = LLAMA | {"model_type": "jamba", "attn_layer_period": 2, "mamba_d_state": 16, "mamba_d_conv": 4}
    assert from_config(mamba, "m", "").layers == (Attention(2, 16, 16), Recurrent(128, 4, 128 * 16))


def test_encoders_keep_no_cache() -> None:
    assert from_config(LLAMA | {"model_type": "bert"}, "m", "").layers == ()


def test_an_unknown_architecture_is_a_named_approximation_and_known_misfits_are_refused() -> None:
    assert "brandnew" in from_config(LLAMA | {"model_type": "brandnew"}, "m", "").approximations[0]
    with pytest.raises(DataError, match="DeepSeek V4"):
        from_config(LLAMA | {"compress_ratios": [4, 128]}, "m", "")
    with pytest.raises(DataError, match="unknown layer type 'quantum'"):
        from_config(LLAMA | {"layer_types": ["quantum", "full_attention"]}, "m", "")


def test_declared_quantisation_keeps_its_exceptions() -> None:
    plain = from_config(LLAMA, "m", "").bytes_by_role
    fp8 = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn.q_proj", "lm_head"]}
    found = from_config(LLAMA | {"quantization_config": fp8}, "m", "").bytes_by_role
    assert found["head"] == plain["head"]
    assert found["attention_q"] == plain["attention_q"] * 0.75  # one of two layers stays
    assert found["mlp_down"] == plain["mlp_down"] / 2
    with pytest.raises(DataError, match="unknown method 'magic'"):
        from_config(LLAMA | {"quantization_config": {"quant_method": "magic"}}, "m", "")


def test_mixed_precision_is_read_module_by_module() -> None:
    listed = {
        "model.layers.0.mlp.down_proj": {"quant_algo": "FP8"},
        "model.layers.1.mlp.down_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
    }
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": listed}
    spec = from_config(LLAMA | {"quantization_config": mixed}, "m", "")
    assert spec.bytes_by_role["mlp_down"] == 64 * 128 * (8 + 4.5) / 8
    assert spec.bytes_by_role["mlp_up"] == 4 * 64 * 128 * 2


@pytest.mark.parametrize(
    ("declared", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False}, 4 + 20 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, 4 + 20 / 64),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int",
                                                                                  "group_size": 128}}}}, 4.125),
        ({"group_size": 64, "bits": 4}, 4.5),
    ],
)  # fmt: skip
def test_formats_of_the_usual_tools(declared, bits) -> None:
    spec = from_config(LLAMA | {"quantization_config": declared}, "m", "")
    assert spec.bytes_by_role["mlp_down"] == pytest.approx(2 * 64 * 128 * bits / 8)


def safetensors(path: Path, tensors: dict, *, data: int | None = None, header: bytes | None = None) -> Path:
    raw = header if header is not None else json.dumps(tensors).encode()
    size = max((entry["data_offsets"][1] for entry in tensors.values()), default=0) if data is None else data
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(size))
    return path


def entry(begin: int, rows_: int, columns: int, dtype: str = "BF16", width: int = 2) -> dict:
    return {"dtype": dtype, "shape": [rows_, columns], "data_offsets": [begin, begin + rows_ * columns * width]}


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def test_weight_bytes_come_from_headers_and_only_from_the_files_of_the_index(folder) -> None:
    safetensors(folder / "model-1.safetensors", {"model.embed_tokens.weight": entry(0, 100, 64)})
    safetensors(folder / "model-2.safetensors", {"lm_head.weight": entry(0, 100, 64)})
    safetensors(folder / "consolidated.safetensors", {"output.weight": entry(0, 100, 64)})
    files = {"model.embed_tokens.weight": "model-1.safetensors", "lm_head.weight": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    spec = load_model(str(folder))
    assert spec.exact
    assert spec.weight_bytes == 2 * 100 * 64 * 2
    (folder / "model-2.safetensors").unlink()
    with pytest.raises(DataError, match="names 1 of 2 files that are not there"):
        load_model(str(folder))


def _truncated(folder: Path) -> None:
    safetensors(folder / "model.safetensors", {"a.weight": entry(0, 1000, 1000)}, data=10)


def _empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _huge_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")


def _no_json(folder: Path) -> None:
    safetensors(folder / "model.safetensors", {}, header=b"\xff\xfe not json")


def _unknown_dtype(folder: Path) -> None:
    safetensors(folder / "model.safetensors", {"a.weight": entry(0, 10, 10, "F3_E1M1")})


def _lying_shape(folder: Path) -> None:
    safetensors(folder / "model.safetensors", {"a.weight": {"dtype": "BF16", "shape": [9, 9], "data_offsets": [0, 4]}})


def _no_heads(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({k: v for k, v in LLAMA.items() if k != "num_attention_heads"}))


def _config_list(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def _broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def _unknown_config_dtype(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(LLAMA | {"torch_dtype": "float3"}))


def _absurd_layers(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(LLAMA | {"num_hidden_layers": 10**8}))


def _pickles(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_truncated, "truncated"), (_empty, "0 bytes"), (_huge_header, "announces a header"), (_no_json, "no JSON"),
        (_unknown_dtype, "unknown dtype 'F3_E1M1'"), (_lying_shape, "4 bytes for shape"),
        (_no_heads, "num_attention_heads"), (_config_list, "not a JSON object"), (_broken_config, "no JSON"),
        (_unknown_config_dtype, "float3"), (_absurd_layers, "no model has"), (_pickles, "pickle"),
    ],
)  # fmt: skip
def test_damaged_folders_are_named_and_cost_no_memory(folder, damage, words) -> None:
    damage(folder)
    tracemalloc.start()
    with pytest.raises(GpuevalError, match=words) as caught:
        load_model(str(folder))
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()
    assert caught.value.exit_code in (2, 3)


def test_layers_behind_the_last_one_are_for_drafting(folder) -> None:
    tensors = {
        "model.layers.1.mlp.up_proj.weight": entry(0, 8, 8),
        "model.layers.2.mlp.up_proj.weight": entry(128, 8, 8),
    }
    safetensors(folder / "model.safetensors", tensors)
    spec = load_model(str(folder))
    assert spec.weight_bytes == 128
    assert spec.bytes_by_role["draft"] == 128


def test_an_unknown_quantisation_with_files_is_sized_by_its_bytes(folder) -> None:
    (folder / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": {"quant_method": "torchao"}}))
    safetensors(folder / "model.safetensors", {"lm_head.weight": entry(0, 100, 64)})
    spec = load_model(str(folder))
    assert (spec.weight_bytes, spec.format) == (12_800, "torchao")
    assert any("torchao" in text for text in spec.approximations)


def test_class_defaults_of_gemma_3_are_known() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34,
            "sliding_window": 1024}  # fmt: skip
    own = from_config({"model_type": "gemma3", "text_config": text}, "m", "")
    assert own.layers == load_model("gemma-3-4b").layers


ODD_VALUES = [None, -1, 0, "x", [], [1], {}, {"a": None}, 1e400, True, 3.5, "9" * 30]


def refused(config: dict) -> bool:
    """Whether a configuration is refused with the exit code of bad input; a traceback fails the test."""
    try:
        return from_config(config, "m", "").weight_bytes < 0
    except DataError:
        return True


SOME_PRESETS = (
    "llama-3.1-8b",
    "deepseek-v3.2",
    "qwen3.5-35b-a3b",
    "nemotron-super-49b",
    "gpt-oss-20b",
    "mimo-v2-flash",
)


@pytest.mark.parametrize("preset", SOME_PRESETS)
def test_odd_values_in_a_configuration_are_refused_by_name_or_ignored(preset) -> None:
    config = presets()[preset]["config"]
    level = config.get("text_config", config)
    found = []
    for key in level:
        for value in ODD_VALUES:
            broken = level | {key: value}
            found.append(refused(config | {"text_config": broken} if "text_config" in config else broken))
    assert 0.2 < sum(found) / len(found) < 0.95


@pytest.mark.parametrize(
    "declared",
    [
        {"quantization": None}, {"quant_method": "gptq", "bits": "x"}, {"quant_method": "gptq", "bits": -4},
        {"quant_method": "awq", "bits": 4, "group_size": "x"}, {"quantized_layers": [1]}, "fp8", 7,
        {"quant_method": "compressed-tensors", "config_groups": {"g": None}},
    ],
)  # fmt: skip
def test_odd_quantisations_are_refused_by_name(declared) -> None:
    with pytest.raises(DataError):
        from_config(LLAMA | {"quantization_config": declared}, "m", "")


def test_damage_at_any_byte_of_a_gguf_is_a_clear_error(tmp_path) -> None:
    keys = [*KEYS[:8], u32("llama.vocab_size", 500)]
    whole = gguf(tmp_path / "m.gguf", keys, [tensor("a", [256, 2], 12, 0)], 288).read_bytes()
    load_model(str(tmp_path / "m.gguf"))
    header = len(whole) - 288
    for position in range(header):
        (tmp_path / "cut.gguf").write_bytes(whole[:position])
        with pytest.raises(DataError):
            load_model(str(tmp_path / "cut.gguf"))
    outcomes = set()
    for position in range(header):
        changed = whole[:position] + bytes([whole[position] ^ 0x81]) + whole[position + 1 :]
        (tmp_path / "changed.gguf").write_bytes(changed)
        try:
            load_model(str(tmp_path / "changed.gguf"))
        except DataError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
    assert outcomes == {"refused", "read"}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def pair(key: str, kind: int, raw: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + raw


def gguf(path: Path, keys: list[bytes], tensors: list[bytes], data: int, *, counts=None, magic=b"GGUF") -> Path:
    n_tensors, n_keys = counts or (len(tensors), len(keys))
    head = magic + struct.pack("<IQQ", 3, n_tensors, n_keys) + b"".join(keys) + b"".join(tensors)
    path.write_bytes(head + bytes(-len(head) % 32) + bytes(data))
    return path


def tensor(name: str, shape: list[int], kind: int, offset: int) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(shape))
        + struct.pack(f"<{len(shape)}Q", *shape)
        + struct.pack("<IQ", kind, offset)
    )


def u32(key: str, value: int) -> bytes:
    return pair(key, 4, struct.pack("<I", value))


KEYS = [
    pair("general.architecture", 8, text("llama")), u32("general.file_type", 15), u32("llama.block_count", 2),
    u32("llama.embedding_length", 256), u32("llama.feed_forward_length", 512), u32("llama.attention.head_count", 4),
    u32("llama.attention.head_count_kv", 2), u32("llama.context_length", 2048),
    pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 5000) + text("a") * 5000),
]  # fmt: skip
TENSORS = [tensor("token_embd.weight", [256, 5000], 12, 0), tensor("blk.0.attn_q.weight", [256, 256], 14, 720_000)]


def test_gguf_bytes_and_shape(tmp_path) -> None:
    spec = load_model(str(gguf(tmp_path / "m.gguf", KEYS, TENSORS, 720_000 + 53_760)))
    assert spec.exact
    assert spec.weight_bytes == 5000 * 144 + 256 * 210
    assert spec.format == "q4_k_m"
    assert spec.shape.vocab == 5000
    assert spec.layers == (Attention(2, 64, 64),) * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": 100}, "ends at byte"),
        ({"counts": (1 << 40, 9)}, "announces"),
        ({"counts": (2, 1 << 40)}, "announces"),
        ({"magic": b"GGML"}, "no GGUF file"),
        ({"tensors": [tensor("a", [256, 1 << 50], 12, 0)]}, "ends at byte"),
        ({"tensors": [tensor("a", [100, 2], 12, 0)]}, "blocks of 256"),
        ({"tensors": [tensor("a", [256, 2], 999, 0)]}, "unknown type 999"),
        ({"keys": [pair("x", 9, struct.pack("<IQ", 4, 1 << 50))]}, "array of"),
        ({"keys": [pair("x", 8, struct.pack("<Q", 1 << 50))]}, "announces a text|truncated"),
        ({"keys": [u32("other", 1)], "tensors": []}, "names no architecture"),
    ],
)
def test_a_lying_gguf_is_refused_without_a_memory_blow_up(tmp_path, arguments, words) -> None:
    given = {"keys": KEYS, "tensors": TENSORS, "data": 720_000 + 53_760} | arguments
    path = gguf(tmp_path / "m.gguf", **given)
    tracemalloc.start()
    with pytest.raises(DataError, match=words):
        load_model(str(path))
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()


def test_an_empty_gguf_and_a_missing_part(tmp_path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        load_model(str(tmp_path / "m.gguf"))
    gguf(tmp_path / "m-00001-of-00002.gguf", KEYS, TENSORS, 720_000 + 53_760)
    with pytest.raises(DataError, match="the model is split"):
        load_model(str(tmp_path / "m-00001-of-00002.gguf"))


def test_names_that_mean_nothing(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"Unknown model 'lama-3\.1-8b'"):
        load_model("lama-3.1-8b")
    with pytest.raises(PrerequisiteError, match="no folder or file"):
        load_model("./llama-3.1-8b")
    with pytest.raises(PrerequisiteError, match="no preset"):
        load_model("somebody/llama-3.1-8b")
    with pytest.raises(UsageError, match="Unknown quantisation"):
        load_model("llama-3.1-8b", "q9_x")
    assert load_model("meta-llama/Llama-3.1-8B-Instruct").name == "llama-3.1-8b"
