"""What an open network can do to a scrape: the slowest of many scrapes under each attack, on this machine.

Run by `make bench`. The clients and the exporter share the machine's cores, so the figures are what a node with as few
cores would see.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import bcrypt

from tests.exporter_process import ROOT
from tests.stack import free_port, poll

SCRAPES, PAUSE = 60, 0.05
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nConnection: close\r\n\r\n"
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
Attack = Callable[[int, threading.Event], None]


def open_to(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10)


def silent(number: int, first: bytes = b"") -> Attack:
    """Connections that say nothing, or begin and then say nothing; those that are ended come again."""

    def attack(port: int, ended: threading.Event) -> None:
        with ExitStack() as stack:
            for _ in range(number):
                with contextlib.suppress(OSError):
                    connection = stack.enter_context(open_to(port))
                    connection.sendall(first)
            ended.wait()

    return attack


def trickling(number: int) -> Attack:
    def attack(port: int, ended: threading.Event) -> None:
        slow: list[socket.socket] = []
        while not ended.wait(0.02):
            with contextlib.suppress(OSError):
                if len(slow) < number:
                    slow.append(open_to(port))
                    slow[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
            for each in slow[:: max(len(slow) // 20, 1)]:
                with contextlib.suppress(OSError):
                    each.sendall(b"a")
        for each in slow:
            each.close()

    return attack


def flooding(request: bytes) -> Attack:
    """One request after the other, each on a connection of its own, as fast as one client can."""

    def attack(port: int, ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), open_to(port) as connection:
                connection.sendall(request)
                while connection.recv(1 << 16):
                    pass

    return attack


def pouring(port: int, ended: threading.Event) -> None:
    """A header without end."""
    while not ended.is_set():
        with contextlib.suppress(OSError), open_to(port) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
            while not ended.is_set():
                connection.sendall(b"a" * (1 << 20))


def authorization(password: str) -> bytes:
    return base64.b64encode(f"prom:{password}".encode())


ATTACKS: tuple[tuple[str, Attack, int], ...] = (
    ("nobody else", silent(0), 1),
    ("1,000 idle connections", silent(1000), 1),
    ("200 slow heads, a byte now and then", trickling(200), 1),
    ("300 stalled TLS handshakes", silent(300, HELLO), 1),
    ("4 floods of scrapes", flooding(REQUEST % authorization("secret")), 4),
    ("4 floods of the status page", flooding(REQUEST.replace(b"/metrics", b"/") % authorization("secret")), 4),
    ("4 floods of wrong passwords", flooding(REQUEST % authorization("wrong")), 4),
    ("4 headers without end", pouring, 4),
)


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = free_port()
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
    (folder / "web.yaml").write_text(f"basic_auth_users: {{prom: {hashed}}}\n")
    options = ("--simulate", "8xH200:training", "--web.config.file", str(folder / "web.yaml"), "--log.level", "error")
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter", "--web.listen-address", f"127.0.0.1:{port}", *options], cwd=ROOT
    )
    try:
        poll("the first scrape", lambda: _answers(port), 30)
        yield port, process
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool | None:
    try:
        return scrape(port) > 0 or None
    except OSError:
        return None


def scrape(port: int) -> float:
    """Milliseconds from connecting to the last byte."""
    began = time.perf_counter()
    with open_to(port) as connection:
        connection.sendall(REQUEST % authorization("secret"))
        found = b""
        while chunk := connection.recv(1 << 18):
            found += chunk
    if not found.startswith(b"HTTP/1.1 200 "):
        raise OSError(found[:40].decode(errors="replace") or "nothing")
    return (time.perf_counter() - began) * 1000


def measured(port: int, attack: Attack, attackers: int) -> tuple[list[float], int]:
    """Times of scrapes, and how many failed."""
    ended = threading.Event()
    threads = [threading.Thread(target=attack, args=(port, ended), daemon=True) for _ in range(attackers)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    times, failed = [], 0
    for _ in range(SCRAPES):
        try:
            times.append(scrape(port))
        except OSError:
            failed += 1
        time.sleep(PAUSE)
    ended.set()
    for thread in threads:
        thread.join(15)
    return times, failed


def resident(process: subprocess.Popen[bytes]) -> float:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


def main() -> int:
    _line("while there are", "median", "worst", "failed", "RSS")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (port, process):
        for name, attack, attackers in ATTACKS:
            times, failed = measured(port, attack, attackers)
            median, worst = (statistics.median(times), max(times)) if times else (float("nan"), float("nan"))
            _line(name, f"{median:.1f} ms", f"{worst:.0f} ms", str(failed), f"{resident(process):.1f} MiB")
    return 0


def _line(name: str, *figures: str) -> None:
    sys.stdout.write(f"{name:38} " + " ".join(f"{figure:>9}" for figure in figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
