"""Real Prometheus and Alertmanager as child processes, and a receiver for what they send."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import requests

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".cache/prometheus/bin"

T = TypeVar("T")


def program(name: str) -> str:
    """Path of one of Prometheus's programs; `make setup-rules` puts them there."""
    path = BIN / name
    assert path.exists(), f"{path} is missing: run make setup-rules"
    return str(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def poll(what: str, attempt: Callable[[], T | None], deadline: float = 60, every: float = 0.1) -> T:
    """The first answer of `attempt` that is not None; AssertionError names `what` after `deadline` seconds."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        answer = attempt()
        if answer is not None:
            return answer
        time.sleep(every)
    raise AssertionError(f"waited {deadline:.0f} s for {what}")


@contextlib.contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`command` as a child that is ended, at the latest, with the block; its output goes to `log`."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(url: str) -> bool | None:
    try:
        return requests.get(url, timeout=2).ok or None
    except requests.RequestException:
        return None


@contextlib.contextmanager
def alertmanager(config: Path, folder: Path) -> Iterator[str]:
    """URL of an Alertmanager with `config`."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        program("alertmanager"),
        f"--config.file={config}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    ]
    with running(command, folder / "alertmanager.log"):
        poll("Alertmanager to be ready", lambda: _answers(f"{url}/-/ready"))
        yield url


@contextlib.contextmanager
def prometheus(config: Path, folder: Path, *flags: str) -> Iterator[str]:
    """URL of a Prometheus with `config`; its data is `folder`/prometheus."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        *flags,
    ]
    with running(command, folder / "prometheus.log"):
        poll("Prometheus to be ready", lambda: _answers(f"{url}/-/ready"))
        yield url


@dataclass(frozen=True, slots=True)
class Message:
    """One request somebody sent: when it came (Unix seconds), to which path, with what JSON."""

    time: float
    path: str
    body: Any


@dataclass(slots=True)
class Receiver:
    """A web server that takes every POST and remembers it."""

    url: str
    messages: list[Message] = field(default_factory=list[Message])

    def first(self, wanted: Callable[[Message], bool], what: str, deadline: float = 60) -> Message:
        def attempt() -> Message | None:
            return next((message for message in list(self.messages) if wanted(message)), None)

        return poll(what, attempt, deadline)


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    taken: list[Message] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            taken.append(Message(time.time(), self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Receiver(f"http://127.0.0.1:{server.server_address[1]}", taken)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
