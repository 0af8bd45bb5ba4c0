"""A kubelet as far as its pod-resources API goes: a real gRPC server on a real unix socket."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def message(*fields: tuple[int, str | bytes | int]) -> bytes:
    """Protobuf's wire format of (field number, value)."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


@dataclass(frozen=True)
class GivenPod:
    namespace: str
    name: str
    container: str
    devices: Sequence[str] = ()
    resource: str = "nvidia.com/gpu"
    claims: Sequence[tuple[str, str]] = ()
    """DRA: driver and device name."""

    def encoded(self) -> bytes:
        topology = message((1, message((1, 0))))
        devices = message((1, self.resource), *((2, each) for each in self.devices), (3, topology))
        dynamic = message(
            (2, "claim"),
            (3, self.namespace),
            *(
                (4, message((1, message((1, "cdi"))), (2, driver), (3, "pool"), (4, name)))
                for driver, name in self.claims
            ),
        )
        container = message((1, self.container), (2, devices), (3, 5), (5, dynamic))
        return message((1, self.name), (2, self.namespace), (3, container))


class Kubelet:
    """Answers List with `pods`; while `hanging` is set it accepts calls and does not answer them.

    `allocatable` is what it may give out; None: a kubelet that does not tell.
    """

    def __init__(self, socket: Path, pods: Sequence[GivenPod] = (), allocatable: Sequence[str] | None = None) -> None:
        self.socket = socket
        self.allocatable = allocatable
        self.pods = list(pods)
        self.hanging = threading.Event()
        self.calls = 0
        self._end = threading.Event()
        self._pool = futures.ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool)
        methods = {"List": self._list} | ({} if allocatable is None else {"GetAllocatableResources": self._allocatable})
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(method, lambda raw: raw, lambda raw: raw)
            for name, method in methods.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
        )

    def __enter__(self) -> Kubelet:  # noqa: PYI034 - Self is newer than our oldest Python
        self.socket.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._server.stop(None).wait(5)
        self._pool.shutdown()
        self.socket.unlink(missing_ok=True)

    def _allocatable(self, request: bytes, context: Any) -> bytes:
        del request, context
        devices = message((1, "nvidia.com/gpu"), *((2, each) for each in self.allocatable or ()))
        return message((1, devices), (2, 3), (1, message((1, "example.com/nic"), (2, "eth0"))))

    def _list(self, request: bytes, context: Any) -> bytes:
        del request, context
        self.calls += 1
        if self.hanging.is_set():
            self._end.wait(30)
        return message(*((1, pod.encoded()) for pod in self.pods))
