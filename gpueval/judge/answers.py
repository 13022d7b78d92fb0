"""Replies to a list of requests: those that are stored, and the rest from the engine, stored as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpueval.engines.base import Engine
from gpueval.judge.store import Store
from gpueval.records import Completion, Request


def answers(
    requests: Sequence[Request],
    engine: Engine,
    store: Store,
    stage: str,
    progress: Callable[[str, int, int], None],
) -> dict[bytes, Completion]:
    """Return a reply per key. A failure that may pass is asked again by the next call, not by this one.

    Args:
        requests: May repeat keys; each key is asked once.
        engine: Answers what the store does not hold.
        store: Keeps every reply.
        stage: Name for progress.
        progress: Called with stage, done and total, over what is asked.

    Raises:
        EngineDied: The engine cannot be kept alive. Everything answered is in the store.
    """
    distinct = {request.key: request for request in requests}
    found = store.get(list(distinct))
    asked = [request for key, request in distinct.items() if key not in found]
    for done, completion in enumerate(engine.run(asked), start=1):
        store.put(completion, distinct[completion.key].ask.kind)
        found[completion.key] = completion
        progress(stage, done, len(asked))
    store.commit()
    return found
