"""One connection: a request read to the end of its head, handed over, and answered, each within a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote

import h11

from exporter.web.app import Environ, Response

HEAD_BYTES = 16 * 1024
"""Limit of request line and headers together."""
HEAD_SECONDS = 5.0
"""Time from the first byte (on a new connection: from its beginning) to the end of the head, TLS included."""
ANSWER_SECONDS = 10.0
"""Time for the client to take the whole answer."""
REFUSED_SECONDS = 1.0
"""Delay of the answer to what is no request; a client that sends nothing else gets no further."""
CLOSING_SECONDS = 1.0
"""Time for the client to take part in the end of TLS."""
IDLE_SECONDS = 120.0
"""Time between two requests: more than the usual scrape interval, so that scrapes share one connection."""


class ClientCertificatePolicy(NamedTuple):
    """Proof demanded of a client by its certificate. A connection lasts no longer than the demands it met."""

    client_auth: int = 0
    allowed_sans: frozenset[str] = frozenset()
    """One of these names; any, where there are none."""
    authority: str = ""
    """Certificates of those who sign."""


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The subject alternative names of a certificate as Python shows it."""
    return frozenset(str(value) for _, value in (certificate or {}).get("subjectAltName", ()))


class ConnectionHandler(Protocol):
    """Answers the requests of connections, and is notified when their state changes."""

    buffer: memoryview
    """Read into by every connection of a loop, each for as long as it takes to copy what came."""

    def handle_request(self, environ: Environ, respond: Callable[[Response], None]) -> None: ...
    def on_request(self, connection: Connection) -> None: ...
    def on_idle(self, connection: Connection) -> None: ...
    def on_write_paused(self, connection: Connection) -> None: ...
    def on_write_resumed(self, connection: Connection) -> None: ...
    def on_closed(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """Speaks HTTP/1.1 through h11; the time of every state is bounded in total, not from byte to byte."""

    def __init__(
        self,
        handler: ConnectionHandler,
        key: int,
        peer: str,
        demands: Callable[[], ClientCertificatePolicy] = ClientCertificatePolicy,
    ) -> None:
        """`key` and `peer` distinguish it from others; `demands` is asked what a client must prove now."""
        self.key = key
        self._handler = handler
        self._peer = peer
        self._demands = demands
        self._proved = demands()
        self._idle = False
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._http: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._written = False
        self._close_after = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        certificate = transport.get_extra_info("peercert")
        allowed = self._proved.allowed_sans
        if allowed and names_of(certificate).isdisjoint(allowed):
            self.end()  # no answer, not even a refusal in HTTP
            return
        self._until(self._began + HEAD_SECONDS)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._handler.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._take_data(bytes(self._handler.buffer[:nbytes]))

    def _take_data(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._idle:
            self._idle = False
            self._until(self._loop.time() + HEAD_SECONDS)
        self._head_bytes += len(data)
        self._http.receive_data(data)
        self._next()

    def pause_writing(self) -> None:
        self._handler.on_write_paused(self)

    def resume_writing(self) -> None:
        self._handler.on_write_resumed(self)
        if self._written:  # else it was the TLS handshake that has left
            self._after_answer()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._deadline:
            self._deadline.cancel()
        self._transport = None  # it knows us: the two would be kept until a search for circles
        self._handler.on_write_resumed(self)
        self._handler.on_closed(self)

    def finish(self) -> None:
        """End after the answer that is under way; at once where there is none."""
        self._close_after = True
        if self._transport is not None and self._http.their_state is h11.IDLE:
            self._transport.close()

    def end(self) -> None:
        """Break off, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def _until(self, at: float) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = self._loop.call_at(at, self.end)

    def _next(self) -> None:
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse("431 Request Header Fields Too Large" if error.error_status_hint == 431 else "400 Bad Request")  # noqa: PLR2004 - h11's hint
            return
        if not isinstance(event, h11.Request):
            return
        self._head_bytes -= len(self._http.trailing_data[0])
        if self._head_bytes > HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large")
        elif {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
            self._refuse("400 Bad Request")  # a proxy may go by the other one: to it, the body would be a request to us
        else:
            self._hand_over(event)

    def _hand_over(self, request: Any) -> None:
        assert self._transport is not None  # noqa: S101 - data came through it
        self._transport.pause_reading()
        self._until(self._loop.time() + ANSWER_SECONDS)
        try:  # a body is not read: the connection ends with the answer
            self._close_after |= not isinstance(self._http.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError:
            self._close_after = True
        self._handler.on_request(self)
        self._handler.handle_request(_request_environ(request, self._peer), self._answer)

    def _refuse(self, status: str) -> None:
        assert self._transport is not None  # noqa: S101 - data came through it
        self._transport.pause_reading()
        self._close_after = True
        self._answer(Response(status, after=REFUSED_SECONDS))

    def _answer(self, response: Response) -> None:
        if response.after:
            self._handler.on_idle(self)  # it gives way meanwhile
            self._until(self._loop.time() + response.after + ANSWER_SECONDS)
            self._loop.call_later(response.after, self._send, response)
        else:
            self._send(response)

    def _send(self, response: Response) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._demands() != self._proved:  # it has to shake hands again; checked here, since a request reloads
            self.end()
            return
        status, _, reason = response.status.partition(" ")
        headers = [*response.headers, ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()))]
        if not any(name == "Content-Length" for name, _ in headers):
            headers.append(("Content-Length", str(len(response.body))))
        if self._close_after:
            headers.append(("Connection", "close"))
        try:
            head = self._http.send(h11.Response(status_code=int(status), reason=reason, headers=headers))
            body = self._http.send(h11.Data(data=response.body)) if response.body else b""
            end = self._http.send(h11.EndOfMessage())
        except h11.LocalProtocolError:  # the client's side is broken beyond an answer
            self.end()
            return
        self._until(self._loop.time() + ANSWER_SECONDS)
        transport.write(b"".join((head, body or b"", end or b"")))
        self._written = True
        if transport.get_write_buffer_size() == 0:
            self._after_answer()

    def _after_answer(self) -> None:
        """The answer has left: the next request, or the end."""
        transport, self._written = self._transport, False
        if transport is None or transport.is_closing():
            return
        if self._close_after or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self._handler.on_idle(self)  # it gives way meanwhile
            self._until(self._loop.time() + CLOSING_SECONDS)
            transport.close()
            return
        self._http.start_next_cycle()
        self._head_bytes = len(self._http.trailing_data[0])
        self._idle = not self._head_bytes
        self._until(self._loop.time() + (IDLE_SECONDS if self._idle else HEAD_SECONDS))
        self._handler.on_idle(self)
        transport.resume_reading()
        if not self._idle:
            self._loop.call_soon(self._next)  # a request that came with the last one


def _request_environ(request: Any, peer: str) -> Environ:
    """The request in WSGI's words."""
    target = request.target.decode("latin-1")
    scheme, absolute, rest = target.partition("://")
    if absolute and scheme.lower() in {"http", "https"}:
        target = "/" + rest.partition("/")[2]
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method.decode("latin-1"),
        "PATH_INFO": unquote(path) if "%" in path else path,
        "QUERY_STRING": query,
        "REMOTE_ADDR": peer,
    }
    for name, value in request.headers:
        key = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]}, {text}" if key in environ else text
    return environ
