"""The server process: its port, what counts as ready, and that nothing stays. A stand-in takes the place of vLLM."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpueval.engines import vllm_cpu, vllm_server
from gpueval.errors import EngineError, UsageError
from gpueval.sizing.model import presets

STAND_IN = """
import json, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
if {stubborn}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"data": [{{"id": options["--served-model-name"]}}]}}).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
HTTPServer((options["--host"], int(options["--port"])), Handler).serve_forever()
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put a package that answers as vLLM's server on the path."""

    def make(*, stubborn: bool = False) -> Path:
        package = tmp_path / "path" / "vllm" / "entrypoints" / "openai"
        package.mkdir(parents=True)
        for folder in (package, package.parent, package.parent.parent):
            (folder / "__init__.py").write_text("")
        (package / "api_server.py").write_text(STAND_IN.format(stubborn=stubborn))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
        monkeypatch.setattr(vllm_server, "require", lambda *_: None)
        return tmp_path

    return make


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def heed_interrupts() -> None:
    """Undo what a shell does to jobs in the background: they, and what they start, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_server_that_ignores_the_interrupt_is_ended_all_the_same(stand_in, port, monkeypatch) -> None:
    folder = stand_in(stubborn=True)
    monkeypatch.setattr(vllm_server, "_STOP_S", 0.5)
    server = vllm_server.Server(folder, {"max_model_len": 512, "kv_cache_gib": 1}, "127.0.0.1", port, folder / "log")
    server.wait_ready(20)
    assert answers(port)
    server.stop()
    assert not answers(port)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_on_a_small_processor_the_server_gets_every_core_as_the_engine_in_the_process_does(
    stand_in, port, monkeypatch
) -> None:
    folder = stand_in()
    told = folder / "path" / "vllm" / "entrypoints" / "openai" / "api_server.py"
    told.write_text("import os\nraise RuntimeError('cores ' + os.environ.get('VLLM_CPU_OMP_THREADS_BIND', 'unsaid'))")
    monkeypatch.delenv("VLLM_CPU_OMP_THREADS_BIND", raising=False)  # an engine of this session may have set it
    monkeypatch.setattr(vllm_cpu, "cores", lambda: [4, 6])
    server = vllm_server.Server(folder, {"kv_cache_gib": 1}, "127.0.0.1", port, folder / "log")
    with pytest.raises(EngineError, match="cores 4,6"):
        server.wait_ready(20)
    server.stop()


def test_a_taken_port_is_said_before_anything_starts(stand_in, port) -> None:
    folder = stand_in()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(UsageError, match=f"{port} cannot be used"):
            vllm_server.Server(folder, {}, "127.0.0.1", port, folder / "log")


def test_a_server_that_ends_is_reported_with_its_own_error(stand_in, port) -> None:
    folder = stand_in()
    broken = folder / "path" / "vllm" / "entrypoints" / "openai" / "api_server.py"
    broken.write_text("raise RuntimeError('no room for the cache')")
    server = vllm_server.Server(folder, {}, "127.0.0.1", port, folder / "log")
    with pytest.raises(EngineError, match="no room for the cache"):
        server.wait_ready(20)
    server.stop()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_ends_its_server_whichever_way_it_is_ended(stand_in, port, ending) -> None:
    folder = stand_in()
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(presets()["smollm2-135m"]["config"]))
    command = [sys.executable, "-m", "gpueval", "serve", str(model), "--port", str(port), "--log", str(folder / "log")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, preexec_fn=heed_interrupts, **pipes) as serving:
        try:
            assert serving.stdout.readline().strip() == f"http://127.0.0.1:{port}/v1"
            serving.send_signal(ending)
            _, told = serving.communicate(timeout=40)
        finally:
            serving.kill()
    assert serving.returncode == 0
    assert "judged" not in told
    for _ in range(50):
        if not answers(port):
            break
        time.sleep(0.1)
    assert not answers(port)


def test_a_plans_arguments_become_vllms_options() -> None:
    arguments = {"max_model_len": 2048, "kv_cache_dtype": "fp8", "kv_cache_gib": 2}
    assert vllm_server.options(arguments) == [
        *("--enable-prompt-tokens-details", "--enforce-eager", "--block-size", "32"),
        *("--max-model-len", "2048", "--kv-cache-dtype", "fp8"),
    ]
    assert vllm_server.options({"max_model_len": 2048})[1:] == ["--max-model-len", "2048"]
