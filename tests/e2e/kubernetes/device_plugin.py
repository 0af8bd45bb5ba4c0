"""Stands for NVIDIA's device plugin: `device_plugin.py RESOURCE ID...` offers the ids to the kubelet until stopped.

Like that one it registers again with a kubelet that was started anew, which removes the sockets of all plugins.

The messages (kubelet device plugin API v1beta1) are protobuf by hand: field number and wire type, length, bytes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc

DIRECTORY = Path("/var/lib/kubelet/device-plugins")
KUBELET = DIRECTORY / "kubelet.sock"
SERVICE = "v1beta1.DevicePlugin"


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def messages(raw: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited fields of a number; these messages have no others, and none is longer than 127 bytes."""
    while raw:
        length = raw[1]
        if raw[0] == wanted << 3 | 2:
            yield raw[2 : 2 + length]
        raw = raw[2 + length :]


def kubelet() -> tuple[int, int] | None:
    """Which kubelet listens; none while there is no socket."""
    try:
        found = KUBELET.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def serve(resource: str, ids: list[str]) -> None:
    """Until another kubelet listens."""
    socket = DIRECTORY / f"{resource.replace('/', '-')}.sock"
    socket.unlink(missing_ok=True)
    stopped = threading.Event()

    def watch(_: bytes, __: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"".join(field(1, field(1, each) + field(2, "Healthy")) for each in ids)
        stopped.wait()

    def allocate(request: bytes, _: grpc.ServicerContext) -> bytes:
        made = b""
        for container in messages(request, 1):
            given = [each.decode().split("::")[0] for each in messages(container, 1)]
            made += field(1, field(1, field(1, "NVIDIA_VISIBLE_DEVICES") + field(2, ",".join(given))))
        return made

    unary = grpc.unary_unary_rpc_method_handler
    handlers = {
        "GetDevicePluginOptions": unary(lambda *_: b""),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch),
        "Allocate": unary(allocate),
        "GetPreferredAllocation": unary(lambda *_: b""),
        "PreStartContainer": unary(lambda *_: b""),
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    registered_with = kubelet()
    with grpc.insecure_channel(f"unix:{KUBELET}") as channel:
        register = channel.unary_unary("/v1beta1.Registration/Register")
        register(field(1, "v1beta1") + field(2, socket.name) + field(3, resource), timeout=10, wait_for_ready=True)
    while kubelet() == registered_with:
        time.sleep(0.5)
    stopped.set()
    server.stop(None).wait()


if __name__ == "__main__":
    while True:
        while kubelet() is None:
            time.sleep(0.1)
        serve(sys.argv[1], sys.argv[2:])
