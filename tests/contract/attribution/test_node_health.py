"""Health of a node in Kubernetes: what is written to an API server. A real HTTP server on loopback."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.kubernetes.api_server import ApiServer
from exporter.core.clock import UnixTime
from exporter.core.families import Block
from exporter.daemon.config import NodeHealthConfig
from exporter.daemon.node_health import NodeHealth
from exporter.sampling.snapshot import NodeStatus, Snapshot

A, B = "GPU-aaaaaaaa", "GPU-bbbbbbbb"
OTHERS = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "team", "value": "x", "effect": "NoExecute"}]
Rows = Mapping[str, list[tuple[dict[str, str], float]]]


class Api:
    """One node that takes patches as the API server does, and events by name."""

    def __init__(self) -> None:  # noqa: C901 - the handler is a part of it
        self.version = 1
        self.conditions: dict[str, dict[str, Any]] = {"Ready": {"type": "Ready", "status": "True"}}
        self.taints: list[dict[str, str]] = list(OTHERS)
        self.events: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.refused = False
        self.interfere = False
        """Somebody else changes the taints between a read and the patch."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, api.node())

            def do_POST(self) -> None:
                event = self._body()
                name = event["metadata"]["name"]
                taken = name in api.events
                api.events.setdefault(name, event)
                self._answer(409 if taken else 201, event)

            def do_PATCH(self) -> None:
                given, form = self._body(), self.headers["Content-Type"]
                if self.path == "/api/v1/nodes/n1/status":
                    assert form == "application/strategic-merge-patch+json"
                    for each in given["status"]["conditions"]:  # merged by the type: what is not given stays
                        api.conditions[each["type"]] = {**api.conditions.get(each["type"], {}), **each}
                    api.version += 1
                    self._answer(200, api.node())
                    return
                assert (self.path, form) == ("/api/v1/nodes/n1", "application/merge-patch+json")
                api.version += api.interfere
                if given["metadata"]["resourceVersion"] != str(api.version):
                    self._answer(409, {})
                    return
                api.taints = given["spec"]["taints"]
                self._answer(200, api.node())

            def _body(self) -> dict[str, Any]:
                found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                return found

            def _answer(self, status: int, document: Mapping[str, Any]) -> None:
                api.asked.append(f"{self.command} {self.path}")
                body = json.dumps(document).encode()
                self.send_response(403 if api.refused else status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def node(self) -> dict[str, Any]:
        return {
            "metadata": {"name": "n1", "resourceVersion": str(self.version)},
            "spec": {"taints": self.taints},
            "status": {"conditions": [*self.conditions.values()]},
        }

    @property
    def condition(self) -> dict[str, Any]:
        return self.conditions.get("GPUHealthy", {})


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()
    yield found
    found.server.shutdown()
    found.server.server_close()


class Node:
    """A node of two GPUs whose findings and clock the test sets."""

    def __init__(self, api: Api, account: Path, *parts: str) -> None:
        (account / "token").write_text("x")
        self.now = 1_000_000_000.0
        self.rows: dict[str, list[tuple[dict[str, str], float]]] = {}
        server = ApiServer(f"http://127.0.0.1:{api.server.server_address[1]}", account)
        config = NodeHealthConfig(node_health=parts or ("condition",))
        self.health = NodeHealth(server, "n1", config, self.snapshot, lambda: UnixTime(self.now))
        self.mend()

    def snapshot(self) -> Snapshot:
        blocks = [_block(name, rows) for name, rows in self.rows.items()]
        return Snapshot(NodeStatus(cycles=5), lambda: blocks)

    def mend(self) -> None:
        self.rows = {
            "gpu_exporter_build_info": [({}, 1)],
            "gpu_up": [({"gpu": "0", "uuid": A}, 1), ({"gpu": "1", "uuid": B}, 1)],
            "gpu_info": [
                ({"gpu": str(number), "uuid": uuid, "model": "H100"}, 1) for number, uuid in enumerate((A, B))
            ],
        }

    def fail(self, fault: str = "xid", evidence: str = "XID 79", action: str = "restart") -> None:
        labels = {"gpu": "1", "uuid": B, "fault": fault, "evidence": evidence, "action": action}
        self.rows["gpu_fault_timestamp_seconds"] = [(labels, self.now)]

    def without_driver(self, error: str, pci: int) -> None:
        self.rows = {
            "gpu_exporter_build_info": [({}, 1)],
            "gpu_exporter_driver_error": [({"error": error}, 1)],
            "gpu_devices": [({"source": "pci"}, pci)],
        }

    def ticks(self, count: int = 2) -> None:
        for _ in range(count):
            self.now += 10
            self.health.publish()


def _block(name: str, rows: list[tuple[dict[str, str], float]]) -> Block:
    names = tuple(rows[0][0]) if rows else ()
    samples = [SimpleNamespace(labels=tuple(labels.values()), value=value) for labels, value in rows]
    return cast(
        "Block", SimpleNamespace(family=SimpleNamespace(name=name, all_labels=names), prefix=(), samples=samples)
    )


def test_healthy_node_says_so_once_and_every_five_minutes(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path)
    node.ticks(1)
    assert api.asked == []
    node.ticks(1)

    assert api.condition == {
        "type": "GPUHealthy", "status": "True", "reason": "NoFault", "message": "2 GPUs reachable (2 x H100)",
        "lastHeartbeatTime": "2001-09-09T01:47:00Z", "lastTransitionTime": "2001-09-09T01:47:00Z",
    }  # fmt: skip
    assert api.conditions["Ready"] == {"type": "Ready", "status": "True"}
    node.ticks(29)
    assert api.asked == ["GET /api/v1/nodes/n1", "PATCH /api/v1/nodes/n1/status"]
    node.ticks(1)
    assert len(api.asked) == 4
    assert api.condition["lastHeartbeatTime"] == "2001-09-09T01:52:00Z"
    assert api.condition["lastTransitionTime"] == "2001-09-09T01:47:00Z"


def test_failure_turns_the_condition_and_its_cure_turns_it_back(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path)
    node.ticks()
    node.fail()
    node.ticks(1)
    assert api.condition["status"] == "True"  # one evaluation alone proves nothing
    node.ticks(1)

    assert (api.condition["status"], api.condition["reason"]) == ("False", "Xid")
    assert api.condition["message"].startswith("GPU 1: XID 79, ")
    assert api.condition["lastTransitionTime"] == "2001-09-09T01:47:20Z"
    node.mend()
    node.ticks()
    assert (api.condition["status"], api.condition["reason"]) == ("True", "NoFault")
    assert api.condition["lastTransitionTime"] == "2001-09-09T01:47:40Z"


def test_degraded_node_is_healthy_with_the_reason(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path)
    node.fail("nvlink_down", "2 of 18 links", "inspect")
    node.ticks()

    assert (api.condition["status"], api.condition["reason"]) == ("True", "NvlinkDown")


def test_node_without_a_driver_is_not_healthy_and_one_that_let_go_of_it_is_unknown(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "condition", "taint:NoSchedule")
    node.without_driver("DRIVER_NOT_LOADED", pci=2)
    node.ticks()
    assert (api.condition["status"], api.condition["reason"]) == ("False", "Driver")
    assert [each["key"] for each in api.taints] == ["nvidia.com/gpu", "team", "gpu-exporter/gpu-unhealthy"]
    node.without_driver("RELEASED", pci=2)
    node.ticks()

    assert (api.condition["status"], api.condition["reason"]) == ("Unknown", "Unknown")
    assert len(api.taints) == 3  # unknown is no cure


def test_node_without_gpus_gets_no_condition(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path)
    node.without_driver("LIBRARY_NOT_FOUND", pci=0)
    node.ticks(3)

    assert api.asked == []


def test_taint_comes_with_the_failure_and_goes_with_the_cure(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "taint:NoSchedule")
    node.fail()
    node.ticks()
    assert api.taints == [*OTHERS, {"key": "gpu-exporter/gpu-unhealthy", "effect": "NoSchedule"}]
    node.mend()
    node.ticks()

    assert api.taints == OTHERS
    assert api.condition == {}


def test_taint_of_somebody_else_is_never_overwritten(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "condition", "taint:NoSchedule")
    node.fail()
    api.interfere = True
    with pytest.raises(SourceError, match="409"):
        node.ticks()
    assert api.taints == OTHERS
    api.interfere = False
    node.ticks(1)

    assert len(api.taints) == 3


def test_pod_on_the_failed_gpu_gets_one_event(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "condition", "events")
    node.fail()
    owner = {"namespace": "team-a", "pod": "train-0"}
    node.rows["gpu_workload_info"] = [({**owner, "pod_uid": "u-1"}, 1)]
    node.rows["gpu_allocation_ratio"] = [
        ({"gpu": "1", "uuid": B, **owner}, 1),
        ({"gpu": "0", "uuid": A, "namespace": "team-b", "pod": "other"}, 1),
        ({"gpu": "1", "uuid": B, "namespace": "", "pod": ""}, 0.5),
    ]
    node.ticks(6)

    (event,) = api.events.values()
    assert api.asked.count("POST /api/v1/namespaces/team-a/events") == 1
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "train-0", "uid": "u-1",
    }  # fmt: skip
    assert (event["type"], event["reason"], event["source"]["host"]) == ("Warning", "GPUFailed", "n1")
    assert "XID 79" in event["message"]
    again = Node(api, tmp_path, "condition", "events")  # a new process of the exporter
    again.rows = node.rows
    again.now = node.now
    again.ticks(6)
    assert len(api.events) == 1


def test_refusal_is_one_log_line(api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(api, tmp_path)
    api.refused = True
    caplog.set_level(logging.INFO)
    turns, pauses = iter([False, False, False, False, True]), list[float]()
    stopped = cast("threading.Event", SimpleNamespace(wait=lambda seconds: pauses.append(seconds) or next(turns)))
    node.health.run(stopped)

    (said,) = [each.getMessage() for each in caplog.records if "kubernetes_node_health" in each.getMessage()]
    assert said.startswith("source kubernetes_node_health does not answer (refused): http://127.0.0.1:")
    assert pauses == [10, 10, 60, 60, 60]
