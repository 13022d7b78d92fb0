"""gpueval scores retrieval-augmented generation on your own hardware, offline.

Public names: :func:`evaluate`, :func:`rescore`, :func:`ablate`, :func:`diagnose`, :func:`calibrate`, :func:`rank`,
:func:`retrieve`, :func:`size`, :func:`make_testset`, :class:`Result`, :class:`Sample`, :class:`Passage`,
:class:`Metric`, :class:`GpuevalError`. They load on first use; ``import gpueval`` itself is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpueval.ablation.ablate import ablate
    from gpueval.calibration.run import calibrate_run as calibrate
    from gpueval.diagnosis.diagnose import diagnose
    from gpueval.errors import GpuevalError
    from gpueval.metrics import Metric
    from gpueval.pipeline import evaluate, rescore
    from gpueval.records import Passage, Sample
    from gpueval.retrieval.rank import rank
    from gpueval.retrieval.retrieve import retrieve
    from gpueval.scoring import Result
    from gpueval.sizing.questions import size
    from gpueval.testset.make import make_testset

__version__ = "0.1.0"
_PUBLIC = {
    "GpuevalError": "gpueval.errors:GpuevalError",
    "Metric": "gpueval.metrics:Metric",
    "Passage": "gpueval.records:Passage",
    "Result": "gpueval.scoring:Result",
    "Sample": "gpueval.records:Sample",
    "ablate": "gpueval.ablation.ablate:ablate",
    "calibrate": "gpueval.calibration.run:calibrate_run",
    "diagnose": "gpueval.diagnosis.diagnose:diagnose",
    "evaluate": "gpueval.pipeline:evaluate",
    "make_testset": "gpueval.testset.make:make_testset",
    "rank": "gpueval.retrieval.rank:rank",
    "rescore": "gpueval.pipeline:rescore",
    "retrieve": "gpueval.retrieval.retrieve:retrieve",
    "size": "gpueval.sizing.questions:size",
}

__all__ = [
    "GpuevalError",
    "Metric",
    "Passage",
    "Result",
    "Sample",
    "__version__",
    "ablate",
    "calibrate",
    "diagnose",
    "evaluate",
    "make_testset",
    "rank",
    "rescore",
    "retrieve",
    "size",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gpueval' has no attribute '{name}'")
    from gpueval.lazy import load

    return load(_PUBLIC[name])
