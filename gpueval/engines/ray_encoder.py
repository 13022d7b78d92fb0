"""An embedding model in actors of a Ray cluster: texts go out in pieces, vectors come back in order."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpueval.engines.ray_replica import connect, on_this_node, placed
from gpueval.engines.text_encoder import BLOCK_TEXTS, Kind, TextEncoder, Vectors
from gpueval.errors import EngineError, GpuevalError, UsageError
from gpueval.lazy import require

_PIECE_TEXTS = 1024
_TRIES = 5


class RayEncoder:
    """Encodes with ``n`` replicas of a model; Ray starts one that dies again, elsewhere if need be, and repeats its
    piece.

    Args:
        folder: Model folder, at the same path on every node.
        address: Of the cluster; None starts one of this machine.
        n: Replicas; None takes one per GPU of the cluster, else one.
        device: As for :class:`~gpueval.engines.text_encoder.TextEncoder`.
        dimensions: As there.

    Raises:
        NoPlace: The cluster has no room for so many.
        EngineError: The model cannot be loaded on a node.
        UsageError: The nodes hold different models.
    """

    def __init__(
        self, folder: Path, address: str | None, n: int | None, *, device: str | None, dimensions: int | None
    ) -> None:
        ray = connect(address)
        every = ray.cluster_resources()
        on_gpu = every.get("GPU", 0) > 0 and device != "cpu"
        n = n or (int(every["GPU"]) if on_gpu else 1)
        cores = max(1, int(every.get("CPU", 1)) // n)
        gpus, cpus = float(on_gpu), 1.0 if on_gpu else float(cores)
        actor = ray.remote(_Actor).options(num_gpus=gpus, num_cpus=cpus, max_restarts=_TRIES, max_task_retries=_TRIES)
        place = device if on_gpu else "cpu"
        self._actors = [actor.remote(str(folder), place, dimensions, cores) for _ in range(n)]
        for number, one in enumerate(self._actors, start=1):
            placed(ray, one.where.remote(), f"encoder {number}", gpus, cpus)
        found = ray.get([one.begin.remote() for one in self._actors])
        failed = next((error for _, error in found if error), None)
        if failed:
            raise failed
        about: list[dict[str, Any]] = [facts for facts, _ in found]
        if len({facts["fingerprint"] for facts in about}) > 1:
            raise UsageError("The nodes hold different embedding models.", "Put the same folder on every node.")
        self.dimensions: int = about[0]["dimensions"]
        self.fingerprint: str = about[0]["fingerprint"]
        self.device = "cpu"  # of this process, which searches
        self.block_texts = max(BLOCK_TEXTS, 2 * _PIECE_TEXTS * n)
        self.n_texts = self.n_truncated = 0

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Return (texts, dimensions) float32, as one encoder would."""
        pool = require("ray.util", "ray").ActorPool(self._actors)
        pieces = [texts[i : i + _PIECE_TEXTS] for i in range(0, len(texts), _PIECE_TEXTS)]
        rows = []
        try:
            for vectors, n_truncated in pool.map(lambda actor, piece: actor.encode.remote(piece, kind), pieces):
                rows.append(vectors)
                self.n_truncated += n_truncated
        except require("ray.exceptions", "ray").RayError as error:
            raise EngineError(
                f"The cluster could not encode a piece {_TRIES + 1} times: {str(error).splitlines()[0]}",
                "What was encoded is kept: mend the cluster and run the same command to go on.",
            ) from error
        self.n_texts += len(texts)
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), np.float32)


class _Actor:
    """One replica."""

    def __init__(self, folder: str, device: str | None, dimensions: int | None, cores: int) -> None:
        self._arguments: tuple[str, str | None, int | None] = (folder, device, dimensions)
        self._cores = cores
        self._encoder: TextEncoder | None = None

    def where(self) -> str:
        """Name the node: answers once the actor has a place."""
        return socket.gethostname()

    def begin(self) -> tuple[dict[str, Any], EngineError | None]:
        """Load the model."""
        try:
            encoder = self._loaded()
        except GpuevalError as error:
            return {}, on_this_node(error)
        return {"dimensions": encoder.dimensions, "fingerprint": encoder.fingerprint}, None

    def encode(self, texts: Sequence[str], kind: Kind) -> tuple[Vectors, int]:
        """Return the vectors, and how many of the texts were too long."""
        encoder = self._loaded()
        before = encoder.n_truncated
        vectors = encoder.encode(texts, kind)
        return vectors, encoder.n_truncated - before

    def _loaded(self) -> TextEncoder:
        if self._encoder is None:  # the first call, or the first after a restart
            folder, device, dimensions = self._arguments
            self._encoder = TextEncoder(Path(folder), device=device, dimensions=dimensions)
            require("torch", "embed").set_num_threads(self._cores)
        return self._encoder
