"""One gRPC call with one answer over a unix socket: all that the kubelet's pod-resources API needs.

Written on h2 (pure Python) because the ready-made clients cost more than the exporter has to spend: loaded into
its process, grpcio 1.85 adds 15.3 MiB RSS and 84 ms of CPU, grpclib 0.4.9 7.2 MiB and 88 ms, h2 4.4 0.9 MiB and
19 ms (Python 3.11, x86_64); the budget of the whole exporter is 45 MiB.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from exporter.attribution.background_source import SourceError
from exporter.core.clock import monotonic_time

_PREFIX = struct.Struct(">BI")
"""Of each gRPC message: compressed or not, length."""
MAX_BYTES = 16 * 1024 * 1024
"""The kubelet's own limit for this API."""


@dataclass(slots=True)
class _Reply:
    body: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict[str, str])
    ended: bool = False


def call(path: Path, method: str, request: bytes = b"", timeout: float = 5.0) -> bytes:
    """The answer's message. Raises SourceError for anything but a good answer within `timeout` seconds."""
    deadline = monotonic_time() + timeout
    reply = _Reply()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            _exchange(connection, method, request, reply, lambda: deadline - monotonic_time())
    except TimeoutError:
        raise SourceError(f"{path}: no answer within {timeout:g} s") from None
    except (OSError, ProtocolError, ValueError) as error:
        raise SourceError(f"{path}: {error}") from error
    return _message(reply, path)


def _exchange(
    connection: socket.socket, method: str, request: bytes, reply: _Reply, remaining: Callable[[], float]
) -> None:
    protocol: Any = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    protocol.initiate_connection()
    stream: int = protocol.get_next_available_stream_id()
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", method),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "gpu-exporter"),
    ]
    protocol.send_headers(stream, headers)
    protocol.send_data(stream, _PREFIX.pack(0, len(request)) + request, end_stream=True)
    connection.sendall(protocol.data_to_send())
    while not reply.ended:
        left = remaining()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("closed before the answer was complete")
        for event in protocol.receive_data(received):
            _take(event, reply, protocol)
        connection.sendall(protocol.data_to_send())


def _take(event: Any, reply: _Reply, protocol: Any) -> None:
    if isinstance(event, ResponseReceived | TrailersReceived):
        reply.headers.update({_decoded(name): _decoded(value) for name, value in event.headers or ()})
    elif isinstance(event, DataReceived):
        reply.body += event.data or b""
        protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if len(reply.body) > MAX_BYTES:
            raise ConnectionError(f"an answer of more than {MAX_BYTES} bytes")
    elif isinstance(event, StreamReset | ConnectionTerminated):
        raise ConnectionError("the server broke off")
    elif isinstance(event, StreamEnded):
        reply.ended = True


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _message(reply: _Reply, path: Path) -> bytes:
    status = reply.headers.get("grpc-status", "missing")
    if status != "0":
        raise SourceError(f"{path}: gRPC status {status} {reply.headers.get('grpc-message', '')}".rstrip())
    if len(reply.body) < _PREFIX.size:
        raise SourceError(f"{path}: an answer without a message")
    compressed, length = _PREFIX.unpack_from(reply.body)
    message = bytes(reply.body[_PREFIX.size : _PREFIX.size + length])
    if compressed or len(message) != length:
        raise SourceError(f"{path}: a message that is compressed or cut short")
    return message
