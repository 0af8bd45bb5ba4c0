"""Kubelets and API servers that fail: one log line, a reason, and back soon after the cure. Real sockets."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest

from exporter.attribution.kubernetes import api_server, grpc_unary
from exporter.attribution.kubernetes.api_server import ApiServer, PodWatch
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.owner import SourceHealth
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import gpu, until

GOOD = json.dumps({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"uid": "u", "name": "p"}}]}).encode()


class Server:
    """An API server that answers by `answer` while that is set, and well otherwise."""

    def __init__(self) -> None:
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.ended = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if server.answer:
                    server.answer(self)
                elif "watch=1" in self.path:
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    server.ended.wait()
                else:
                    body(self, GOOD)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """A byte now and then: each read succeeds, and the answer never ends."""
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        with contextlib.suppress(ConnectionError):
            while not self.ended.wait(0.05) and self.answer:
                handler.wfile.write(b"x")

    def hang(self, _: BaseHTTPRequestHandler) -> None:
        self.ended.wait()


def status(code: int) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: handler.send_error(code)


def redirect(handler: BaseHTTPRequestHandler) -> None:
    """A portal's answer, which leads to itself."""
    handler.send_response(302)
    handler.send_header("Location", handler.path)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def body(handler: BaseHTTPRequestHandler, text: bytes, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(text) if length is None else length))
    handler.end_headers()
    handler.wfile.write(text)
    handler.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def watched(line: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """A good list, and watches that open and then say something."""
    return lambda handler: body(handler, line if "watch=1" in handler.path else GOOD)


OVERLOADED = b'{"type": "ERROR", "object": {"code": 500, "message": "etcdserver: no leader"}}\n'
KINDS: dict[str, tuple[Callable[[Server], Callable[[BaseHTTPRequestHandler], None]], str]] = {
    "unauthorized": (lambda _: status(401), "refused"),
    "forbidden": (lambda _: status(403), "refused"),
    "error": (lambda _: status(500), "bad_answer"),
    "redirect": (lambda _: redirect, "bad_answer"),
    "error of a watch": (lambda _: watched(OVERLOADED), "bad_answer"),
    "garbage of a watch": (lambda _: watched(b"\x00\xff{{\n"), "bad_answer"),
    "garbage": (lambda _: lambda handler: body(handler, b"\xff<html>"), "bad_answer"),
    "another document": (lambda _: lambda handler: body(handler, b"{}"), "bad_answer"),
    "empty": (lambda _: lambda handler: body(handler, b""), "bad_answer"),
    "truncated": (lambda _: lambda handler: body(handler, GOOD[:40], len(GOOD)), "unreachable"),
    "closed": (lambda _: lambda handler: handler.connection.shutdown(socket.SHUT_RDWR), "unreachable"),
    "silent": (lambda server: server.hang, "timeout"),
    "slow": (lambda server: server.drip, "timeout"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_api_server_that_fails_is_one_log_line_with_a_reason_and_is_back(
    kind: str, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(api_server, "_SETTLE_SECONDS", 0.2)
    (tmp_path / "token").write_text("x")
    make, reason = KINDS[kind]
    failures: list[str] = []
    server.answer = make(server)
    watch = PodWatch(ApiServer(server.url, tmp_path), "n1", backoff=0.01)
    failed = watch._failures.failed
    monkeypatch.setattr(watch._failures, "failed", lambda error: failures.append(failed(error)) or failures[-1])
    with caplog.at_level(logging.INFO):
        watch.start()
        until(lambda: len(failures) > 2)
        health = watch.health(0)
        server.answer = None
        until(lambda: watch.health(0).success)
    watch.stop()

    assert (health.success, health.reason) == (False, reason)
    assert set(failures) == {reason}
    first, last = (record.getMessage() for record in caplog.records if record.levelno >= logging.INFO)
    assert first.startswith(f"source kubernetes_api does not answer ({reason}): ")
    assert last == "source kubernetes_api answers again"
    assert watch.health(0) == SourceHealth("kubernetes_api", success=True, age=0.0)
    assert set(watch.pods) == {"u"}


def test_role_that_may_list_and_not_watch_is_refused_and_names_pods(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text("x")
    watches: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if "watch=1" in handler.path:
            watches.append(handler.path)
            handler.send_error(403)
        else:
            body(handler, GOOD)

    server.answer = answer
    watch = PodWatch(ApiServer(server.url, tmp_path), "n1", backoff=0.01)
    watch.start()
    until(lambda: len(watches) > 2)
    watch.stop()

    assert set(watch.pods) == {"u"}
    assert (watch.health(0).success, watch.health(0).reason) == (False, "refused")
    assert len(caplog.messages) == 1


def test_watch_that_was_stopped_tells_of_no_failure(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = PodWatch(ApiServer(server.url, tmp_path), "n1", backoff=0.01)

    def stopped() -> str:
        watch.stop()
        raise OSError("closed")

    monkeypatch.setattr(watch, "_list", stopped)
    watch._run()

    assert caplog.messages == []


class Waits(threading.Event):
    """Records for how long it is waited, and wakes at once."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == self.limit:
            self.set()
        return self.is_set()


def test_pauses_after_failures_stay_below_a_quarter_of_a_minute(tmp_path: Path) -> None:
    """An attempt may take ten seconds itself: then the next begins soon."""
    now = [0.0]

    class Refusing:
        def __init__(self, seconds: float) -> None:
            self._seconds = seconds

        def lines(self, *_: object, **__: object) -> Iterator[bytes]:
            now[0] += self._seconds
            raise api_server.StatusError("http://api", 403)

    for seconds in (0.0, 10.0):
        watch = PodWatch(cast("ApiServer", Refusing(seconds)), "n1", clock=lambda: now[0])
        watch._stopped = waits = Waits(20)
        watch._run()
        assert 0 < max(waits.seconds) + seconds <= 11, seconds
    poller = Kubernetes(KubernetesSite(tmp_path / "none.sock", required=True))._poller

    class Pauses(Waits):
        def set(self) -> None:
            poller._stopped = True

    poller._woken = pauses = Pauses(20)
    poller._run()
    assert 0 < max(pauses.seconds) + 5.0 <= 13.0  # a question takes five seconds at most, and a cycle comes after


def _drain(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def _raw(answer: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)
        _drain(connection)

    return serve


def _closed(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"\x00\x00\x06\x04\x00")


KUBELETS: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "garbage": (_raw(bytes(64)), "bad_answer"),
    "truncated": (_closed, "unreachable"),
    "silent": (_drain, "timeout"),
}


def serving(path: Path, answer: Callable[[socket.socket], None]) -> tuple[socket.socket, threading.Thread]:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def run() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                answer(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return listening, thread


@pytest.mark.parametrize("kind", [*KUBELETS, "missing", "nobody listens"])
def test_kubelet_that_fails_is_one_log_line_with_a_reason_and_is_back(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kubelet.sock"
    source = Kubernetes(KubernetesSite(path, required=True), timeout=0.3)
    listening = None
    if kind in KUBELETS:
        listening, _ = serving(path, KUBELETS[kind][0])
    elif kind == "nobody listens":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            source._poller.ask_once()
        (failed,) = source.health(0.0, 0, {})
        if listening:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        with Kubelet(path, [GivenPod("ml", "train", "main", [gpu(0).uuid])]):
            source._poller.ask_once()
    (cured,) = source.health(0.0, 0, {})

    reason = {"missing": "missing", "nobody listens": "unreachable"}.get(kind) or KUBELETS[kind][1]
    assert (failed.success, failed.reason) == (False, reason)
    assert (cured.success, cured.reason) == (True, "")
    first, last = caplog.messages
    assert first.startswith(f"source kubernetes does not answer ({reason}): {path}: ")
    assert last == "source kubernetes answers again"


@pytest.mark.parametrize(("status", "reason"), [("7", "refused"), ("14", "unreachable"), ("12", "bad_answer")])
def test_status_of_grpc_has_a_reason(status: str, reason: str) -> None:
    assert grpc_unary._REASONS.get(status, "bad_answer") == reason
