"""Model to size: from a folder, a GGUF file, a ``config.json`` or a preset's name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import DataError, PrerequisiteError, UnknownModel, UsageError
from gpueval.sizing.model import gguf, safetensors
from gpueval.sizing.model.config import Shape, read_config
from gpueval.sizing.model.formats import DTYPE_BYTES, Format, find_format, gguf_bits, gguf_type
from gpueval.sizing.model.quantisation import Exceptions, declared_format
from gpueval.sizing.model.spec import ModelSpec
from gpueval.sizing.model.tensors import Matrix, count, experts, role_of, tied

__all__ = ["ModelSpec", "from_config", "load_model", "presets"]


def load_model(name: str, quant: str | None = None) -> ModelSpec:
    """Read the model that ``name`` means.

    Args:
        name: Model folder, ``.gguf`` file, ``config.json``, or the name of a preset.
        quant: Weight format for a preset or a bare configuration; refused where the file has its own.

    Raises:
        DataError: The file is damaged.
        PrerequisiteError: There is nothing of that name.
        UsageError: ``quant`` does not apply.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return _from_folder(path, quant)
    if path.suffix == ".gguf" and path.exists():
        if quant:
            raise UsageError("A GGUF file has its own quantisation.", "Leave --quant away.")
        return _from_gguf(path)
    if path.suffix == ".json" and path.exists():
        return from_config(safetensors.read_json(path), str(path), "config.json", quant, str(path))
    if path.is_file():
        raise DataError("is neither a .gguf file, a config.json nor a model folder", file=name)
    return _from_preset(name, quant)


def presets() -> dict[str, dict[str, Any]]:
    """All presets: published configurations of well-known open models, each with its source."""
    raw = resources.files("gpueval.sizing.model").joinpath("presets.json").read_bytes()
    found: dict[str, dict[str, Any]] = msgspec.json.decode(raw)
    return found


def _from_preset(name: str, quant: str | None) -> ModelSpec:
    known = presets()
    organisation, _, short = name.rpartition("/")
    wanted = _plain_name(short)
    for key, entry in known.items():
        owner, _, published = entry["id"].rpartition("/")
        if wanted in {_plain_name(key), _plain_name(published)} and organisation.lower() in ("", owner.lower()):
            return from_config(entry["config"], key, f"preset ({entry['source']})", quant, f"preset {key}")
    if "/" in name or name.startswith("."):
        raise PrerequisiteError(f"{name} is no folder or file here, and no preset.", "gpueval downloads nothing.")
    close = sorted(known, key=lambda key: -_overlap(wanted, _plain_name(key)))[:5]
    raise UsageError(f"Unknown model '{name}'.", f"Near it: {', '.join(close)}. All presets: gpueval size --list")


def _plain_name(name: str) -> str:
    short = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
    return re.sub(r"^meta-|-(instruct|it|chat|hf|base|v1)$", "", short)


def _overlap(a: str, b: str) -> int:
    pairs = {a[i : i + 2] for i in range(len(a) - 1)}
    return sum(b[i : i + 2] in pairs for i in range(len(b) - 1))


def from_config(
    config: Mapping[str, Any], name: str, source: str, quant: str | None = None, file: str = "config.json"
) -> ModelSpec:
    """Count the weights of a configuration in a format.

    Raises:
        DataError: The configuration does not hold together, or is beyond the rules.
        UsageError: The format is unknown.
    """
    try:
        spec = _counted(config, name, source, find_format(quant) if quant else None, file)
    except _ODD as error:  # a key of another kind than the rules know
        raise UnknownModel(f"does not hold together ({type(error).__name__}: {error})", file=file) from error
    amounts = [*spec.bytes_by_role.values(), *spec.parameters_by_role.values()]
    amounts += [n for layer in spec.layers for n in astuple(layer) if isinstance(n, int)]
    if min(amounts, default=0) < 0 or not isfinite(sum(amounts)):
        raise UnknownModel("gives negative or endless sizes", file=file)
    return spec


_ODD = (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError, RecursionError)


def _counted(config: Mapping[str, Any], name: str, source: str, wished: Format | None, file: str) -> ModelSpec:
    shape = read_config(config, name, file)
    own, exceptions = (None, Exceptions()) if wished else declared_format(config, file)
    chosen = wished or own or find_format(_dtype_format(shape.dtype, file))
    matrices = count(shape)
    return ModelSpec(
        name,
        source,
        shape,
        chosen.name,
        _bytes_by_role(matrices, shape, chosen, exceptions),
        _parameters(matrices),
        exact=False,
        approximations=shape.approximations,
    )


def _dtype_format(dtype: str, file: str) -> str:
    known = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8"}
    if dtype not in known:
        raise UnknownModel(
            f"is '{dtype}', which is not known", file=file, field="dtype", remedy=f"Known: {', '.join(known)}"
        )
    return known[dtype]


def _bytes_by_role(matrices: list[Matrix], shape: Shape, chosen: Format, exceptions: Exceptions) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    plain_bits = chosen.plain_bits if chosen.gguf or chosen.bits in (16, 32) else DTYPE_BYTES.get(shape.dtype, 2) * 8
    parameters_b = sum(matrix.parameters for matrix in matrices) / 1e9
    n_experts = experts(shape)[0]
    kv = [layer.kv_heads for layer in shape.layers if hasattr(layer, "kv_heads")]
    gqa = shape.heads // max(1, min(kv, default=shape.heads))
    for matrix in matrices:
        if chosen.gguf and matrix.role == "vision":
            continue  # llama.cpp keeps the projector in a file of its own, which a text judge does not load
        bits: float = plain_bits
        if chosen.gguf and matrix.role not in ("norm", "router", "vision", "conv"):
            role = "head" if matrix.role == "embedding" and tied(shape) else matrix.role
            kind = gguf_type(
                chosen.gguf,
                role,
                matrix.layer,
                shape.n_layers,
                gqa=gqa,
                experts=n_experts,
                parameters_b=parameters_b,
                fused=shape.model_type == "phi3",
            )
            bits = float(gguf_bits(kind, matrix.columns))
        elif (matrix.role, matrix.layer) in exceptions.formats:
            bits = float(exceptions.formats[matrix.role, matrix.layer].bits or plain_bits)
        elif chosen.bits is not None and (
            (matrix.quantised and not exceptions.covers(matrix.role, matrix.layer))
            or (chosen.quantises_ends and matrix.role in ("embedding", "head"))
        ):
            bits = float(chosen.bits)
        total[matrix.role] += matrix.parameters * bits / 8
    return dict(total)


def _parameters(matrices: Iterable[Matrix]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for matrix in matrices:
        total[matrix.role] += matrix.parameters
    return dict(total)


def _from_folder(folder: Path, quant: str | None) -> ModelSpec:
    file = folder / "config.json"
    if not file.is_file():
        ggufs = sorted(folder.glob("*.gguf"))
        if len(ggufs) == 1 or (ggufs and len(gguf.shards(ggufs[0])) == len(ggufs)):
            return load_model(str(ggufs[0]), quant)
        raise PrerequisiteError(f"The model folder {folder} has no config.json.", "Give a Hugging Face model folder.")
    config = safetensors.read_json(file)
    modelopt = folder / "hf_quant_config.json"
    if modelopt.is_file() and "quantization_config" not in config:
        config = config | {"quantization_config": safetensors.read_json(modelopt)}
    files = safetensors.weight_files(folder)
    if not files:
        pickles = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]
        if pickles:
            raise PrerequisiteError(
                f"{folder} holds its weights as pickle files ({pickles[0].name}), which can run code when read.",
                "Convert them to safetensors on a machine you trust.",
            )
        return from_config(config, str(folder), "config.json (no weights in the folder)", quant, str(file))
    if quant:
        raise UsageError(f"{folder} holds weights in their own format.", f"Leave --quant away, or size {file} instead.")
    spec = _plain_or_declared(config, folder, file)
    total: dict[str, float] = defaultdict(float)
    for part in files:
        for name, _, _, size in safetensors.tensor_table(part):
            total[_role(name, spec.shape)] += size
    if tied(spec.shape) and "embedding" in total:
        total.pop("head", None)  # a copy that loading ties to the embedding
    return replace(spec, source="safetensors headers", bytes_by_role=dict(total), exact=True)


def _plain_or_declared(config: Mapping[str, Any], folder: Path, file: Path) -> ModelSpec:
    """Read a folder's configuration; where its quantisation is unknown, the bytes of its files still say all."""
    try:
        return from_config(config, str(folder), "", None, str(file))
    except UnknownModel:
        found = config.get("quantization_config")
        if not isinstance(found, Mapping):
            raise
        plain = {key: value for key, value in config.items() if key != "quantization_config"}
        spec = from_config(plain, str(folder), "", None, str(file))
        method = str(found.get("quant_method") or "unknown")
        remark = f"quantisation '{method}' is not known: weights by their bytes, speed as of a 4-bit format"
        return replace(spec, format=method, approximations=(*spec.approximations, remark))


def _role(name: str, shape: Shape) -> str:
    """Role of a tensor in a file; layers behind the last one are for drafting (multi-token prediction)."""
    layer = re.search(r"(?:^|\.)layers\.(\d+)\.", name)
    behind = layer is not None and int(layer[1]) >= shape.n_layers and "vision" not in name and "visual" not in name
    return "draft" if behind else role_of(name)


def _from_gguf(file: Path) -> ModelSpec:
    total: dict[str, float] = defaultdict(float)
    metadata: dict[str, Any] = {}
    for part in gguf.shards(file):
        read = gguf.read_gguf(part)
        metadata = {**read.metadata, **metadata}
        for name, _, _, size in read.tensors:
            total[role_of(name)] += size
    config = gguf.to_config(metadata, str(file), "head" not in total)
    spec = from_config(config, file.name, "GGUF tensor table", "fp16", str(file))
    return replace(spec, name=str(file), format=gguf.file_type(metadata), bytes_by_role=dict(total), exact=True)
