"""vLLM's OpenAI-compatible server as a child process: started with a plan's arguments, watched, and stopped cleanly."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpueval.engines import vllm_cpu
from gpueval.engines.guard import Guard, descendants
from gpueval.engines.quiet import OFFLINE
from gpueval.errors import EngineError, UsageError
from gpueval.lazy import require

_STOP_S = 30
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.5


class Server:
    """A running server.

    Args:
        folder: Model folder.
        arguments: A plan's arguments.
        host: Address to listen on.
        port: Port.
        log: File for the server's output.

    Raises:
        PrerequisiteError: vLLM is not installed.
        UsageError: The port is taken.
    """

    def __init__(self, folder: Path, arguments: Mapping[str, Any], host: str, port: int, log: Path) -> None:
        require("vllm", "vllm")
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise UsageError(f"{host}:{port} cannot be used: {error.strerror}.", "Give another --port.") from error
        self.url, self._log, self._name = f"http://{host}:{port}", log, folder.name
        self._guard = Guard([])
        command = [
            sys.executable,
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            str(folder),
            "--served-model-name",
            folder.name,
            "--host",
            host,
            "--port",
            str(port),
            *options(arguments),
        ]
        environment = os.environ | OFFLINE
        if "kv_cache_gib" in arguments:
            environment = vllm_cpu.environment(arguments["kv_cache_gib"]) | environment
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command, stdout=stream, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )

    def wait_ready(self, timeout_s: float) -> float:
        """Wait until it answers.

        Returns:
            Seconds it took.

        Raises:
            EngineError: It ended, or did not answer in time; the log says why.
        """
        began = time.monotonic()
        while time.monotonic() - began < timeout_s:
            if self._process.poll() is not None:
                code = self._process.returncode
                raise EngineError(
                    f"vLLM's server ended with code {code}: {_last_error(self._log)}", f"Its log: {self._log}"
                )
            try:
                with urllib.request.urlopen(f"{self.url}/v1/models", timeout=2) as answer:
                    names = {model.get("id") for model in json.load(answer)["data"]}
            except (OSError, ValueError, KeyError, TypeError):
                time.sleep(_POLL_S)
                continue
            if self._name in names and self._process.poll() is None:
                self._guard = Guard([self._process.pid, *descendants(self._process.pid)])
                return time.monotonic() - began
            time.sleep(_POLL_S)
        self.stop()
        raise EngineError(f"vLLM's server did not answer within {timeout_s:.0f} s.", f"Its log: {self._log}")

    def wait(self) -> int:
        """Wait until the server ends by itself and return its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and end all of its processes when it does not; a further Ctrl-C does not cut this short."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._guard.close()
            for number, handler in before.items():
                signal.signal(number, handler)


def options(arguments: Mapping[str, Any]) -> list[str]:
    """Write a plan's arguments as vLLM's command-line options.

    On a processor (the plan sets a cache in GiB) the server starts as the engine in this process does, see
    :mod:`~gpueval.engines.vllm_cpu`.
    """
    found = ["--enable-prompt-tokens-details"]  # so that a run can say how much the prefix cache saved
    if "kv_cache_gib" in arguments:
        found += ["--enforce-eager", "--block-size", str(vllm_cpu.BLOCK_TOKENS)]
    for name, value in arguments.items():
        if name != "kv_cache_gib":
            found += ["--" + name.replace("_", "-"), str(value)]
    return found


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if "Error" in line]
    return lines[-1] if lines else "no error in its log"
