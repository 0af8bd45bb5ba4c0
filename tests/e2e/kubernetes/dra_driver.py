"""Stands for NVIDIA's DRA driver on a node: `dra_driver.py KUBELET_DIRECTORY API_SERVER CA_FILE TOKEN`, until stopped.

It registers with the kubelet and prepares each claim with the devices that the scheduler chose. What it would publish,
the ResourceSlices, the test applies. Messages (kubelet plugin registration v1, DRA v1) as in device_plugin.py.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from device_plugin import field, messages

NAME = "gpu.nvidia.com"
SERVICE = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
RESULT = {"request": 1, "pool": 2, "device": 3}


def serving(socket: Path, service: str, methods: dict[str, Any]) -> grpc.Server:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def serve(kubelet: Path, api: str, authority: str, token: str) -> None:
    trusted = ssl.create_default_context(cafile=authority)
    endpoint = kubelet / "plugins" / NAME / "dra.sock"

    def chosen(namespace: str, name: str) -> list[dict[str, str]]:
        url = f"{api}/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - of the test
        with urllib.request.urlopen(asked, context=trusted, timeout=10) as answer:  # noqa: S310
            results: list[dict[str, str]] = json.load(answer)["status"]["allocation"]["devices"]["results"]
        return [each for each in results if each["driver"] == NAME]

    def text(claim: bytes, number: int) -> str:
        return next(messages(claim, number)).decode()

    def prepare(request: bytes, _: grpc.ServicerContext) -> bytes:
        made = b""
        for claim in messages(request, 1):
            given = chosen(text(claim, 1), text(claim, 3))
            devices = (b"".join(field(number, each[key]) for key, number in RESULT.items()) for each in given)
            made += field(1, field(1, text(claim, 2)) + field(2, b"".join(field(1, each) for each in devices)))
        return made

    def unprepare(request: bytes, _: grpc.ServicerContext) -> bytes:
        return b"".join(field(1, field(1, text(claim, 2)) + field(2, b"")) for claim in messages(request, 1))

    about = field(1, "DRAPlugin") + field(2, NAME) + field(3, str(endpoint)) + field(4, "v1.DRAPlugin")
    driver = serving(endpoint, SERVICE, {"NodePrepareResources": prepare, "NodeUnprepareResources": unprepare})
    registration = {"GetInfo": lambda *_: about, "NotifyRegistrationStatus": lambda *_: b""}
    met = serving(kubelet / f"plugins_registry/{NAME}-reg.sock", "pluginregistration.Registration", registration)
    driver.wait_for_termination()
    met.stop(None)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), *sys.argv[2:])
