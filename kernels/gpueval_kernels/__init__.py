"""Array operations of an evaluator that a library does not have: each with a definition in NumPy, which is also what
runs on a processor, and a Triton kernel for NVIDIA GPUs.

:func:`bootstrap`    resampled means with counter-based random numbers: the same draws on every device
:func:`cosine_topk`  nearest vectors, exactly, with masks, and equal scores in the order of their numbers
:func:`greedy_match` best match of every token in the other text (BERTScore, MaxSim, alignment)

Every result names the implementation that ran. Nothing here knows the rest of gpueval.
"""

from gpueval_kernels.bootstrap import Bootstrap, bootstrap
from gpueval_kernels.cosine_topk import TopK, cosine_topk
from gpueval_kernels.greedy_match import Matches, greedy_match

__all__ = ["Bootstrap", "Matches", "TopK", "bootstrap", "cosine_topk", "greedy_match"]
