"""Any OpenAI-compatible chat server: vLLM's own, llama.cpp's, a gateway.

Many requests are in flight at once; each has its own deadline; 429, 5xx, dropped connections and timeouts are tried
again by the client library with growing pauses. Nothing is ever timed per sample.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any

from gpueval.errors import EngineError
from gpueval.lazy import require
from gpueval.records import Completion, Request, State

_TOP_LOGPROBS = 20
_DEFAULT_CONTEXT_TOKENS = 8192


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
            "max_retries": retries,
        }
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
        """Bound from above: one token per three bytes of UTF-8 (English averages four, CJK is three bytes a token)."""
        return len(text.encode("utf-8", "surrogatepass")) // 3 + 1

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

                await asyncio.gather(*(lane() for _ in range(min(self._concurrency, len(requests)))))

        try:
            asyncio.run(send())
        except BaseException as error:  # handed to the caller's thread
            replies.put(error)
        replies.put(None)

    async def _ask(self, client: Any, request: Request) -> Completion:
        openai = self._openai
        while True:
            try:
                return self._read(request, await client.chat.completions.create(**self._arguments(request)))
            except openai.APITimeoutError as error:
                return Completion(request.key, failure=State.TIMEOUT, message=str(error))
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                text = str(error)
                if "context" in text.lower() and "length" in text.lower():
                    return Completion(request.key, failure=State.CONTEXT_OVERFLOW, message=text)
                if not self._simplify(text, request):
                    return Completion(request.key, failure=State.ENGINE_ERROR, message=text)
            except openai.AuthenticationError as error:
                raise EngineError(f"The server refuses the key: {error}", "Set OPENAI_API_KEY.") from error
            except (openai.OpenAIError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                return Completion(request.key, failure=State.ENGINE_ERROR, message=f"{type(error).__name__}: {error}")

    def _arguments(self, request: Request) -> dict[str, Any]:
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
        if ask.schema and "response_format" not in self._refused:
            schema = {"name": ask.kind, "schema": json.loads(ask.schema), "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        if "chat_template_kwargs" not in self._refused:
            arguments["extra_body"] = {"chat_template_kwargs": {"enable_thinking": False}}
        return arguments

    def _simplify(self, text: str, request: Request) -> bool:
        """Leave out the option that the server complains about, the least needed first. False when none is left."""
        named = [
            name for name in ("top_logprobs", "response_format", "chat_template_kwargs", "logprobs") if name in text
        ]
        order = [
            *named,
            "chat_template_kwargs",
            *(["top_logprobs", "logprobs"] if request.ask.labels else ["response_format"]),
        ]
        for name in order:
            if name not in self._refused:
                self._refused.add(name)
                return True
        return False

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
