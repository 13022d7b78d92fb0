"""vLLM in this process: the whole round in one queue, prompts as token ids, verdicts by label log-probabilities.

The engine core runs as a child process, so a crash of it (out of memory, a kernel fault) raises
:class:`~gpueval.errors.EngineDied` here and loses nothing that was answered.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from math import exp
from pathlib import Path
from typing import Any

from gpueval.engines import vllm_cpu
from gpueval.engines.base import RUNAWAY
from gpueval.engines.guard import Guard, descendants
from gpueval.engines.interrupts import interruptible
from gpueval.engines.prompt_tokens import PromptTokens, summed
from gpueval.engines.quiet import output_to, stay_offline
from gpueval.errors import EngineDied, EngineError, GpuevalError
from gpueval.fingerprint import model_digest
from gpueval.lazy import require
from gpueval.records import Completion, Request, State

_FLOOR_LOGPROB = -9000.0
_QUEUED_PER_SEQUENCE = 2
_WATCH_INTERVAL_S = 0.5


class VllmLocal:
    """A judge on vLLM's in-process engine.

    Args:
        folder: Local Hugging Face model folder.
        max_model_len: Longest prompt with reply, in tokens; None takes the model's own limit, at most 8,192.
        memory_fraction: vLLM's ``gpu_memory_utilization``; None keeps vLLM's default.
        kv_cache_gib: KV cache on a CPU, in GiB.
        kv_dtype: Format of the KV cache; None is the model's own.
        tensor_parallel: GPUs to split the model over.
        max_num_seqs: Sequences at once; None keeps vLLM's default.
        max_num_batched_tokens: Tokens of a step; None keeps vLLM's default.
        dtype: Number format of the weights that are not quantised; None is the model's own.
        log: File for vLLM's own output; None leaves it on the terminal.

    Raises:
        PrerequisiteError: vLLM is not installed, or the tokenizer cannot be used.
        EngineError: The engine does not start; the cause is vLLM's own message.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_model_len: int | None = None,
        memory_fraction: float | None = None,
        kv_cache_gib: int = 4,
        kv_dtype: str | None = None,
        tensor_parallel: int | None = None,
        max_num_seqs: int | None = None,
        max_num_batched_tokens: int | None = None,
        dtype: str | None = None,
        log: Path | None = None,
    ) -> None:
        wished = {
            "kv_cache_dtype": kv_dtype,
            "tensor_parallel_size": tensor_parallel,
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "dtype": dtype,
        }
        given = {name: value for name, value in wished.items() if value is not None}
        with output_to(log):
            self._start(folder, max_model_len, memory_fraction, kv_cache_gib, given, quiet=log is None)
        logging.getLogger("vllm").setLevel(logging.ERROR)  # from here on this process writes to the terminal

    def _start(
        self,
        folder: Path,
        max_model_len: int | None,
        memory_fraction: float | None,
        kv_cache_gib: int,
        given: Mapping[str, Any],
        *,
        quiet: bool,
    ) -> None:
        _quiet_and_offline("ERROR" if quiet else "INFO")
        vllm = require("vllm", "vllm")
        platform = require("vllm.platforms", "vllm").current_platform
        cpu = bool(platform.is_cpu())
        if cpu:
            for name, value in vllm_cpu.environment(kv_cache_gib).items():
                os.environ.setdefault(name, value)
        options: dict[str, Any] = {
            "model": str(folder),
            "generation_config": "vllm",
            "enable_prefix_caching": True,
            "max_model_len": max_model_len or min(8192, _context_limit(folder)),
            "disable_log_stats": True,
            **given,
        }
        if cpu:
            options |= vllm_cpu.ARGUMENTS
        elif memory_fraction is not None:
            options["gpu_memory_utilization"] = memory_fraction
        if given.get("tensor_parallel_size", 1) > 1:  # in a Ray actor vLLM would ask Ray for further GPUs
            options["distributed_executor_backend"] = "mp"
        before = set(descendants())
        try:
            with interruptible():
                self._llm = vllm.LLM(**options)
        except Exception as error:
            raise EngineError(f"vLLM could not start with {folder}: {_last_line(error)}", _remedy(error)) from error
        self._vllm = vllm
        self._engine = self._llm.llm_engine
        self._closed = threading.Event()
        self._guard = Guard([pid for pid in descendants() if pid not in before])
        threading.Thread(target=self._watch, daemon=True).start()
        self._tokens = PromptTokens(self._llm.get_tokenizer())
        self._params: dict[tuple[str, int], Any] = {}
        config = self._engine.vllm_config
        self._max_running = int(config.scheduler_config.max_num_seqs)
        self.max_prompt_tokens = int(config.model_config.max_model_len)
        dtype = str(config.model_config.dtype).removeprefix("torch.")
        self.fingerprint = f"vllm:{dtype}:{model_digest(folder)}"
        self._facts = {
            "engine": "vllm",
            "engine_version": vllm.__version__,
            "model": folder.name,
            "fingerprint": self.fingerprint,
            "device": "cpu" if cpu else str(platform.get_device_name()),
            "max_model_len": self.max_prompt_tokens,
            "max_num_seqs": self._max_running,
            "max_num_batched_tokens": int(config.scheduler_config.max_num_batched_tokens),
            "block_size": int(config.cache_config.block_size),
            "kv_cache_blocks": config.cache_config.num_gpu_blocks,
            "kv_cache_tokens": getattr(config.cache_config, "kv_cache_size_tokens", None),
            "max_concurrency": getattr(config.cache_config, "kv_cache_max_concurrency", None),
        }

    def count_tokens(self, text: str) -> int:
        """Count with the judge's own tokenizer."""
        return self._tokens.count(text)

    def facts(self) -> Mapping[str, Any]:
        """Model, versions, limits and KV cache as vLLM set them up."""
        return self._facts

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Feed the queue, keep it full, and yield each reply as its last token comes."""
        engine, waiting = self._engine, iter(requests)
        running: dict[str, Request] = {}
        most = self._max_running * _QUEUED_PER_SEQUENCE
        dead = require("vllm.v1.engine.exceptions", "vllm").EngineDeadError
        try:
            while True:
                while len(running) < most:
                    request = next(waiting, None)
                    if request is None:
                        break
                    failed = self._add(request, running)
                    if failed is not None:
                        yield failed
                if not running:
                    return
                for output in engine.step():
                    if output.finished:
                        yield self._completion(running.pop(output.request_id), output)
        except dead as error:
            raise EngineDied(f"vLLM's engine process is gone ({_last_line(error)}).") from error
        finally:
            if running:
                self._abort(list(running))

    def close(self) -> None:
        """Stop the engine process."""
        self._closed.set()
        self._guard.close()
        core = getattr(self._engine, "engine_core", None)
        if core is not None:
            core.shutdown()

    def _watch(self) -> None:
        """Wake :meth:`run` when the engine process is gone: vLLM notes the death but lets a waiting ``step`` wait."""
        core = self._engine.engine_core
        resources, replies = getattr(core, "resources", None), getattr(core, "outputs_queue", None)
        if resources is None or replies is None:  # the engine runs in this process
            return
        while not self._closed.wait(_WATCH_INTERVAL_S):
            if resources.engine_dead:
                replies.put_nowait(RuntimeError("the engine process is gone"))
                return

    def _add(self, request: Request, running: dict[str, Request]) -> Completion | None:
        ids = self._tokens.prompt(request)
        if len(ids) + request.max_tokens > self.max_prompt_tokens:
            message = f"{len(ids)} prompt tokens + {request.max_tokens} exceed {self.max_prompt_tokens}"
            return Completion(request.key, failure=State.CONTEXT_OVERFLOW, message=message)
        name = request.key.hex()
        try:
            self._engine.add_request(name, {"prompt_token_ids": ids}, self._sampling(request))
        except ValueError as error:
            return Completion(request.key, failure=State.ENGINE_ERROR, message=str(error))
        running[name] = request
        return None

    def _sampling(self, request: Request) -> Any:
        ask = request.ask
        params = self._params.get((ask.kind, request.max_tokens))
        if params is not None:
            return params
        shared: dict[str, Any] = {"temperature": 0.0, "max_tokens": request.max_tokens}
        shared["output_kind"] = require("vllm.sampling_params", "vllm").RequestOutputKind.FINAL_ONLY
        if ask.labels:
            ids = sorted({token for group in self._tokens.label_ids(ask) for token in group})
            shared |= {"logprob_token_ids": ids, "detokenize": False}
        elif ask.schema:
            parameters = require("vllm.sampling_params", "vllm")
            shared["structured_outputs"] = parameters.StructuredOutputsParams(
                json=ask.schema, disable_any_whitespace=True
            )
            if hasattr(parameters, "RepetitionDetectionParams"):  # from vLLM 0.31 on
                shared["repetition_detection"] = parameters.RepetitionDetectionParams(**RUNAWAY)
        params = self._vllm.SamplingParams(**shared)
        if len(self._params) < 4096:
            self._params[ask.kind, request.max_tokens] = params
        return params

    def _completion(self, request: Request, output: Any) -> Completion:
        reply = output.outputs[0]
        labels: tuple[float, ...] = ()
        if request.ask.labels:
            found = reply.logprobs[0] if reply.logprobs else {}
            chances = {token: exp(entry.logprob) for token, entry in found.items() if entry.logprob > _FLOOR_LOGPROB}
            labels = summed(chances, self._tokens.label_ids(request.ask))
        return Completion(
            request.key,
            text="" if request.ask.labels else reply.text,
            labels=labels,
            finish="stop" if request.ask.labels or reply.finish_reason == "stop" else "length",
            prompt_tokens=len(output.prompt_token_ids),
            cached_tokens=output.num_cached_tokens or 0,
            output_tokens=len(reply.token_ids),
        )

    def _abort(self, names: list[str]) -> None:
        try:
            self._engine.abort_request(names)
        except Exception:  # the engine is dead or closing: there is nothing left to abort
            return


def _quiet_and_offline(level: str) -> None:
    stay_offline()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", level)
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _context_limit(folder: Path) -> int:
    config = require("transformers", "vllm").AutoConfig.from_pretrained(str(folder), local_files_only=True)
    text = getattr(config, "text_config", None) or config
    return int(getattr(text, "max_position_embeddings", 8192))


def _last_line(error: BaseException) -> str:
    if isinstance(error, GpuevalError):
        return error.message
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _remedy(error: BaseException) -> str:
    text = str(error).lower()
    if "no available memory" in text or "out of memory" in text:
        return "Lower --max-model-len, choose a smaller judge, or free memory on the device."
    return "vLLM's own words are in engine.log in the run folder; VLLM_LOGGING_LEVEL=DEBUG makes it say more."
