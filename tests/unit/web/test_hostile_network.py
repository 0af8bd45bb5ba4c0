"""What an open network does to a port: silence, trickles, floods, stalls and nonsense, while scrapes go on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
import requests

from exporter.web import connection
from exporter.web.app import App, Response, RouteHandlers
from exporter.web.server import Server, _bind_socket, _peer_network
from tests.attribution_kit.nodes import until
from tests.unit.web.hostile import BODY, client, pages, said, scrape, serving


@pytest.fixture(autouse=True)
def _refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REFUSED_SECONDS", 0.01)


@pytest.fixture
def port() -> Iterator[int]:
    with serving() as found:
        yield found


def test_a_thousand_idle_connections_keep_nobody_waiting(port: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(300):  # more than there is room for; the bench makes a thousand
            stack.enter_context(client(port))

        assert scrape(port) == 200
        assert requests.get(f"http://127.0.0.1:{port}/-/healthy", timeout=10).status_code == 200


@pytest.mark.parametrize("target", ["http://x:1/metrics", "HTTP://x/metrics?a=b", "/metrics"])
def test_a_request_names_its_page_with_or_without_the_server(port: int, target: str) -> None:
    with client(port) as asking:
        asking.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

        assert said(asking).startswith(b"HTTP/1.1 200 OK\r\n")


def test_slow_heads_keep_nobody_waiting_and_are_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(client(port)) for _ in range(50)]
        for each in slow:
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-a: ")

        assert scrape(port) == 200
        assert [said(each) for each in slow] == [b""] * 50


def test_a_byte_now_and_then_does_not_put_the_end_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    ended = threading.Event()
    with client(port) as slow:

        def trickle() -> None:
            with contextlib.suppress(OSError):
                slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                while not ended.wait(0.02):
                    slow.sendall(b"a")

        thread = threading.Thread(target=trickle)
        thread.start()
        answer = said(slow)
        ended.set()
        thread.join()

    assert answer == b""


def test_slow_head_is_ended_on_a_connection_that_was_used_before(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    with client(port) as slow:
        slow.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        first = slow.recv(65536)
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")

        assert (first.startswith(b"HTTP/1.1 200 OK\r\n"), said(slow)) == (True, b"")


def test_slow_head_that_came_with_the_request_before_it_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection was never idle: the head's deadline counts, and not that of an idle connection."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connection, "IDLE_SECONDS", 1e6)
    with client(port) as slow:
        slow.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nX: ")

        assert said(slow).count(b"HTTP/1.1 200 OK\r\n") == 1


def test_server_that_stops_answers_what_was_asked_and_resets_nobody() -> None:
    asked, release = threading.Event(), threading.Event()

    def slow(_: str) -> tuple[str, bytes]:
        asked.set()
        release.wait(20)
        return "text/plain", BODY

    server = Server(App(RouteHandlers(slow, status=lambda: "", ready=lambda: ""), "/metrics"), ("127.0.0.1", 0), 2)
    server.start()
    with client(server.port) as scraping, client(server.port) as used, client(server.port) as silent:
        used.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        assert used.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        scraping.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        asked.wait(20)
        stopping = threading.Thread(target=server.stop)
        stopping.start()

        assert (used.recv(1), silent.recv(1)) == (b"", b"")  # a reset would raise
        release.set()
        answer = b"".join(iter(lambda: scraping.recv(65536), b""))
        stopping.join(20)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in answer
    assert answer.endswith(BODY)
    assert not stopping.is_alive()


def test_requests_in_the_backlog_of_a_server_that_stops_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, release = threading.Event(), threading.Event()

    def begin(_: object) -> Response:
        busy.set()
        release.wait(20)
        return Response("200 OK", body=BODY)

    app = App(RouteHandlers(lambda _: ("text/plain", BODY), status=lambda: "", ready=lambda: ""), "/metrics")
    monkeypatch.setattr(app, "begin", begin)
    server = Server(app, ("127.0.0.1", 0), 2)
    server.start()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(client(server.port))]
        streams[0].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        busy.wait(20)  # the loop reads and accepts nothing more
        for _ in range(20):
            streams.append(stack.enter_context(client(server.port)))
            streams[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server._manager
        server._manager.call_finish()
        release.set()
        answers = [said(stream) for stream in streams]
        server.stop()

    assert [answer[:15] for answer in answers] == [b"HTTP/1.1 200 OK"] * 21


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 50_000,
    ],
)
def test_long_heads_are_refused(port: int, sent: bytes) -> None:
    with client(port) as stream:
        with contextlib.suppress(ConnectionError):
            stream.sendall(sent)
        answer = said(stream)

    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""  # reset where more was on its way
    assert scrape(port) == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELP\r\n\r\n",
        b"OPTIONS sip:nm SIP/2.0\r\nVia: SIP/2.0/TCP nm\r\n\r\n",
        b"GET /%ff%00/../ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n",
        b"\0" * 100,
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET  /metrics  HTTP/1.1\r\nHost x\r\n\r\n",
    ],
)
def test_nonsense_is_answered_or_dropped(port: int, sent: bytes) -> None:
    """Nmap's service probes, and requests made to be read in two ways."""
    with client(port) as stream:
        stream.sendall(sent)
        stream.shutdown(socket.SHUT_WR)
        answer = said(stream)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert b"Server:" not in answer
    assert scrape(port) == 200


def test_client_that_does_not_take_its_answer_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.3)
    with client(port) as stream:
        for _ in range(50):  # more than the socket's buffers hold
            stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert scrape(port) == 200
        until(lambda: _reset(stream))


def _reset(stream: socket.socket) -> bool:
    try:
        stream.send(b"GET")
    except ConnectionError:
        return True
    return False


def test_requests_in_a_row_on_one_connection_are_all_answered(port: int) -> None:
    with client(port) as stream:
        stream.sendall(
            b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n" * 300
            + b"GET /x HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n"
        )
        answer = said(stream)

    assert (answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 404")) == (300, 1)


def test_many_requests_in_a_row_are_no_long_head(port: int) -> None:
    """A load test or a proxy may send more of them ahead than one head may be long."""
    with client(port) as stream:
        sender = threading.Thread(
            target=stream.sendall,
            args=(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n" * 2000 + b"GET /x HTTP/1.0\r\n\r\n",),
        )
        sender.start()
        answer = said(stream)
        sender.join()

    assert (answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 404"), answer.count(b" 431 ")) == (2000, 1, 0)


def test_body_of_two_lengths_ends_the_connection(port: int) -> None:
    """Else what a proxy takes for the body would be a request of its own."""
    inner = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    with client(port) as stream:
        stream.sendall(
            b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            + b"Content-Length: %d\r\n\r\n0\r\n\r\n" % (5 + len(inner))
            + inner
        )
        answer = said(stream)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_http_1_0_is_answered_and_ended(port: int) -> None:
    with client(port) as stream:
        stream.sendall(b"GET /-/ready HTTP/1.0\r\n\r\n")

        assert said(stream).endswith(b"ready\n")


def test_probes_are_answered_while_every_worker_is_busy() -> None:
    release = threading.Event()

    def stuck(_: str) -> tuple[str, bytes]:
        release.wait(20)
        return "text/plain", b""

    application = App(RouteHandlers(metrics=stuck, status=lambda: "", ready=lambda: ""), "/metrics")
    server = Server(application, ("127.0.0.1", 0), 2)
    server.start()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(client(server.port)).sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            for path in ("healthy", "ready"):
                assert requests.get(f"http://127.0.0.1:{server.port}/-/{path}", timeout=10).status_code == 200
    finally:
        release.set()
        server.stop()


def test_whoever_sends_nonsense_waits_for_the_answer_and_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REFUSED_SECONDS", 3600.0)
    monkeypatch.setattr("exporter.web.server.room", lambda **_: 4)
    with serving() as port, contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(client(port)).sendall(b"GET /" + b"a" * 20_000)

        assert scrape(port) == 200


def test_kernel_takes_little_from_a_client_ahead_of_what_is_read() -> None:
    server = Server(App(pages(), "/metrics"), ("127.0.0.1", 0), 2)
    with client(server.port) as stream:  # nobody accepts it
        stream.setblocking(False)  # noqa: FBT003 - the socket's own signature
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 1 << 24:
                sent += stream.send(b"a" * 4096)
        queued = stream.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    server.stop()

    assert sent - queued < 128 * 1024


def test_kernel_keeps_little_of_an_answer_that_is_not_taken() -> None:
    """Else 256 clients that do not read make it keep a gigabyte."""
    listening = _bind_socket(("127.0.0.1", 0))
    with client(listening.getsockname()[1]):
        while True:
            with contextlib.suppress(BlockingIOError):
                accepted, _ = listening.accept()
                break
        with accepted, listening:
            accepted.setblocking(False)  # noqa: FBT003 - the socket's own signature
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 1 << 24:
                    sent += accepted.send(b"a" * 65536)

    assert sent < 1 << 20


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::a:b:c:d", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", False),
        ("::1", "::1", True),
    ],
)
def test_all_addresses_of_one_machine_are_one_peer(one: str, other: str, same: bool) -> None:  # noqa: FBT001 - a parameter
    assert (_peer_network(one) == _peer_network(other)) is same
