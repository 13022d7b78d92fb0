"""Model to size: from a folder, a GGUF file, a ``config.json`` or a preset's name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from gpueval.errors import DataError, PrerequisiteError, UsageError
from gpueval.sizing.model import gguf, safetensors
from gpueval.sizing.model.config import Shape, read_config
from gpueval.sizing.model.formats import DTYPE_BYTES, Format, find_format, gguf_bits, gguf_type
from gpueval.sizing.model.layers import Layer
from gpueval.sizing.model.quantisation import Exceptions, declared_format
from gpueval.sizing.model.tensors import REPLICATED, UNREAD, Matrix, count, experts, role_of, tied


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as sizing sees it.

    Attributes:
        name: Preset name, folder or file.
        source: What the numbers were read from.
        shape: The configuration.
        format: Weight format.
        bytes_by_role: Bytes of the weights per role; exact where they were read from a file.
        parameters_by_role: Weights per role, counted from the configuration.
        exact: Whether the bytes were read from headers.
        approximations: What was taken for granted.
    """

    name: str
    source: str
    shape: Shape
    format: str
    bytes_by_role: Mapping[str, float]
    parameters_by_role: Mapping[str, int]
    exact: bool
    approximations: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers that keep something per token or sequence."""
        return self.shape.layers

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self.shape.n_layers

    @property
    def weight_bytes(self) -> int:
        """Bytes an engine loads: everything but the draft layers."""
        return round(sum(size for role, size in self.bytes_by_role.items() if role != "draft"))

    @property
    def parameters(self) -> int:
        """All weights but the draft layers'."""
        return sum(n for role, n in self.parameters_by_role.items() if role != "draft")

    @property
    def active_parameters(self) -> float:
        """Weights that one token multiplies: the chosen experts, no look-ups."""
        return self._read(self.parameters_by_role, self.expert_share(1))

    @property
    def prompt_parameters(self) -> float:
        """Weights that every prompt token multiplies: the active ones without the output head."""
        head = "embedding" if tied(self.shape) else "head"
        return self.active_parameters - self.parameters_by_role.get(head, 0)

    @property
    def experts(self) -> tuple[int, int]:
        """Routed experts per layer and how many a token uses."""
        return experts(self.shape)

    @property
    def model_bytes(self) -> int:
        """Bytes of the format that activations, states and an ``auto`` KV cache have."""
        return DTYPE_BYTES.get(self.shape.dtype, 2)

    def expert_share(self, batch: int) -> float:
        """Share of the routed experts that a step of ``batch`` tokens reads: ``1 - (1 - k / E)^batch``, uniform
        routing.
        """
        total, used = self.experts
        return 1.0 if not total else 1 - (1 - used / total) ** batch

    def read_bytes(self, batch: int = 1) -> float:
        """Weight bytes that one step of ``batch`` tokens reads."""
        return self._read(self.bytes_by_role, self.expert_share(batch))

    def rank_bytes(self, ranks: int, *, padded: bool = False) -> int:
        """Weight bytes on one of ``ranks`` tensor-parallel ranks: norms, routers and latent down-projections are
        copied.

        Args:
            ranks: Ranks.
            padded: With what vLLM adds when it loads: its MXFP4 kernels pad the experts' hidden side to 256 columns.
        """
        total = 0.0
        kv = min((layer.kv_heads for layer in self.layers if hasattr(layer, "kv_heads")), default=ranks)
        for role, size in self.bytes_by_role.items():
            if role == "draft":
                continue
            share = 1 if role in REPLICATED else ranks
            if role in ("attention_k", "attention_v"):
                share = min(ranks, max(1, kv))
            pad = 1.0
            if padded and self.format == "mxfp4" and role in ("expert_up", "expert_down"):
                pad = -(-self.shape.hidden // 256) * 256 / self.shape.hidden
            total += size * pad / share
        return round(total)

    def _read(self, amounts: Mapping[str, float], share: float) -> float:
        total = 0.0
        for role, amount in amounts.items():
            if role.startswith("expert_"):
                total += amount * share
            elif role not in UNREAD or (role == "embedding" and tied(self.shape)):
                total += amount
        return total


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
        DataError: The configuration does not hold together.
        UsageError: The format is unknown.
    """
    shape = read_config(config, name, file)
    own, exceptions = declared_format(config, file)
    chosen = find_format(quant) if quant else own or find_format(_dtype_format(shape.dtype, file))
    matrices = count(shape)
    return ModelSpec(
        name,
        source,
        shape,
        chosen.name,
        _bytes_by_role(matrices, shape, chosen, exceptions if not quant else Exceptions()),
        _parameters(matrices),
        exact=False,
        approximations=shape.approximations,
    )


def _dtype_format(dtype: str, file: str) -> str:
    known = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8"}
    if dtype not in known:
        raise DataError(
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
    spec = from_config(config, str(folder), "", None, str(file))
    total: dict[str, float] = defaultdict(float)
    for part in files:
        for name, _, _, size in safetensors.tensor_table(part):
            total[role_of(name)] += size
    if tied(spec.shape) and "embedding" in total:
        total.pop("head", None)  # a copy that loading ties to the embedding
    return replace(spec, source="safetensors headers", bytes_by_role=dict(total), exact=True)


def _from_gguf(file: Path) -> ModelSpec:
    total: dict[str, float] = defaultdict(float)
    metadata: dict[str, Any] = {}
    for part in gguf.shards(file):
        read = gguf.read_gguf(part)
        metadata = {**read.metadata, **metadata}
        for name, _, _, size in read.tensors:
            total[role_of(name)] += size
    shape = read_config(gguf.to_config(metadata, str(file), "head" not in total), file.name, str(file))
    return ModelSpec(
        str(file),
        "GGUF tensor table",
        shape,
        gguf.file_type(metadata),
        dict(total),
        _parameters(count(shape)),
        exact=True,
        approximations=shape.approximations,
    )
