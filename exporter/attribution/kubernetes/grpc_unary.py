"""One gRPC call with one answer over a unix socket: all that the kubelet's pod-resources API needs.

Written on h2 (pure Python) to save memory: h2 4.4 adds 0.9 MiB and 19 ms of CPU, grpclib 0.4.9 7.2 MiB and 88 ms,
grpcio 1.85 15.3 MiB and 84 ms (Python 3.11, x86_64).
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from exporter.attribution.background_source import BAD_ANSWER, REFUSED, TIMEOUT, UNREACHABLE, SourceError, reason_of
from exporter.core.clock import MonotonicTime, monotonic_time

_PREFIX = struct.Struct(">BI")
"""Head of each gRPC message: compressed or not, length."""
MAX_BYTES = 16 * 1024 * 1024
"""Limit of the kubelet itself for this API."""
_REASONS = {"4": TIMEOUT, "7": REFUSED, "14": UNREACHABLE, "16": REFUSED}
"""Reasons by gRPC status: deadline exceeded, permission denied, unavailable, unauthenticated."""


def call(path: Path, method: str, request: bytes = b"", timeout: float = 5.0) -> bytes:
    """Return the answer's message. Raises SourceError for anything but a good answer within `timeout` seconds."""
    headers: dict[str, str] = {}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            body = _exchange_messages(connection, method, request, headers, monotonic_time() + timeout)
    except TimeoutError:
        raise SourceError(f"{path}: no answer within {timeout:g} s", TIMEOUT) from None
    except (OSError, ProtocolError, ValueError) as error:
        raise SourceError(f"{path}: {error}", reason_of(error)) from error
    status = headers.get("grpc-status", "missing")
    if status != "0":
        failure = f"{path}: gRPC status {status} {headers.get('grpc-message', '')}".rstrip()
        raise SourceError(failure, _REASONS.get(status, BAD_ANSWER))
    if len(body) < _PREFIX.size:
        raise SourceError(f"{path}: an answer without a message")
    compressed, length = _PREFIX.unpack_from(body)
    message = bytes(body[_PREFIX.size : _PREFIX.size + length])
    if compressed or len(message) != length:
        raise SourceError(f"{path}: a message that is compressed or cut short")
    return message


def _exchange_messages(
    connection: socket.socket, method: str, request: bytes, headers: dict[str, str], deadline: MonotonicTime
) -> bytearray:
    """Send the request and return the body of the answer; its headers are put into `headers`."""
    protocol: Any = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    protocol.initiate_connection()
    stream: int = protocol.get_next_available_stream_id()
    sent = {
        ":method": "POST", ":scheme": "http", ":authority": "localhost", ":path": method,
        "content-type": "application/grpc", "te": "trailers", "user-agent": "gpu-exporter",
    }  # fmt: skip
    protocol.send_headers(stream, list(sent.items()))
    protocol.send_data(stream, _PREFIX.pack(0, len(request)) + request, end_stream=True)
    connection.sendall(protocol.data_to_send())
    body, ended = bytearray(), False
    while not ended:
        left = deadline - monotonic_time()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("closed before the answer was complete")
        for event in protocol.receive_data(received):
            ended = _take_event(event, body, headers, protocol) or ended
        connection.sendall(protocol.data_to_send())
    return body


def _take_event(event: Any, body: bytearray, headers: dict[str, str], protocol: Any) -> bool:
    """Add an event to the answer. Returns whether the answer has ended."""
    if isinstance(event, ResponseReceived | TrailersReceived):
        shown = (
            (name.decode("utf-8", "replace"), value.decode("utf-8", "replace")) for name, value in event.headers or ()
        )
        headers.update(shown)
    elif isinstance(event, DataReceived):
        body += event.data or b""
        protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if len(body) > MAX_BYTES:
            raise ValueError(f"an answer of more than {MAX_BYTES} bytes")
    elif isinstance(event, StreamReset | ConnectionTerminated):
        raise ConnectionError("the server broke off")
    return isinstance(event, StreamEnded)
