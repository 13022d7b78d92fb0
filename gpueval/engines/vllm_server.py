"""vLLM's OpenAI-compatible server as a child process: started with a plan's arguments, watched, and stopped cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpueval.errors import EngineError
from gpueval.lazy import require

_STOP_S = 30
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
    """

    def __init__(self, folder: Path, arguments: Mapping[str, Any], host: str, port: int, log: Path) -> None:
        require("vllm", "vllm")
        self.url, self._log = f"http://{host}:{port}", log
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
        environment = os.environ | {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        if "kv_cache_gib" in arguments:
            environment.setdefault("VLLM_CPU_KVCACHE_SPACE", str(arguments["kv_cache_gib"]))
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
                raise EngineError(
                    f"vLLM's server ended with code {self._process.returncode}: {_last_error(self._log)}",
                    f"Its log: {self._log}",
                )
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return time.monotonic() - began
            except (urllib.error.URLError, OSError):
                time.sleep(_POLL_S)
        self.stop()
        raise EngineError(f"vLLM's server did not answer within {timeout_s:.0f} s.", f"Its log: {self._log}")

    def wait(self) -> int:
        """Wait until the server ends by itself and return its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and end all of its processes when it does not."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def options(arguments: Mapping[str, Any]) -> list[str]:
    """Write a plan's arguments as vLLM's command-line options."""
    found: list[str] = []
    for name, value in arguments.items():
        if name != "kv_cache_gib":
            found += ["--" + name.replace("_", "-"), str(value)]
    return found


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if "Error" in line]
    return lines[-1] if lines else "no error in its log"
