"""One connection, step by step, with a transport and a handler that do what the test says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from email.utils import format_datetime, parsedate_to_datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exporter.config.option import ConfigError
from exporter.web.app import Environ, Response
from exporter.web.connection import HEAD_BYTES, Connection
from exporter.web.server import _MAX_UNSENT, _bind_socket, _ConnectionManager


class Transport:
    """Takes what is written; says when it is full and when all has left only where the test does."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _: str) -> None: ...
    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Handler:
    """Keeps each request until the test answers it."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(HEAD_BYTES + 1))
        self.answers: list[Callable[[Response], None]] = []

    def handle_request(self, environ: Environ, answer: Callable[[Response], None]) -> None:
        del environ
        self.answers.append(answer)

    def on_request(self, connection: Connection) -> None: ...
    def on_idle(self, connection: Connection) -> None: ...
    def on_write_paused(self, connection: Connection) -> None: ...
    def on_write_resumed(self, connection: Connection) -> None: ...
    def on_closed(self, connection: Connection) -> None: ...


def receive(connection: Connection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def talk(script: Callable[[Connection, Transport, Handler], None]) -> None:
    async def run() -> None:
        handler, transport = Handler(), Transport()
        connection = Connection(handler, 1, "peer")
        connection.connection_made(cast("Any", transport))
        script(connection, transport, handler)
        connection.connection_lost(None)

    asyncio.run(run())


def test_handshake_that_leaves_late_is_not_the_answer_that_has_left() -> None:
    """TLS drains the last of its handshake when the request is there already and its answer is still being made."""

    def script(connection: Connection, transport: Transport, handler: Handler) -> None:
        connection.pause_writing()
        receive(connection, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        connection.resume_writing()
        assert not transport.closed

        handler.answers.pop()(Response("200 OK", (), b"gpu_up 1\n"))
        assert transport.written.endswith(b"\r\n\r\ngpu_up 1\n")
        assert transport.closed

    talk(script)


def test_what_tls_sends_between_two_answers_is_neither_of_them() -> None:
    """As a key that it renews, while the second answer is still being made."""

    def script(connection: Connection, transport: Transport, handler: Handler) -> None:
        for body in (b"first", b"second"):
            receive(connection, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.pause_writing()
            connection.resume_writing()
            assert not transport.closed
            handler.answers.pop()(Response("200 OK", (), body))
            assert transport.written.endswith(b"\r\n\r\n" + body)

    talk(script)


def test_next_request_is_read_once_the_answer_before_it_has_left() -> None:
    def script(connection: Connection, transport: Transport, handler: Handler) -> None:
        for path in (b"/a", b"/b"):
            receive(connection, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            handler.answers.pop()(Response("200 OK", (), path))
        assert transport.written.count(b"HTTP/1.1 200 OK") == 2
        assert not transport.closed

    talk(script)


def test_answer_has_the_date_as_http_writes_it() -> None:
    def script(connection: Connection, transport: Transport, handler: Handler) -> None:
        receive(connection, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        handler.answers.pop()(Response("200 OK"))
        date = transport.written.decode().partition("Date: ")[2].partition("\r\n")[0]
        assert date == format_datetime(parsedate_to_datetime(date), usegmt=True)

    talk(script)


def test_last_part_of_an_answer_does_not_wait_for_the_client_to_acknowledge_the_part_before() -> None:
    """With Nagle's delay the end of an answer over TLS came 40 ms after the rest."""
    with _bind_socket(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        listening.setblocking(True)  # noqa: FBT003 - the socket's own signature
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_of_too_many_clients_that_take_their_answer_slowly_the_oldest_is_cut_off() -> None:
    handler = _ConnectionManager(*cast("Any", (None, None, None, None, None)))
    ended: list[int] = []
    slow = [cast("Any", SimpleNamespace(key=key, end=lambda key=key: ended.append(key))) for key in range(_MAX_UNSENT)]
    for each in slow:
        handler.on_write_paused(each)
    handler.on_write_resumed(slow[0])
    handler.on_write_paused(slow[0])
    assert ended == []

    handler.on_write_paused(cast("Any", SimpleNamespace(key=_MAX_UNSENT)))

    assert ended == [1]


def test_connection_that_is_open_is_no_longer_among_those_that_open() -> None:
    async def run() -> None:
        handler = _ConnectionManager(asyncio.get_running_loop(), *cast("Any", (None, None, None, None)))
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the socket's own signature
        handler._take(ours, "peer")
        await asyncio.gather(*handler._opening.values())
        await asyncio.sleep(0)

        assert (len(handler._connections), handler._opening) == (1, {})
        for connection in list(handler._connections.values()):
            connection.end()
        theirs.close()

    asyncio.run(run())


def test_address_that_cannot_be_had_says_why_whatever_the_error_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("an odd one")

    monkeypatch.setattr(socket, "getaddrinfo", fails)

    with pytest.raises(ConfigError, match="x:1: an odd one"):
        _bind_socket(("x", 1))
