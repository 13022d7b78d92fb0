"""The definition of :func:`gpueval_kernels.greedy_match`, and what runs on a processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpueval_kernels.lengths import lengths, prepared

Numbers = NDArray[np.int64]


class Matcher:
    """Holds the normalised tokens; see :meth:`of`."""

    def __init__(self, tokens: NDArray[np.floating], offsets: Numbers) -> None:
        length = lengths(tokens)
        self._fit, self._unit = np.isfinite(length), prepared(tokens, length, unit=True)
        self._offsets = offsets

    def of(self, first: Numbers, second: Numbers, begins: Numbers) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return best cosine and place of the best token in ``second[p]`` for every token of ``first[p]``.

        Args:
            first: (pairs,) numbers of texts.
            second: (pairs,) numbers of texts.
            begins: (pairs + 1,) where each pair's result begins.
        """
        best = np.zeros(begins[-1], np.float32)
        at = np.full(begins[-1], -1, np.int32)
        for pair, (x, y) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            rows = slice(self._offsets[x], self._offsets[x + 1])
            columns = slice(self._offsets[y], self._offsets[y + 1])
            fit = self._fit[columns]
            if not fit.any():
                continue
            cosines = self._unit[rows] @ self._unit[columns].T
            cosines[:, ~fit] = -np.inf
            place = cosines.argmax(axis=1)
            out, own = slice(begins[pair], begins[pair + 1]), self._fit[rows]
            at[out] = np.where(own, place, -1)
            best[out] = np.where(own, np.take_along_axis(cosines, place[:, None], 1)[:, 0], 0)
        return best, at
