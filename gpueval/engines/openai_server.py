"""Any OpenAI-compatible chat server: vLLM's own, llama.cpp's, a gateway.

Many requests are in flight at once; each call has its own deadline; 429, 5xx and dropped connections are tried again
after a growing pause (or the one the server names). Nothing is ever timed per sample.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any

from gpueval.errors import EngineError
from gpueval.lazy import require
from gpueval.records import Completion, Request, State

_TOP_LOGPROBS = 20
_DEFAULT_CONTEXT_TOKENS = 8192
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_OPTIONS = ("chat_template_kwargs", "response_format", "top_logprobs", "logprobs")
_WORD = re.compile(r"[a-zA-Z]+")


class OpenAIServer:
    """A judge behind a URL.

    Verdicts read the label probabilities from ``top_logprobs``; a server that gives none still answers with a word,
    which counts as probability 1 (``facts`` says how often). Grammar and thinking switches are left out for servers
    that refuse them.

    Args:
        base_url: For example ``http://127.0.0.1:8000/v1``.
        model: Model name; None takes the first that the server lists.
        concurrency: Requests in flight.
        timeout_s: Deadline of one call, in seconds.
        retries: Further tries of a call after the first.
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
        concurrency: int = 64,
        timeout_s: float = 120.0,
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
        self.fingerprint = f"openai:{self._base_url}:{self._model}"
        self._concurrency = concurrency
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
            "concurrency": self._concurrency,
            "n_verdicts_without_probabilities": self._n_without_logprobs,
        }

    def close(self) -> None:
        """Nothing to give back: each run closes its own connections."""

    def run(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Send all requests, ``concurrency`` at a time, and yield replies as they come."""
        replies: queue.Queue[Completion | BaseException | None] = queue.Queue()
        stop = threading.Event()
        worker = threading.Thread(target=self._work, args=(requests, replies, stop), daemon=True)
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
        requests: Sequence[Request],
        replies: queue.Queue[Completion | BaseException | None],
        stop: threading.Event,
    ) -> None:
        async def send() -> None:
            waiting = iter(requests)
            async with self._openai.AsyncOpenAI(**self._options) as client:

                async def lane() -> None:
                    for request in waiting:
                        if stop.is_set():
                            return
                        replies.put(await self._ask(client, request))

                lanes = [asyncio.create_task(lane()) for _ in range(min(self._concurrency, len(requests)))]
                try:
                    while not all(task.done() for task in lanes):
                        await asyncio.wait(lanes, timeout=0.2, return_when=asyncio.FIRST_EXCEPTION)
                        if stop.is_set() or any(task.done() and task.exception() for task in lanes):
                            break
                finally:
                    for task in lanes:
                        task.cancel()
                    for result in await asyncio.gather(*lanes, return_exceptions=True):
                        if isinstance(result, EngineError):
                            raise result

        try:
            asyncio.run(send())
        except BaseException as error:  # handed to the caller's thread
            replies.put(error)
        replies.put(None)

    async def _ask(self, client: Any, request: Request) -> Completion:
        openai = self._openai
        pause_s, tries, bare = _FIRST_PAUSE_S, 0, False
        while True:
            arguments = self._arguments(request, bare=bare)
            try:
                return self._read(request, await client.chat.completions.create(**arguments))
            except openai.APITimeoutError as error:
                return Completion(request.key, failure=State.TIMEOUT, message=str(error))
            except (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError) as error:
                tries += 1
                if tries > self._retries:
                    return Completion(request.key, failure=State.ENGINE_ERROR, message=str(error))
                await asyncio.sleep(_named_pause_s(error) or pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
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
                return Completion(request.key, failure=State.ENGINE_ERROR, message=f"{type(error).__name__}: {error}")

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
        if not bare and "chat_template_kwargs" not in self._refused:
            arguments["extra_body"] = {"chat_template_kwargs": {"enable_thinking": False}}
        return arguments

    def _read(self, request: Request, response: Any) -> Completion:
        choice, usage = response.choices[0], response.usage
        text = choice.message.content or ""
        details = getattr(usage, "prompt_tokens_details", None)
        finish = "length" if choice.finish_reason == "length" and not request.ask.labels else "stop"
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
