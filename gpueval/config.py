"""Settings of a run, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gpueval.errors import UsageError

ClaimsBy = Literal["sentences", "llm"]


def is_server(judge: object) -> bool:
    """Tell whether a judge is given as the URL of a server, or as several."""
    return str(judge).startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What a run judges and how.

    Attributes:
        judge: Model folder, server URL or ``scripted:RULES.jsonl``; None to score from stored replies only.
        embedder: Sentence-transformers folder; None where no metric compares meanings.
        metrics: Names, in the order of the result.
        engine: ``vllm`` or ``transformers`` for a model folder.
        claims: ``sentences``: every sentence that says something is a claim; ``llm``: the judge extracts atomic claims.
        threshold: A verdict counts as yes when p >= threshold.
        window_samples: Samples in memory at a time; each round asks all requests of a window at once.
        engine_options: Arguments of the engine.
        force: Start a judge that does not fit by the sizing.
        checker: Folder of an encoder that checks claims before the judge, or alone; None without.
        checker_band: The judge is asked where the checker's probability lies within.
        keep_instructions: Let the judge read sentences that speak to it, and judge claims that do.
        until_ci: Stop asking a judged metric when its 95 % interval is no wider than mean ± this; samples come in
            random order. None asks all.
        seed: Of that order.
        ray: Address of a Ray cluster, or ``auto``; None without one.
        replicas: Engines of the judge, each on devices of its own, in actors of the Ray cluster or of this machine;
            None takes as many as there are devices for.
        checker_format: How the checker is asked; None tells it from the folder.

    Raises:
        UsageError: A value is out of range.
    """

    judge: str | None
    embedder: str | None
    metrics: tuple[str, ...]
    engine: str | None = None
    claims: ClaimsBy = "sentences"
    threshold: float = 0.5
    window_samples: int = 4096
    embed_device: str | None = None
    engine_options: dict[str, Any] = field(default_factory=dict)
    force: bool = False
    checker: str | None = None
    checker_band: tuple[float, float] = (0.1, 0.9)
    checker_format: str | None = None
    keep_instructions: bool = False
    until_ci: float | None = None
    seed: int = 0
    ray: str | None = None
    replicas: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise UsageError(f"threshold is {self.threshold}; it must lie between 0 and 1.")
        if self.window_samples < 1:
            raise UsageError(f"window is {self.window_samples}; it must be at least 1.")
        if self.until_ci is not None and not 0 < self.until_ci < 1:
            raise UsageError(f"until_ci is {self.until_ci}; it must lie between 0 and 1, for example 0.02.")
        if self.replicas is not None and self.replicas < 1:
            raise UsageError(f"replicas is {self.replicas}; it must be at least 1.")
        if (self.ray or self.replicas) and is_server(self.judge):
            raise UsageError(
                "Replicas are of a model folder; a server's judge runs where the server does.",
                "Leave --ray and --replicas out, and give several servers as --judge URL,URL.",
            )
        low, high = self.checker_band
        if not 0 <= low <= high <= 1:
            raise UsageError(f"checker_band is {low}, {high}; it must rise within 0 to 1.")
        if self.claims not in ("sentences", "llm"):
            raise UsageError(f"claims is '{self.claims}'; it is 'sentences' or 'llm'.")
