"""ResourceSlices of NVIDIA's DRA driver, asked for over HTTP when a claim cannot be told otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.background_source import SourceError
from exporter.attribution.kubernetes.api_server import DRIVER, PATHS, ApiServer, resource_slices
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import instance

FIRST, SECOND = instance(0, 7), instance(0, 8)


def piece(node: str, devices: dict[str, str], driver: str = DRIVER, *, old: bool = False) -> Any:
    rows = []
    for name, uuid in devices.items():
        attributes = {"attributes": {"uuid": {"string": uuid}, "type": {"string": "mig"}}}
        rows.append({"name": name, **({"basic": attributes} if old else attributes)})
    return {"spec": {"driver": driver, "nodeName": node, "devices": rows}}


class Api:
    def __init__(self) -> None:
        self.said: dict[str, Any] = {}
        self.asked: list[tuple[str, str]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                api.asked.append((url.path, parse_qs(url.query)["fieldSelector"][0]))
                if url.path not in api.said:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(api.said[url.path]).encode())

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def server(api: Api, tmp_path: Path) -> ApiServer:
    (tmp_path / "token").write_text("secret")
    return ApiServer(api.url, tmp_path)


@pytest.mark.parametrize(("path", "old"), [(PATHS[0], False), (PATHS[1], True)])
def test_names_of_this_nodes_devices(api: Api, server: ApiServer, path: str, *, old: bool) -> None:
    others = [piece("n2", {"gpu-0": "gpu-other"}), piece("n1", {"gpu-0": "x"}, "else.example.com")]
    api.said[path] = {"items": [piece("n1", {"gpu-0-mig-19-4-1": "mig-a"}, old=old), *others]}

    assert resource_slices(server, "n1") == {"gpu-0-mig-19-4-1": "mig-a"}
    assert api.asked[0] == (PATHS[0], "spec.nodeName=n1,spec.driver=gpu.nvidia.com")


@pytest.mark.parametrize("said", [[], {"items": [1]}, {"items": [{"spec": {"driver": "gpu.nvidia.com"}, "x": 1}, {}]}])
def test_anything_else_is_refused(api: Api, server: ApiServer, said: Any) -> None:
    api.said = dict.fromkeys(PATHS, said)

    with pytest.raises(SourceError):
        resource_slices(server, "n1")


def test_cluster_without_dra_is_refused(server: ApiServer) -> None:
    with pytest.raises(SourceError, match="404"):
        resource_slices(server, "n1")


def test_they_are_asked_for_only_when_a_claim_needs_them(api: Api, server: ApiServer, tmp_path: Path) -> None:
    claim = "gpu-0-mig-19-4-1"
    api.said[PATHS[0]] = {"items": [piece("n1", {claim: SECOND.uuid.lower()})]}
    site = KubernetesSite(
        tmp_path / "kubelet.sock", required=True, logs=tmp_path, slices=lambda: resource_slices(server, "n1")
    )
    source = Kubernetes(site)
    joined = attribution_of(Parts(source))
    with Kubelet(tmp_path / "kubelet.sock", [GivenPod("ml", "one", "main", [FIRST.uuid])]) as kubelet:
        source._poller.ask_once()
        joined.join([FIRST, SECOND], {}, {}, 1.0)
        source._poller.ask_once()
        assert api.asked == []

        kubelet.pods = [GivenPod("ml", "one", "main", claims=[(DRIVER, claim)])]
        source._poller.ask_once()
        before = joined.join([FIRST, SECOND], {}, {}, 2.0)
        source._poller.ask_once()
        after = joined.join([FIRST, SECOND], {}, {}, 3.0)

    assert before.holders == {}
    assert {uuid: [owner.pod for owner in owners] for uuid, owners in after.holders.items()} == {SECOND.uuid: ["one"]}
