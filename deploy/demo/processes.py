"""Starting and ending the demo's programs."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

_STARTUP = 30.0
_END = 10.0


class DemoError(Exception):
    """One line on why the demo cannot run."""


@dataclass(frozen=True, slots=True)
class Service:
    """A program that answers on `url`, and says on `ready` when it does."""

    name: str
    command: tuple[str, ...]
    url: str
    ready: str

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    def answers(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=2)
        try:
            connection.request("GET", self.ready)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def free_port(wanted: int = 0) -> int:
    """`wanted`, or any free port when it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DemoError("no free port on 127.0.0.1")


@contextlib.contextmanager
def running(services: Sequence[Service], logs: Path, folder: Path) -> Generator[None]:
    """All of them, started at once, up when the block begins and gone when it ends. Raises DemoError."""
    started: list[tuple[Service, subprocess.Popen[bytes]]] = []
    try:
        started += [(service, _start(service, logs, folder)) for service in services]
        deadline = time.monotonic() + _STARTUP
        for service, process in started:
            _await(service, process, deadline, _log(service, logs))
        yield
    finally:
        _stop([process for _, process in started])


def _log(service: Service, logs: Path) -> Path:
    return logs / f"{service.name}.log"


def _start(service: Service, logs: Path, folder: Path) -> subprocess.Popen[bytes]:
    with _log(service, logs).open("wb") as output:
        # A session of its own: Ctrl-C reaches the demo alone, which then ends the others in order.
        return subprocess.Popen(
            service.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )


def _await(service: Service, process: subprocess.Popen[bytes], deadline: float, log: Path) -> None:
    while not service.answers():
        if process.poll() is not None or time.monotonic() > deadline:
            last_lines = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise DemoError(f"{service.name} did not start: {' | '.join(last_lines) or 'it says nothing'}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)  # what it answers on is asked again, and its end is noticed at once


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
