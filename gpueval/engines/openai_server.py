"""Any OpenAI-compatible chat server: vLLM's own, llama.cpp's, a gateway.

As many requests are in flight as the server keeps up with; each call has its own deadline; 429, 5xx, broken replies
and dropped connections are tried again after a growing pause (or the one the server names). Nothing is ever timed per
sample.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from math import exp
from typing import Any

from gpueval.engines.base import RUNAWAY
from gpueval.engines.pace import Pace
from gpueval.errors import EngineDied, EngineError
from gpueval.lazy import require
from gpueval.records import Completion, Request, State

_TOP_LOGPROBS = 20
_DEFAULT_CONTEXT_TOKENS = 8192
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_BUSY_TRIES = 20
"""Tries of a call that the server only puts off (429); with the longest pause, ten minutes."""

_DEAD_AFTER = 16
"""Calls in a row that the server failed for good before it counts as gone."""

_OPTIONS = ("chat_template_kwargs", "response_format", "top_logprobs", "logprobs", "repetition_detection")
_LOOK_S = 0.2
_THERE_S = 10.0
_CUT = ("length", "repetition")
_WORD = re.compile(r"[a-zA-Z]+")


class OpenAIServer:
    """A judge behind a URL.

    Verdicts read the label probabilities from ``top_logprobs``; a server that gives none still answers with a word,
    which counts as probability 1 (``facts`` says how often). Grammar and thinking switches are left out for servers
    that refuse them. The name of the model, and the path that vLLM gives for it, identify a server's replies: another
    port or machine with the same model goes on with what is stored.

    Args:
        base_url: For example ``http://127.0.0.1:8000/v1``.
        model: Model name; None takes the first that the server lists.
        concurrency: Most requests in flight; fewer while the server does not keep up, see
            :class:`~gpueval.engines.pace.Pace`.
        timeout_s: Deadline of one call, in seconds.
        retries: Further tries of a call that broke, after the first.
        max_model_len: Longest prompt with reply, in tokens; None asks the server, else 8,192.

    Raises:
        PrerequisiteError: The openai package is not installed.
        EngineError: The server cannot be reached or lists no model.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        concurrency: int = 256,
        timeout_s: float = 300.0,
        retries: int = 4,
        max_model_len: int | None = None,
    ) -> None:
        self._openai = openai = require("openai", "server")
        self._base_url = base_url.rstrip("/")
        self._options = {
            "base_url": self._base_url,
            "api_key": os.environ.get("OPENAI_API_KEY", "none"),
            "timeout": timeout_s,
            "max_retries": 0,
        }
        self._retries = retries
        try:
            with openai.OpenAI(**self._options) as client:
                listed = list(client.models.list())
        except openai.OpenAIError as error:
            raise EngineError(
                f"No OpenAI-compatible server answers at {base_url}: {error}", "Check the URL; it usually ends in /v1."
            ) from error
        names = [entry.id for entry in listed]
        if not names or (model is not None and model not in names):
            raise EngineError(f"The server at {base_url} has no model '{model or ''}'.", f"It has: {', '.join(names)}")
        self._model = model or names[0]
        entry = listed[names.index(self._model)]
        limit = getattr(entry, "max_model_len", None) or _DEFAULT_CONTEXT_TOKENS
        self.max_prompt_tokens = min(max_model_len or limit, limit)
        self.fingerprint = f"openai:{self._model}:{getattr(entry, 'root', None) or ''}"
        self._timeout_s = timeout_s
        self._pace = Pace(concurrency, timeout_s)
        self._refused: set[str] = set()
        self._n_without_logprobs = 0

    def count_tokens(self, text: str) -> int:
        """Estimate on the safe side, without the server's tokenizer: one token per three letters of an ASCII word, one
        per other ASCII character that is not a space, two per character of another script.
        """
        words = sum(len(word) // 3 + 1 for word in _WORD.findall(text))
        others = sum(
            1 if ord(character) < 128 else 2
            for character in text
            if not (character.isspace() or (character.isascii() and character.isalpha()))
        )
        return words + others

    def facts(self) -> Mapping[str, Any]:
        """Server, model, and how many verdicts came without probabilities."""
        return {
            "engine": "openai_server",
            "model": self._model,
            "fingerprint": self.fingerprint,
            "max_model_len": self.max_prompt_tokens,
            "server": self._base_url,
            "concurrency_reached": self._pace.limit,
            "n_verdicts_without_probabilities": self._n_without_logprobs,
        }

    def close(self) -> None:
        """Nothing to give back: each run closes its own connections."""

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Send all requests, as many at a time as the server keeps up with, and yield replies as they come.

        Raises:
            EngineDied: The server cannot be reached any more, or :data:`_DEAD_AFTER` calls in a row broke for good;
                these calls count as unanswered.
            EngineError: It refuses the key.
        """
        replies: queue.Queue[Completion | BaseException | None] = queue.Queue()
        stop = threading.Event()
        worker = threading.Thread(target=self._work, args=(iter(requests), replies, stop), daemon=True)
        worker.start()
        try:
            while (reply := replies.get()) is not None:
                if isinstance(reply, BaseException):
                    raise reply
                yield reply
        finally:
            stop.set()
            worker.join()

    def _work(
        self,
        waiting: Iterator[Request],
        replies: queue.Queue[Completion | BaseException | None],
        stop: threading.Event,
    ) -> None:
        try:
            asyncio.run(self._send(waiting, replies, stop))
        except BaseException as error:  # handed to the caller's thread
            replies.put(error)
        replies.put(None)

    async def _send(
        self,
        waiting: Iterator[Request],
        replies: queue.Queue[Completion | BaseException | None],
        stop: threading.Event,
    ) -> None:
        running: set[asyncio.Task[Completion]] = set()
        finished: asyncio.Queue[asyncio.Task[Completion]] = asyncio.Queue()
        failed: list[Completion] = []
        async with self._openai.AsyncOpenAI(**self._options) as client:
            try:
                while not stop.is_set():
                    while len(running) < self._pace.limit and (request := next(waiting, None)) is not None:
                        task = asyncio.create_task(self._ask(client, request))
                        task.add_done_callback(finished.put_nowait)
                        running.add(task)
                    if not running:
                        break
                    try:
                        task = await asyncio.wait_for(finished.get(), timeout=_LOOK_S)
                    except TimeoutError:
                        continue  # to see whether the caller still wants replies, or there is more to ask
                    running.discard(task)
                    completion = task.result()
                    if completion.failure in (State.ENGINE_ERROR, State.TIMEOUT):
                        failed.append(completion)
                        if len(failed) >= _DEAD_AFTER or not await self._is_there(client):
                            raise EngineDied(
                                f"The server at {self._base_url} failed {len(failed)} calls in a row; the last: "
                                f"{completion.message}",
                                "What was answered is kept: mend the server and run the same command to go on.",
                            )
                    else:
                        for reply in (*failed, completion):
                            replies.put(reply)
                        failed.clear()
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
        for reply in failed:
            replies.put(reply)

    async def _is_there(self, client: Any) -> bool:
        try:
            await asyncio.wait_for(client.models.list(), _THERE_S)
        except (TimeoutError, self._openai.APIConnectionError):
            return False
        except self._openai.OpenAIError:
            return True
        return True

    async def _ask(self, client: Any, request: Request) -> Completion:
        openai = self._openai
        pause_s, tries, busy, bare = _FIRST_PAUSE_S, 0, 0, False
        while True:
            arguments = self._arguments(request, bare=bare)
            began = time.monotonic()
            try:
                # The library's own deadline starts anew with every byte: a server that trickles would never miss it.
                call = client.chat.completions.create(**arguments)
                completion = self._read(request, await asyncio.wait_for(call, self._timeout_s))
            except (TimeoutError, openai.APITimeoutError):
                self._pace.strained(began, time.monotonic())
                message = f"no reply within {self._timeout_s:g} s"
                return Completion(request.key, failure=State.TIMEOUT, message=message)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                text = str(error)
                if _overflowed(text):
                    return Completion(request.key, failure=State.CONTEXT_OVERFLOW, message=text)
                named = next((name for name in _OPTIONS if name in text and name in _sent(arguments)), None)
                if named is not None:
                    self._refused.add(named)
                elif bare:
                    return Completion(request.key, failure=State.ENGINE_ERROR, message=text)
                else:  # it does not say what it minds: try this one request without what it can do without
                    bare = True
            except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
                raise EngineError(f"The server refuses the key: {error}", "Set OPENAI_API_KEY.") from error
            except (openai.OpenAIError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                self._pace.strained(began, time.monotonic())
                if isinstance(error, openai.RateLimitError):
                    busy += 1
                else:
                    tries += 1
                if tries > self._retries or busy > _BUSY_TRIES:
                    message = f"{type(error).__name__}: {error}"
                    return Completion(request.key, failure=State.ENGINE_ERROR, message=message)
                await asyncio.sleep(_named_pause_s(error) or pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
            else:
                self._pace.served(began, time.monotonic())
                return completion

    def _arguments(self, request: Request, *, bare: bool) -> dict[str, Any]:
        ask = request.ask
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": ask.system},
                {"role": "user", "content": "".join(request.parts)},
            ],
            "temperature": 0.0,
            "max_tokens": request.max_tokens,
        }
        if ask.labels and "logprobs" not in self._refused:
            arguments |= {"logprobs": True, "top_logprobs": 5 if "top_logprobs" in self._refused else _TOP_LOGPROBS}
        if ask.schema and not bare and "response_format" not in self._refused:
            schema = {"name": ask.kind, "schema": json.loads(ask.schema), "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        extra: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
        if ask.schema:
            extra["repetition_detection"] = RUNAWAY  # vLLM's; other servers leave it unread or name it as unknown
        if not bare:
            arguments["extra_body"] = {name: value for name, value in extra.items() if name not in self._refused}
        return arguments

    def _read(self, request: Request, response: Any) -> Completion:
        choice, usage = response.choices[0], response.usage
        text = choice.message.content or ""
        details = getattr(usage, "prompt_tokens_details", None)
        finish = "length" if choice.finish_reason in _CUT and not request.ask.labels else "stop"
        labels = self._labels(request, choice, text) if request.ask.labels else ()
        return Completion(
            request.key,
            text,
            labels,
            finish=finish,
            prompt_tokens=getattr(usage, "prompt_tokens", 0) or 0,
            cached_tokens=getattr(details, "cached_tokens", 0) or 0,
            output_tokens=getattr(usage, "completion_tokens", 0) or 0,
        )

    def _labels(self, request: Request, choice: Any, text: str) -> tuple[float, ...]:
        forms = [{form.strip().casefold() for form in group} for group in request.ask.labels]
        content = choice.logprobs.content if choice.logprobs else None
        if content:
            chances = {entry.token: exp(entry.logprob) for entry in content[0].top_logprobs}
            chances.setdefault(content[0].token, exp(content[0].logprob))
            return tuple(
                sum(chance for token, chance in chances.items() if token.strip().casefold() in group) for group in forms
            )
        self._n_without_logprobs += 1
        word = text.strip().strip(".!,:;\"'*").casefold()
        return tuple(float(word in group) for group in forms)


def _sent(arguments: dict[str, Any]) -> set[str]:
    return {*arguments, *arguments.get("extra_body", {})}


def _overflowed(text: str) -> bool:
    low = text.lower()
    return "exceed_context_size" in low or (
        "context" in low and any(word in low for word in ("length", "context size", "context window"))
    )


def _named_pause_s(error: Any) -> float | None:
    """Read Retry-After in seconds, at most :data:`_LONGEST_PAUSE_S`; None when it is absent or a date."""
    response: Any = getattr(error, "response", None)
    try:
        return min(_LONGEST_PAUSE_S, max(0.0, float(response.headers["retry-after"])))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
