"""Engines by name, loaded on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpueval.config import is_server
from gpueval.engines.base import Embedder, Engine
from gpueval.errors import PrerequisiteError, UsageError
from gpueval.lazy import load

ENGINES = {
    "vllm": "gpueval.engines.vllm_local:VllmLocal",
    "transformers": "gpueval.engines.transformers_local:TransformersLocal",
    "openai": "gpueval.engines.openai_server:OpenAIServer",
    "scripted": "gpueval.engines.scripted:from_rules",
}


def start(
    judge: str, *, engine: str | None = None, options: dict[str, Any] | None = None, log: Path | None = None
) -> Engine:
    """Start the engine that a judge's name asks for; one in this process survives its deaths.

    Args:
        judge: A model folder, the URL of an OpenAI-compatible server (or several, separated by commas), or
            ``scripted:RULES.jsonl``.
        engine: ``vllm`` (default) or ``transformers`` for a folder; elsewhere it follows from the name.
        options: Arguments of the engine.
        log: File for what model libraries print; None leaves it on the terminal.

    Raises:
        UsageError: The name fits no engine.
        PrerequisiteError: The folder or a package is missing.
        EngineError: The engine does not start.
    """
    chosen = dict(options or {})
    if is_server(judge):
        servers: list[Engine] = [load(ENGINES["openai"])(url.strip(), **chosen) for url in judge.split(",")]
        return servers[0] if len(servers) == 1 else as_one(servers)
    if judge.startswith("scripted:"):
        scripted: Engine = load(ENGINES["scripted"])(Path(judge.removeprefix("scripted:")))
        return scripted
    recovering: Engine = load("gpueval.engines.recovery:Recovering")(lambda: load_judge(judge, engine, chosen, log))
    return recovering


def load_judge(
    folder: str, engine: str | None = None, options: Mapping[str, Any] | None = None, log: Path | None = None
) -> Engine:
    """Load the judge of a model folder, or a scripted one; its death is its end. Arguments as for :func:`start`."""
    if folder.startswith("scripted:"):
        return start(folder)
    name = engine or "vllm"
    if name not in ("vllm", "transformers"):
        raise UsageError(f"Unknown engine '{name}' for a model folder.", "Known engines: vllm, transformers")
    made: Engine = load(ENGINES[name])(model_folder(folder), log=log, **(options or {}))
    return made


def as_one(members: Sequence[Engine]) -> Engine:
    """Make one engine of several; see :class:`gpueval.engines.balanced.Balanced`.

    Raises:
        UsageError: They differ in what decides a reply.
    """
    made: Engine = load("gpueval.engines.balanced:Balanced")(members)
    return made


def start_embedder(folder: str, device: str | None = None, log: Path | None = None) -> Embedder:
    """Load the embedding model of a folder.

    Raises:
        PrerequisiteError: The folder or a package is missing.
    """
    made: Embedder = load("gpueval.engines.sentence_embedder:SentenceEmbedder")(
        model_folder(folder), device=device, log=log
    )
    return made


def start_checker(
    folder: str,
    sentences: Callable[[str], Sequence[str]],
    form: str | None = None,
    device: str | None = None,
    log: Path | None = None,
) -> Embedder:
    """Load the encoder of a folder that checks claims; see :class:`gpueval.engines.encoder_checker.EncoderChecker`.

    Raises:
        PrerequisiteError: The folder or a package is missing.
        UsageError: It cannot be told how the model is to be asked.
    """
    made: Embedder = load("gpueval.engines.encoder_checker:EncoderChecker")(
        model_folder(folder), sentences=sentences, form=form, device=device, log=log
    )
    return made


def model_folder(name: str) -> Path:
    """Check that a name is a local model folder; nothing is ever downloaded.

    Raises:
        PrerequisiteError: It is not.
    """
    path = Path(name).expanduser()
    if (path / "config.json").is_file():
        return path
    what = "has no config.json" if path.is_dir() else "does not exist"
    raise PrerequisiteError(
        f"The model folder {name} {what}.",
        "Give a local Hugging Face model folder (gpueval downloads nothing) or the URL of a server.",
    )
