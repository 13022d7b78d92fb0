"""The OpenAI-compatible engine against a server that misbehaves in every way: each request ends in a reply."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("openai", reason="pip install 'gpueval[server]'")

from gpueval.engines import start
from gpueval.engines.openai_server import OpenAIServer
from gpueval.errors import EngineDied, EngineError
from gpueval.judge.prompts import QUESTIONS, SUPPORT
from gpueval.records import Request, State

SLOW_S = 6.0
TRICKLE_S = 8.0


class Hostile(BaseHTTPRequestHandler):
    """Does to each request what its text says; counts the tries per text."""

    protocol_version = "HTTP/1.1"
    tries: dict[str, int]
    bodies: list[dict]
    n_before_death: int | None = None
    lock = threading.Lock()

    def do_GET(self) -> None:
        if self.n_before_death is not None and len(self.bodies) > self.n_before_death:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        entry = {"id": "judge", "object": "model", "max_model_len": 4096, "root": "/models/judge"}
        self._send(200, {"object": "list", "data": [entry]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][-1]["content"]
        with self.lock:
            self.tries[text] = self.tries.get(text, 0) + 1
            self.bodies.append(body)
        if self.n_before_death is not None and len(self.bodies) > self.n_before_death:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif "trickle" in text:
            self._trickle(self._reply("Yes"))
        elif "crowded" in text and self.tries[text] < 7:
            self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.02"})
        elif "drop" in text and self.tries[text] == 1:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif "busy" in text and self.tries[text] < 3:
            self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})
        elif "broken" in text:
            self._send(500, {"error": {"message": "internal"}})
        elif "slow" in text:
            time.sleep(SLOW_S)
            self._send(200, self._reply("Yes"))
        elif "malformed" in text:
            self._send(200, None)
        elif "empty" in text:
            self._send(200, {"id": "x", "object": "chat.completion", "created": 0, "model": "judge", "choices": []})
        elif "unnamed" in text and "chat_template_kwargs" in body:
            self._send(400, {"error": {"message": "Bad request"}})
        elif "llama" in text:
            self._send(400, {"error": {"message": "request (9000 tokens) exceeds the available context size"}})
        elif "strict" in text and "chat_template_kwargs" in body:
            self._send(400, {"error": {"message": "Unknown parameter: chat_template_kwargs"}})
        elif "long" in text:
            self._send(400, {"error": {"message": "This model's maximum context length is 4096 tokens"}})
        elif "plain" in text:
            self._send(200, self._reply("No."))
        elif "rambling" in text:
            self._send(200, self._reply("I would say it is fine"))
        else:
            self._send(200, self._reply("Yes", {"Yes": 0.6, " yes": 0.1, "No": 0.2}))

    def _reply(self, text: str, chances: dict[str, float] | None = None) -> dict:
        logprobs = None
        if chances:
            top = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in chances.items()]
            logprobs = {"content": [{"token": text, "logprob": top[0]["logprob"], "bytes": None, "top_logprobs": top}]}
        message = {"role": "assistant", "content": text}
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "judge",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8},
        }

    def _send(self, code: int, body: dict | None, headers: dict[str, str] | None = None) -> None:
        content = b'{"choices": [{"mess' if body is None else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _trickle(self, body: dict) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for i in range(len(content)):
            try:
                self.wfile.write(content[i : i + 1])
                self.wfile.flush()
            except OSError:
                return
            time.sleep(TRICKLE_S / len(content))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    handler = type("Handler", (Hostile,), {"tries": {}, "bodies": []})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}/v1", handler
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def ask(url, *texts, kind=SUPPORT, timeout_s=30.0, **options):
    engine = OpenAIServer(url, timeout_s=timeout_s, retries=2, **options)
    requests = [Request(text.encode().ljust(16), kind, ("shared ", text)) for text in texts]
    found = {completion.key.decode().strip(): completion for completion in engine.run(requests)}
    assert len(found) == len(texts)
    return found, engine


def test_label_probabilities_are_summed_over_surface_forms(server) -> None:
    found, _ = ask(server[0], "fine")
    assert found["fine"].labels == pytest.approx((0.7, 0.2, 0.0))
    assert found["fine"].prompt_tokens == 7


def test_every_request_ends_in_a_reply_or_a_named_failure(server) -> None:
    texts = ["fine", "drop", "busy", "broken", "slow", "malformed", "empty", "long", "llama", "plain", "rambling"]
    found, engine = ask(server[0], *texts, "unnamed", concurrency=4, timeout_s=3.0)
    failures = {text: completion.failure for text, completion in found.items() if completion.failure}
    assert failures == {
        "broken": State.ENGINE_ERROR,
        "slow": State.TIMEOUT,
        "malformed": State.ENGINE_ERROR,
        "empty": State.ENGINE_ERROR,
        "long": State.CONTEXT_OVERFLOW,
        "llama": State.CONTEXT_OVERFLOW,
    }
    assert found["unnamed"].labels == pytest.approx((0.7, 0.2, 0.0))
    assert found["plain"].labels == (0.0, 1.0, 0.0)
    assert found["rambling"].labels == (0.0, 0.0, 0.0)
    assert engine.facts()["n_verdicts_without_probabilities"] == 2
    assert server[1].tries["shared busy"] == 3


def test_one_refused_option_costs_nobody_their_probabilities(server) -> None:
    found, engine = ask(server[0], *(f"strict {i}" for i in range(8)), concurrency=8)
    assert all(completion.labels == pytest.approx((0.7, 0.2, 0.0)) for completion in found.values())
    assert engine.facts()["n_verdicts_without_probabilities"] == 0


def test_leaving_early_does_not_wait_for_calls_in_flight(server) -> None:
    engine = OpenAIServer(server[0], timeout_s=30, concurrency=8)
    requests = [Request(bytes([i]) * 16, SUPPORT, (text,)) for i, text in enumerate(["fine", *["slow"] * 7])]
    replies = engine.run(requests)
    next(replies)
    began = time.monotonic()
    replies.close()
    assert time.monotonic() - began < SLOW_S / 2


def test_generation_sends_the_schema_and_switches_thinking_off(server) -> None:
    ask(server[0], "fine", kind=QUESTIONS)
    (body,) = server[1].bodies
    assert body["response_format"]["json_schema"]["schema"]["properties"]["questions"]["minItems"] == 3
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["temperature"] == 0.0


def test_limit_comes_from_the_server_and_no_key_is_needed(server) -> None:
    assert OpenAIServer(server[0]).max_prompt_tokens == 4096


def test_no_server_and_no_such_model_are_clear(server) -> None:
    with pytest.raises(EngineError, match="No OpenAI-compatible server"):
        OpenAIServer("http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EngineError, match="no model 'other'"):
        OpenAIServer(server[0], model="other")


def test_a_reply_that_trickles_misses_its_deadline(server) -> None:
    began = time.monotonic()
    found, _ = ask(server[0], "trickle", timeout_s=1.0)
    assert found["trickle"].failure == State.TIMEOUT
    assert time.monotonic() - began < TRICKLE_S / 2


def test_a_busy_server_is_waited_for_longer_than_a_broken_one(server) -> None:
    found, engine = ask(server[0], *(f"crowded {i}" for i in range(32)), concurrency=64)
    assert not [completion for completion in found.values() if completion.failure]
    assert engine.facts()["concurrency_reached"] < 64


def test_a_server_that_fails_everything_ends_the_run_and_loses_nothing(server) -> None:
    engine = OpenAIServer(server[0], retries=0, concurrency=1)
    texts = [*(f"fine {i}" for i in range(10)), *(f"broken {i}" for i in range(40))]
    requests = [Request(text.encode().ljust(16), SUPPORT, (text,)) for text in texts]
    found = []
    with pytest.raises(EngineDied, match="failed 16 calls in a row"):
        found.extend(engine.run(requests))
    assert not [completion for completion in found if completion.failure]


def test_two_servers_of_which_one_is_killed_answer_everything(server) -> None:
    handler = type("Handler", (Hostile,), {"tries": {}, "bodies": [], "n_before_death": 20})
    dying = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=dying.serve_forever, daemon=True).start()
    urls = [server[0], f"http://127.0.0.1:{dying.server_port}/v1"]
    both = start(",".join(urls), options={"retries": 1, "concurrency": 16})
    requests = [Request(f"{i}".encode().ljust(16), SUPPORT, (f"fine {i}",)) for i in range(400)]
    found = list(both.run(requests))
    dying.shutdown()
    dying.server_close()
    assert sorted(completion.key for completion in found) == sorted(request.key for request in requests)
    assert not [completion for completion in found if completion.failure]
    assert len(handler.bodies) >= 20


def test_the_same_model_behind_another_url_gives_the_same_keys(server) -> None:
    assert OpenAIServer(server[0]).fingerprint == "openai:judge:/models/judge"
