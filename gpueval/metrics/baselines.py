"""Classic baselines against a reference, for comparison: they need no judge and see only words (BERTScore: tokens in
their context, by the embedding model).

Texts without spaces between words (Chinese, Japanese, Thai) are compared character by character. BLEU comes from
sacrebleu, the longest common subsequence of ROUGE-L from rapidfuzz.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from gpueval.lazy import require
from gpueval.metrics.answers import is_equal, normalise
from gpueval.metrics.base import Metric, is_blank
from gpueval.records import Cell, Judgments, Need, Sample, State

_UNSPACED = r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_TOKEN = re.compile(rf"{_UNSPACED}|(?:(?!{_UNSPACED})\S)+")


def load_libraries(metrics: Iterable[Metric]) -> None:
    """Import what the chosen metrics need, so that a missing package is named before anything is judged.

    Raises:
        PrerequisiteError: A package is not installed.
    """
    names = {metric.name for metric in metrics}
    if "bleu" in names:
        require("sacrebleu", "baselines")
    if "rouge_l" in names:
        require("rapidfuzz.distance", "baselines")


def tokens(text: str) -> list[str]:
    """Split a normalised text into words, and unspaced scripts into characters."""
    return _TOKEN.findall(normalise(text))


def token_f1(answer: str, reference: str) -> float:
    """Return ``2 P R / (P + R)`` over the multiset of shared tokens (SQuAD; Rajpurkar et al. 2016).

    1 when both have no token, 0 when one has none.
    """
    a, r = Counter(tokens(answer)), Counter(tokens(reference))
    if not a or not r:
        return float(a == r)
    shared = (a & r).total()
    return 2 * shared / (a.total() + r.total())


def rouge_l(answer: str, reference: str) -> float:
    """Return the F1 of the longest common subsequence of tokens (Lin 2004): P = LCS / |answer|, R = LCS / |reference|.

    1 when both have no token, 0 when one has none.
    """
    a, r = tokens(answer), tokens(reference)
    if not a or not r:
        return float(a == r)
    lcs = require("rapidfuzz.distance", "baselines").LCSseq.similarity(a, r)
    return 2 * float(lcs) / (len(a) + len(r))


def bleu(answer: str, reference: str) -> float:
    """Return sacrebleu's sentence BLEU / 100 (effective order, exponential smoothing), over :func:`tokens`."""
    sacrebleu = require("sacrebleu", "baselines")
    scored = sacrebleu.sentence_bleu(
        " ".join(tokens(answer)), [" ".join(tokens(reference))], tokenize="none", use_effective_order=True
    )
    return min(1.0, float(scored.score) / 100)


def _exact(sample: Sample, judgments: Judgments) -> Cell:
    return Cell(float(is_equal(sample)))


def _token_f1(sample: Sample, judgments: Judgments) -> Cell:
    return Cell(token_f1(sample.answer or "", sample.reference or ""))


def _bleu(sample: Sample, judgments: Judgments) -> Cell:
    return Cell(bleu(sample.answer or "", sample.reference or ""))


def _rouge_l(sample: Sample, judgments: Judgments) -> Cell:
    return Cell(rouge_l(sample.answer or "", sample.reference or ""))


def _bertscore(sample: Sample, judgments: Judgments) -> Cell:
    if is_blank(sample.answer):
        return Cell(0.0, State.NO_CLAIMS)
    (verdict,) = judgments.verdicts[Need.TOKENS_REFERENCE]
    return Cell(verdict.p, verdict.state)


EXACT_MATCH = Metric("exact_match", ("answer", "reference"), (), _exact)
"""1 where answer and reference are equal after normalisation, else 0."""
TOKEN_F1 = Metric("token_f1", ("answer", "reference"), (), _token_f1)
BLEU = Metric("bleu", ("answer", "reference"), (), _bleu, extra="baselines")
ROUGE_L = Metric("rouge_l", ("answer", "reference"), (), _rouge_l, extra="baselines")
BERTSCORE = Metric("bertscore", ("answer", "reference"), (Need.TOKENS_REFERENCE,), _bertscore)
"""F1 of greedy token matching (Zhang et al. 2020): P = mean over the answer's tokens of the highest cosine with a token
of the reference, R the other way round, F1 = 2 P R / (P + R), clipped to [0, 1]. Token vectors are the embedding
model's last layer; not rescaled with a baseline, so values of different models do not compare. 0 where the answer is
blank."""
