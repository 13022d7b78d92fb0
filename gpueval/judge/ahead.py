"""Windows of samples judged in order while the next is already planned and asked, so that the engine never waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from gpueval.engines.shared import Shared
from gpueval.judge.injection import suspicions, without_instructions
from gpueval.judge.run import Bench, Progress, Tally, judge_window
from gpueval.metrics import Metric
from gpueval.records import Judgments, Sample

_UNJUDGED = Judgments({}, {})


@dataclass(frozen=True, slots=True)
class Judged:
    """A window of samples with what the judge made of them.

    Attributes:
        metrics: What they were asked for.
        samples: As the judge read them.
        suspicious: Per sample the texts that speak to the judge.
        judgments: Per sample.
    """

    metrics: Sequence[Metric]
    samples: Sequence[Sample]
    suspicious: Sequence[Sequence[str]]
    judgments: Sequence[Judgments]


def judged_windows(
    take: Callable[[int], tuple[list[Sample], list[Metric]]], bench: Bench, *, n_ahead: int
) -> Iterator[Judged]:
    """Judge window after window.

    Args:
        take: Called with the number of samples taken before; returns the next ones and what they are asked for.
        bench: What the rounds work with; its tally grows, and its progress is told of the window that is due.
        n_ahead: Windows begun before the one that is due is finished. 0 where the next depends on its results.

    Raises:
        EngineDied: The engine cannot be kept alive. Everything answered is in the store.
    """
    due = 0
    pending: deque[Future[tuple[Judged, Tally]]] = deque()
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1 + n_ahead))
        judge = Shared(bench.judge, at_once=False) if bench.judge else None
        embedder = Shared(bench.embedder, at_once=True) if bench.embedder else None
        checker = Shared(bench.checker, at_once=True) if bench.checker else None
        for engine in (judge, embedder, checker):
            if engine:
                stack.callback(engine.close)

        def of_window(number: int) -> Progress:
            def tell(stage: str, done: int, total: int) -> None:
                if number == due:
                    bench.progress(stage, done, total)

            return tell

        n_taken = n_windows = 0
        more = True
        while True:
            while more and len(pending) <= n_ahead:
                samples, metrics = take(n_taken)
                more = bool(samples)
                if more:
                    own = replace(bench, judge=judge, embedder=embedder, checker=checker, tally=Tally())
                    own.progress = of_window(n_windows)
                    pending.append(pool.submit(_judged, samples, metrics, own))
                    n_taken, n_windows = n_taken + len(samples), n_windows + 1
            if not pending:
                break
            judged, tally = pending.popleft().result()
            bench.tally.add(tally)
            yield judged
            due += 1
        bench.tally.judge_s = judge.busy_s if judge else 0.0
        bench.tally.checker_s = checker.busy_s if checker else 0.0


def _judged(samples: Sequence[Sample], metrics: Sequence[Metric], bench: Bench) -> tuple[Judged, Tally]:
    if not metrics:
        return Judged(metrics, samples, [[] for _ in samples], [_UNJUDGED] * len(samples)), bench.tally
    noted = [suspicions(sample) for sample in samples]
    read = [
        without_instructions(sample) if bench.guard and found else sample
        for sample, found in zip(samples, noted, strict=True)
    ]
    return Judged(metrics, read, noted, judge_window(read, metrics, bench)), bench.tally
