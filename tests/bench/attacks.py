"""What an open network can do to a port: each attack is a function that goes on until it is told to end."""

from __future__ import annotations

import base64
import contextlib
import multiprocessing
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from typing import NamedTuple

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nConnection: close\r\n\r\n"
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
Run = Callable[[int, Event], None]


class Attack(NamedTuple):
    name: str
    run: Run
    attackers: int = 1
    """Processes that run it."""
    tls: bool = False
    """Whether the port that is attacked, and scraped meanwhile, speaks TLS."""


def open_to(port: int) -> socket.socket:
    """With room for a whole page: over loopback, whose packets are 64 KiB, less waits 40 ms for an acknowledgement."""
    connection = socket.socket()
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", port))
    except OSError:
        connection.close()
        raise
    return connection


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


TRUSTING = _trusting()


def silent(number: int, first: bytes = b"") -> Run:
    """Connections that say nothing, or begin and then say nothing; those that are ended come again."""

    def run(port: int, ended: Event) -> None:
        with ExitStack() as stack:
            for _ in range(number):
                with contextlib.suppress(OSError):
                    connection = stack.enter_context(open_to(port))
                    connection.sendall(first)
            ended.wait()

    return run


def trickling(number: int) -> Run:
    def run(port: int, ended: Event) -> None:
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

    return run


def flooding(request: bytes) -> Run:
    """One request after the other, each on a connection of its own, as fast as one client can."""

    def run(port: int, ended: Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), open_to(port) as connection:
                connection.sendall(request)
                while connection.recv(1 << 16):
                    pass

    return run


def shaking(port: int, ended: Event) -> None:
    """One whole handshake after the other, and no request."""
    while not ended.is_set():
        with contextlib.suppress(OSError), open_to(port) as raw, TRUSTING.wrap_socket(raw):
            pass


def pouring(port: int, ended: Event) -> None:
    """A header without end."""
    while not ended.is_set():
        with contextlib.suppress(OSError), open_to(port) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
            while not ended.is_set():
                connection.sendall(b"a" * (1 << 20))


def authorization(password: str) -> bytes:
    return base64.b64encode(f"prom:{password}".encode())


ATTACKS = (
    Attack("nobody else", silent(0)),
    Attack("1,000 idle connections", silent(1000)),
    Attack("200 slow heads, a byte now and then", trickling(200)),
    Attack("4 floods of scrapes", flooding(REQUEST % authorization("secret")), 4),
    Attack("4 floods of the status page", flooding(REQUEST.replace(b"/metrics", b"/") % authorization("secret")), 4),
    Attack("4 floods of wrong passwords", flooding(REQUEST % authorization("wrong")), 4),
    Attack("4 headers without end", pouring, 4),
    Attack("nobody else, over TLS", silent(0), tls=True),
    Attack("300 stalled TLS handshakes", silent(300, HELLO), tls=True),
    Attack("4 floods of TLS handshakes", shaking, 4, tls=True),
)


@contextmanager
def under(attack: Attack, port: int) -> Iterator[None]:
    """The attackers are processes, so that they and the scraper do not wait for each other's interpreter."""
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    attackers = [context.Process(target=attack.run, args=(port, ended), daemon=True) for _ in range(attack.attackers)]
    for process in attackers:
        process.start()
    try:
        yield
    finally:
        ended.set()
        for process in attackers:
            process.join(2)
            if process.is_alive():
                process.kill()  # it waits in a call
                process.join()
