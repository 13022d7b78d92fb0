"""Engines in actors of a Ray cluster: one per replica, each with devices of its own.

The driver plans, stores and scores; actors only answer. An actor that dies, with its node or alone, raises
:class:`~gpueval.errors.EngineDied` here like any engine, so :class:`~gpueval.engines.recovery.Recovering` starts it
again where there is room and finds the request that kills it, and :class:`~gpueval.engines.balanced.Balanced` lets the
others go on. Ray Data's actor pools would start the engines anew in every round of every window.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gpueval.engines.base import Engine
from gpueval.engines.recovery import Recovering
from gpueval.errors import EngineDied, EngineError, GpuevalError, PrerequisiteError
from gpueval.lazy import load, require
from gpueval.machine import cores
from gpueval.records import Completion, Request

_PLACE_S = 60.0
"""Longest wait for a place on the cluster."""

_REPLY_S, _LINGER_S = 0.5, 0.02
_ROOM = 1024
"""Requests that a replica may hold, answered or not."""

_LOCAL_STORE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a replica makes its engine.

    Attributes:
        make: ``"module:function"`` that returns the engine.
        arguments: Its arguments.
        options: Its keyword arguments.
        gpus: GPUs of a replica; a share below 1 leaves the rest of the GPU to others.
        cpus: Processor cores of a replica.
        whole: The engine wants its requests as one list (encoders sort them by length).
    """

    make: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    gpus: float = 0.0
    cpus: float = 1.0
    whole: bool = False


class NoPlace(EngineDied):
    """Raised when the cluster has no room for a replica."""

    exit_code = 3


def connect(address: str | None) -> Any:
    """Join a running cluster, or start one of this machine alone.

    Args:
        address: ``auto`` or ``HOST:PORT`` of a running cluster; None starts a local one that ends with this process.

    Raises:
        PrerequisiteError: Ray is not installed, or no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = require("ray", "ray")
    if ray.is_initialized():
        return ray
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address is None:
            ray.init(
                address="local",
                num_cpus=max(len(cores()), 1),
                include_dashboard=False,
                object_store_memory=_LOCAL_STORE_BYTES,
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PrerequisiteError(
            f"No Ray cluster answers at {address or 'this machine'}: {error}",
            "Start one with: ray start --head",
        ) from error
    return ray


def somewhere(function: Callable[[], Any], *, gpu: bool) -> Any:
    """Return what a function says on a node of the cluster, on one with a GPU where asked.

    Raises:
        NoPlace: No such node is free.
    """
    ray = require("ray", "ray")
    task = ray.remote(function).options(num_gpus=1 if gpu else 0, num_cpus=1)
    return placed(ray, task.remote(), "a look at a node", float(gpu), 1.0)


def start_replicas(recipe: Recipe, n: int) -> list[Engine]:
    """Start ``n`` replicas at the same time, each wrapped so that it survives its deaths.

    Raises:
        NoPlace: The cluster has no room for all of them.
        EngineError: An engine does not start.
    """

    def begin(number: int) -> Engine:
        return Recovering(lambda: RayReplica(recipe, number))

    with ThreadPoolExecutor(n) as pool:
        futures = [pool.submit(begin, number) for number in range(n)]
    failed = next((error for future in futures if (error := future.exception())), None)
    if failed:
        for future in futures:
            if not future.exception():
                future.result().close()
        raise failed
    return [future.result() for future in futures]


class RayReplica:
    """The driver's end of one actor.

    Args:
        recipe: How it makes its engine.
        number: Of this replica, from 0.

    Raises:
        NoPlace: The cluster has no room for it.
        EngineDied: The actor died while it started.
        GpuevalError: Its engine does not start.
    """

    def __init__(self, recipe: Recipe, number: int) -> None:
        self._ray = ray = require("ray", "ray")
        actor = ray.remote(_Actor).options(num_gpus=recipe.gpus, num_cpus=recipe.cpus)
        self._actor: Any = actor.remote(recipe, number)
        try:
            placed(ray, self._actor.where.remote(), f"replica {number + 1}", recipe.gpus, recipe.cpus)
            self._about, failed = ray.get(self._actor.begin.remote())
        except GpuevalError:
            self.close()
            raise
        except ray.exceptions.RayError as error:
            self.close()
            raise EngineDied(f"replica {number + 1} died while it started: {_words(error)}") from error
        if failed:
            self.close()
            raise failed
        self.fingerprint: str = self._about["fingerprint"]
        self.max_prompt_tokens: int = self._about["max_prompt_tokens"]

    def count_tokens(self, text: str) -> int:
        """Count with the replica's engine."""
        found: int = self._call("count_tokens", text)
        return found

    def facts(self) -> Mapping[str, Any]:
        """The engine's facts and the node it is on; as they were at the start where it is gone."""
        with suppress(EngineDied):
            self._about["facts"] = self._call("facts")
        return dict(self._about["facts"]) | {"node": self._about["node"]}

    def close(self) -> None:
        """End the actor."""
        actor, self._actor = self._actor, None
        if actor is not None:
            with suppress(Exception):  # it is dead already, or Ray is
                self._ray.get(actor.close.remote(), timeout=10)
            self._ray.kill(actor)

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Keep the actor's queue filled and yield what comes back."""
        waiting = iter(requests)
        pending: set[bytes] = set()
        while True:
            batch = list(islice(waiting, _ROOM - len(pending)))
            pending.update(request.key for request in batch)
            if not pending:
                return
            found, death = self._call("exchange", batch)
            for completion in found:
                if completion.key in pending:  # else left over from a run that was not read to its end
                    pending.remove(completion.key)
                    yield completion
            if death:
                raise EngineDied(death)

    def _call(self, name: str, *arguments: Any) -> Any:
        if self._actor is None:
            raise EngineDied("the replica is gone")
        try:
            return self._ray.get(getattr(self._actor, name).remote(*arguments))
        except self._ray.exceptions.RayError as error:
            raise EngineDied(f"a replica on {self._about['node']} is gone: {_words(error)}") from error


class _Actor:
    """The cluster's end: an engine, a thread that runs it, and what goes in and out."""

    def __init__(self, recipe: Recipe, number: int) -> None:
        self._recipe, self._number = recipe, number
        self._inbox: deque[Request] = deque()
        self._answers: deque[Completion] = deque()
        self._changed = threading.Condition()
        self._death = ""

    def where(self) -> str:
        """Name the node: answers once the actor has a place."""
        return socket.gethostname()

    def begin(self) -> tuple[dict[str, Any], EngineError | None]:
        """Make the engine and start to answer."""
        recipe = self._recipe
        if not recipe.gpus and recipe.cpus < len(own := cores()):
            share = max(1, int(recipe.cpus))
            first = self._number * share % (len(own) // share * share)
            os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, own[first : first + share]))
        try:
            self._engine = load(recipe.make)(*recipe.arguments, **recipe.options)
        except GpuevalError as error:
            return {}, on_this_node(error)
        threading.Thread(target=self._work, daemon=True).start()
        return {
            "fingerprint": self._engine.fingerprint,
            "max_prompt_tokens": getattr(self._engine, "max_prompt_tokens", 0),
            "facts": dict(self._engine.facts()),
            "node": socket.gethostname(),
        }, None

    def count_tokens(self, text: str) -> int:
        return int(self._engine.count_tokens(text))

    def facts(self) -> dict[str, Any]:
        return dict(self._engine.facts())

    def exchange(self, requests: Sequence[Request]) -> tuple[list[Completion], str]:
        """Take requests and return what is answered by now; waits a little for the first."""
        with self._changed:
            self._inbox.extend(requests)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answers or self._death, _REPLY_S)
        time.sleep(_LINGER_S)  # more are on their way: one message for many
        with self._changed:
            found = list(self._answers)
            self._answers.clear()
            return found, self._death

    def close(self) -> None:
        self._engine.close()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._inbox)
            try:
                taken = iter(self._taken, None)
                for completion in self._engine.run(list(taken) if self._recipe.whole else _Inbox(self._taken)):
                    with self._changed:
                        self._answers.append(completion)
                        self._changed.notify_all()
            except Exception as error:  # the driver decides what becomes of it
                with self._changed:
                    self._death = str(error) if isinstance(error, GpuevalError) else f"{type(error).__name__}: {error}"
                    self._changed.notify_all()
                return

    def _taken(self) -> Request | None:
        with self._changed:
            return self._inbox.popleft() if self._inbox else None


class _Inbox(Iterator[Request]):
    """What has come in; ends for the moment when there is nothing."""

    def __init__(self, take: Callable[[], Request | None]) -> None:
        self._take = take

    def __next__(self) -> Request:
        request = self._take()
        if request is None:
            raise StopIteration
        return request


def on_this_node(error: GpuevalError) -> EngineError:
    """Say on which node something went wrong, as an error that travels to the driver."""
    return EngineError(f"on {socket.gethostname()}: {error.message}", error.remedy)


def placed(ray: Any, reply: Any, what: str, gpus: float, cpus: float) -> Any:
    """Wait for something that Ray answers as soon as it has found a place for it.

    Raises:
        NoPlace: It finds none.
    """
    try:
        return ray.get(reply, timeout=_PLACE_S)
    except ray.exceptions.GetTimeoutError as error:
        free, every = ray.available_resources(), ray.cluster_resources()
        have = ", ".join(f"{free.get(kind, 0):g} of {every.get(kind, 0):g} {kind}s" for kind in ("GPU", "CPU"))
        raise NoPlace(
            f"The cluster has no place for {what}: it needs {gpus:g} GPUs and {cpus:g} CPUs on one node, "
            f"and {have} are free in all.",
            "Lower --replicas or --tensor-parallel, or add nodes.",
        ) from error


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
