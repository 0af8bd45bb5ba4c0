"""Nomad's agent as far as it is asked: a real HTTP server.

Fields, types and nulls are those of Nomad's API pages (nodes, allocations, agent) and of its published models.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NODE = "4d2ba53b-e0b1-4f5c-9a0e-6f1f3f2f7c9d"
ALLOCATION = "8c21e7b5-6a50-4e0b-9d6c-5f1a4a0f8d11"
_RESOURCES: Mapping[str, Any] = {
    "Cpu": {"CpuShares": 500, "ReservedCores": None},
    "Memory": {"MemoryMB": 300, "MemoryMaxMB": 0},
    "Networks": None,
}
_STATE: Mapping[str, Any] = {
    "State": "running",
    "Failed": False,
    "Restarts": 2,
    "LastRestart": "2026-11-21T14:40:22.1Z",
    "StartedAt": "2026-11-21T14:40:38.4Z",
    "FinishedAt": None,
    "Events": [{"Type": "Started", "Time": 1795272038400000000, "Details": {}, "ExitCode": 0}],
    "TaskHandle": None,
}


def allocation(
    job: str, tasks: Mapping[str, list[str]], identity: str = ALLOCATION, status: str = "running", **more: Any
) -> dict[str, Any]:
    """An allocation with the GPUs of each of its tasks."""
    devices = {
        name: [{"Vendor": "nvidia", "Type": "gpu", "Name": "H100 80GB HBM3", "DeviceIDs": uuids}] if uuids else None
        for name, uuids in tasks.items()
    }
    return {
        "ID": identity,
        "Namespace": "default",
        "Name": f"{job}.group[0]",
        "NodeID": NODE,
        "JobID": job,
        "Job": {"ID": job, "Name": job, "Type": "batch", "ParentID": "", "Namespace": "default"},
        "TaskGroup": "group",
        "AllocatedResources": {
            "Tasks": {name: {**_RESOURCES, "Devices": given} for name, given in devices.items()},
            "Shared": {"Networks": None, "DiskMB": 300, "Ports": None},
        },
        "TaskStates": dict.fromkeys(tasks, _STATE),
        "DesiredStatus": "run",
        "ClientStatus": status,
        **more,
    }


def node(uuids: list[str]) -> dict[str, Any]:
    place = {"Healthy": True, "HealthDescription": "", "Locality": {"PciBusID": "00000000:1A:00.0"}}
    model = {"Vendor": "nvidia", "Type": "gpu", "Name": "H100 80GB HBM3", "Attributes": {"memory": {"Int": 81559}}}
    groups = [{**model, "Instances": [{"ID": uuid, **place} for uuid in uuids]}]
    return {"ID": NODE, "NodeResources": {"Cpu": {"CpuShares": 64000}, "Devices": groups}}


class NomadAgent:
    """Answers by path; a value of bytes is sent as it is. `token` is what it wants, where it wants one."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.answers: dict[str, Any] = {
            "/v1/agent/self": {"stats": {"client": {"node_id": NODE}}},
            f"/v1/node/{NODE}": node([]),
            f"/v1/node/{NODE}/allocations": [],
        }
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def runs(self, *allocations: Any) -> None:
        self.answers[f"/v1/node/{NODE}/allocations"] = list(allocations)

    def offers(self, *uuids: str) -> None:
        self.answers[f"/v1/node/{NODE}"] = node(list(uuids))

    def __enter__(self) -> NomadAgent:  # noqa: PYI034 - Self is newer than our oldest Python
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(agent) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = agent.answers.get(self.path.partition("?")[0])
                if agent.token and self.headers.get("X-Nomad-Token") != agent.token:
                    self._say(403, b"Permission denied")
                elif found is None:
                    self._say(404, b"node not found")
                else:
                    self._say(200, found if isinstance(found, bytes) else json.dumps(found).encode())

            def _say(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler
