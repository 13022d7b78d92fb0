"""What ``gpueval diagnose`` and ``gpueval ablate`` leave in a run folder, written and read back as records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpueval.diagnosis.ablation import Ablation
from gpueval.diagnosis.changes import Changes
from gpueval.diagnosis.clusters import Clusters
from gpueval.diagnosis.diagnose import NAMED_FROM, Diagnosis, diagnose
from gpueval.errors import UsageError
from gpueval.run_folder import write_json

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that is known of why a run scores as it does.

    Attributes:
        diagnosis: Its causes.
        clusters: Of its failing claims, where ``gpueval diagnose --embedder`` found them.
        changes: Since another run, where ``gpueval diagnose --against`` looked.
        base: Name of that run.
        ablation: Where the run is an ablation.
    """

    diagnosis: Diagnosis
    clusters: Clusters | None = None
    changes: Changes | None = None
    base: str = ""
    ablation: Ablation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``gpueval diagnose --json``."""
        body: dict[str, Any] = self.diagnosis.to_dict()
        body |= {"clusters": self.clusters.to_dict()} if self.clusters else {}
        return body | ({"against": {"base": self.base} | self.changes.to_dict()} if self.changes else {})


@dataclass(frozen=True, slots=True)
class _Since(Changes):
    """Changes with the name of the run that they are held against."""

    base: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What ``diagnosis.json`` holds besides the causes, which are found anew."""

    named_from: float = NAMED_FROM
    clusters: Clusters | None = None
    against: _Since | None = None


def keep(findings: Findings, folder: Path) -> None:
    """Leave ``diagnosis.json`` in a run folder."""
    write_json(folder / "diagnosis.json", findings.to_dict())


def findings_of(folder: Path) -> Findings:
    """Diagnose a run, and read back what was found out about it before.

    Raises:
        UsageError: The folder is no finished run, or a file of it is damaged.
    """
    kept = _read(folder / "diagnosis.json", _Kept) or _Kept()
    return Findings(
        diagnose(folder, named_from=kept.named_from),
        kept.clusters,
        kept.against,
        kept.against.base if kept.against else "",
        _read(folder / "ablation.json", Ablation),
    )


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path} is damaged: {error}.", "Remove it, or make it anew with the command that left it."
        ) from error
