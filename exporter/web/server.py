"""The HTTP server: one thread reads all connections, a few others make the answers.

A connection that sends nothing costs a descriptor and no thread; probes are answered where they are read, so that they
never wait behind scrapes. asyncio and h11 were chosen over cheroot, whose workers a silent client could block, and they
take 2.4 MiB less memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import resource
import socket
import sys
import threading
from asyncio import sslproto
from collections.abc import Callable
from typing import TYPE_CHECKING

from exporter.config.kinds import address_text
from exporter.config.option import ConfigError
from exporter.core.threads import Threads
from exporter.web.app import App, Environ, Response, WorkerQueues
from exporter.web.connection import HEAD_BYTES, HEAD_SECONDS, ClientCertificatePolicy, Connection

if TYPE_CHECKING:
    from exporter.web.tls import Certificates

log = logging.getLogger(__name__)

_BACKLOG = 512
_ACCEPTED_AT_ONCE = 64
_MAX_UNSENT = 32
"""Clients that take their answer slowly; the oldest of more is cut off, for each holds a page."""
_UNREAD_BYTES = 32 * 1024
"""Bytes that the kernel takes from a client ahead of us; twice a head."""
if sys.version_info >= (3, 11):
    sslproto.SSLProtocol.max_size = HEAD_BYTES
    """Size of each TLS connection's buffer; asyncio's own 256 KiB would be 64 MiB for all connections."""
_UNTAKEN_BYTES = 128 * 1024
"""Bytes of answers that the kernel keeps for a client that does not take them; of itself it keeps up to 4 MiB."""
_NETWORK = 8
"""Bytes of an IPv6 address that name the network."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL_PAUSE_SECONDS = 0.1
_FINISH_SECONDS = 3.0
"""Seconds in which requests that are under way are still answered when the server is stopped."""
_LAST_REQUESTS_SECONDS = 0.1
"""Seconds in which a stopped server still reads: closing a socket with an unread request resets its client."""


class Server:
    """Serves an App until stopped. Raises ConfigError from the constructor when the address cannot be had."""

    def __init__(
        self,
        app: App,
        address: tuple[str, int],
        workers: int,
        certificates: Certificates | None = None,
        threads: Threads | None = None,
    ) -> None:
        self._app = app
        self._certificates = certificates
        self._threads = threads or Threads()
        self._workers = WorkerQueues(self._threads, workers)
        self._listening = _bind_socket(address)
        self._manager: _ConnectionManager | None = None
        self._stopped, self._ended = False, threading.Event()

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def start(self) -> None:
        self._workers.start()
        self._threads.start("web", self._run)

    def stop(self) -> None:
        """Take no more requests, answer those that are under way, and end. Waits for it, but not for long."""
        self._stopped = True
        if self._manager is None:
            self._listening.close()
        else:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._manager.call_finish()
                self._ended.wait(_FINISH_SECONDS + 1.0)
        self._workers.stop()

    def _run(self) -> None:
        if self._stopped:
            return
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_log_error)
        try:
            self._manager = manager = _ConnectionManager(
                loop, self._app, self._workers, self._certificates, self._listening
            )
            loop.call_soon(manager.open)
            loop.run_forever()
            manager.close()
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()
            if self._stopped:
                self._listening.close()
                self._ended.set()


class _ConnectionManager:
    """Takes connections in and hands their requests to the workers. Lives as long as its loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        app: App,
        workers: WorkerQueues,
        certificates: Certificates | None,
        listening: socket.socket,
    ) -> None:
        self._loop = loop
        self._app = app
        self._workers = workers
        self._certificates = certificates
        self._listening = listening
        self._limiter = ConnectionLimiter(room(tls=certificates is not None))
        self._keys = itertools.count()
        self._connections: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._unsent: dict[int, Connection] = {}
        self._finishing = False
        self.buffer = memoryview(bytearray(HEAD_BYTES + 1))

    def open(self) -> None:
        if not self._finishing:
            self._loop.add_reader(self._listening, self._accept)

    def call_finish(self) -> None:
        """Call `finish` in the loop. Raises RuntimeError if that has ended."""
        self._loop.call_soon_threadsafe(self._finish_all)

    def _finish_all(self) -> None:
        for _ in range(0, _BACKLOG, _ACCEPTED_AT_ONCE):
            self._accept()
        self._finishing = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._loop.call_later(_FINISH_SECONDS, self._loop.stop)
        self._loop.call_later(_LAST_REQUESTS_SECONDS, self._finish_idle)

    def _finish_idle(self) -> None:
        for connection in list(self._connections.values()):
            connection.finish()
        if not self._connections:
            self._loop.stop()

    def close(self) -> None:
        if not self._finishing:
            self._loop.remove_reader(self._listening)
        for task in self._opening.values():
            task.cancel()
        for connection in list(self._connections.values()):
            connection.end()

    def handle_request(self, environ: Environ, respond: Callable[[Response], None]) -> None:
        begun = self._app.begin(environ)
        if isinstance(begun, Response):
            respond(begun)
            return

        def work() -> None:
            response = begun.make()
            with contextlib.suppress(RuntimeError):  # the server has stopped meanwhile
                self._loop.call_soon_threadsafe(respond, response)

        if not self._workers.submit(begun.lane, work):
            respond(Response("503 Service Unavailable", (("Retry-After", "1"),)))

    def on_request(self, connection: Connection) -> None:
        self._limiter.served(connection.key)

    def on_idle(self, connection: Connection) -> None:
        self._limiter.silent(connection.key, connection.end)

    def on_write_paused(self, connection: Connection) -> None:
        self._unsent.pop(connection.key, None)
        self._unsent[connection.key] = connection
        if len(self._unsent) > _MAX_UNSENT:
            next(iter(self._unsent.values())).end()

    def on_write_resumed(self, connection: Connection) -> None:
        self._unsent.pop(connection.key, None)

    def on_closed(self, connection: Connection) -> None:
        self._connections.pop(connection.key, None)
        self._unsent.pop(connection.key, None)
        self._limiter.left(connection.key)
        if self._finishing and not self._connections:
            self._loop.stop()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _FULL and self._limiter.evict():
                    return  # called again, for somebody still waits
                log.debug("cannot accept: %s", error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(_FULL_PAUSE_SECONDS, self.open)
                return
            accepted.setblocking(False)  # noqa: FBT003 - the socket's own signature
            self._take(accepted, _peer_network(str(address[0])))

    def _take(self, accepted: socket.socket, peer: str) -> None:
        key = next(self._keys)
        connection = Connection(self, key, peer, self._certificate_policy)
        task = self._loop.create_task(self._connect(connection, accepted))

        def end() -> None:
            task.cancel()
            connection.end()

        if not self._limiter.admit(key, peer, end):
            task.cancel()
            accepted.close()
            return
        self._connections[key] = connection
        self._opening[key] = task
        task.add_done_callback(lambda task: self._note_opened(task, connection, accepted))

    def _certificate_policy(self) -> ClientCertificatePolicy:
        return self._certificates.demands if self._certificates else ClientCertificatePolicy()

    def _note_opened(self, task: asyncio.Task[None], connection: Connection, accepted: socket.socket) -> None:
        self._opening.pop(connection.key, None)
        if task.cancelled():  # before its first step
            accepted.close()
            self.on_closed(connection)

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        """The TLS handshake, if any, within the time for the head."""
        try:
            if self._certificates is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._certificates.context(),
                    ssl_handshake_timeout=HEAD_SECONDS,
                )
        except (OSError, asyncio.CancelledError) as error:
            log.debug("connection not made: %s", error)
            accepted.close()
            self.on_closed(connection)


def _peer_network(address: str) -> str:
    """Return whose connections count together: an address, of IPv6 the network that one machine has to itself."""
    plain = address.removeprefix("::ffff:").partition("%")[0]
    if ":" not in plain or plain.startswith("fe80:"):
        return plain
    return socket.inet_pton(socket.AF_INET6, plain)[:_NETWORK].hex(":", 2) + "::"


def _bind_socket(address: tuple[str, int]) -> socket.socket:
    """A socket that listens. An empty host is every address, over IPv6 too where there is any."""
    host, port = address
    try:
        if not host and socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return _listening_socket(("::", port), socket.AF_INET6, dual_stack=True)
        # As bytes, where it can be: for a text Python loads the tables of international domain names.
        name = host.encode() if host.isascii() else host
        family, _, _, _, found = socket.getaddrinfo(
            name or b"0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _listening_socket(found, family, dual_stack=False)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # Python adds the address once more
        raise ConfigError(f"--web.listen-address {address_text(host, port)}: {reason}") from None


def _listening_socket(address: tuple[object, ...], family: socket.AddressFamily, *, dual_stack: bool) -> socket.socket:
    made = socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack)
    # Those that are accepted have all of it from here; asyncio sets NODELAY only where the protocol is named.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNTAKEN_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setblocking(False)  # noqa: FBT003 - the same
    return made


def _log_error(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    del loop
    log.debug("%s", context.get("message"), exc_info=context.get("exception"))  # type: ignore[arg-type]


_MAX_PLAIN = 256
_MAX_TLS = 64
"""Each keeps some 80 KiB, most of it in OpenSSL."""
_RESERVED = 48
"""Descriptors that the rest of the process may need."""
_LEAST = 4


def room(limit: int | None = None, *, tls: bool = False) -> int:
    """Return how many connections the descriptors of this process and its memory allow."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    return max(_LEAST, min(_MAX_TLS if tls else _MAX_PLAIN, (soft - _RESERVED) // 2))


class ConnectionLimiter:
    """Open connections by peer, each with what ends it. Belongs to the loop of connections."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[str, dict[int, Callable[[], None]]] = {}
        """Ends of the silent connections of each peer, the oldest first."""
        self._open: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, key: int, peer: str, end: Callable[[], None]) -> bool:
        """A new connection, silent so far; False where there is no room and none that could give way."""
        while len(self._open) >= self._limit:
            if not self.evict():
                return False
        self._open[key] = peer
        self._peers.setdefault(peer, {})[key] = end
        return True

    def served(self, key: int) -> None:
        """Its request is complete: it does not give way until it is silent again."""
        peer = self._open.get(key)
        if peer is not None:
            self._peers[peer].pop(key, None)

    def silent(self, key: int, end: Callable[[], None]) -> None:
        """Its answer is sent, another request may come."""
        peer = self._open.get(key)
        if peer is not None:
            self._peers[peer][key] = end

    def left(self, key: int) -> None:
        peer = self._open.pop(key, None)
        if peer is not None:
            self._peers[peer].pop(key, None)
            if not self._peers[peer] and peer not in self._open.values():
                del self._peers[peer]

    def evict(self) -> bool:
        """End the oldest silent connection of the peer with most of them; whether there was one."""
        silent = {peer: ends for peer, ends in self._peers.items() if ends}
        if not silent:
            return False
        busiest = max(silent, key=lambda peer: len(silent[peer]))
        key, end = next(iter(silent[busiest].items()))
        end()
        self.left(key)
        return True
