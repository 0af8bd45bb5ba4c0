"""Asking Nomad's local agent over HTTP: a token, a deadline for the whole answer, and a bound on its size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urlsplit

from exporter.attribution.background_source import SourceError
from exporter.attribution.devices import DeviceName, device_of
from exporter.attribution.documents import MAX_BYTES, Document, part, parts, text
from exporter.core.clock import monotonic_time
from exporter.core.record import record
from exporter.host.text import bounded, count

if TYPE_CHECKING:
    import http.client

_SECONDS = 10.0
_CHUNK = 1 << 16
_MAX_TOKEN = 4096
_OK = 200


@dataclass(frozen=True, slots=True)
class Agent:
    """Where it is and how to be let in. The token is read again for each question: tokens rotate."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    deadline: float = _SECONDS

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON. Raises SourceError and OSError."""
        import http.client  # noqa: PLC0415 - OpenSSL, and all of mail, are loaded where there is Nomad

        parts = urlsplit(self.url)
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        try:
            connection.request("GET", f"{path}?{urlencode(parameters or {})}", headers=self._headers())
            response = connection.getresponse()
            content = _whole(response, self.deadline)
        except http.client.HTTPException as error:
            raise SourceError(f"{self.url}: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if response.status != _OK:
            message = bounded(content[:200].decode("utf-8", "replace")).strip()
            raise SourceError(f"{self.url}{path}: HTTP {response.status} {message}".rstrip())
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise SourceError(f"{self.url}{path}: not JSON") from None

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        import http.client  # noqa: PLC0415 - the same
        import ssl  # noqa: PLC0415 - the same

        if scheme == "https":
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
            return http.client.HTTPSConnection(host, port, timeout=self.deadline, context=context)
        return http.client.HTTPConnection(host, port, timeout=self.deadline)

    def _headers(self) -> Mapping[str, str]:
        if not self.token_file:
            return {}
        with self.token_file.open("rb") as file:
            token = file.read(_MAX_TOKEN).decode("ascii", "replace").strip()
        if not token.isprintable():
            raise SourceError(f"{self.token_file}: not a token")
        return {"X-Nomad-Token": token}


def _whole(response: http.client.HTTPResponse, seconds: float) -> bytes:
    """All of it, however slowly it comes, within the deadline."""
    found, began = bytearray(), monotonic_time()
    while chunk := response.read1(_CHUNK):
        found += chunk
        if len(found) > MAX_BYTES:
            raise SourceError(f"an answer of more than {MAX_BYTES} bytes")
        if monotonic_time() - began > seconds:
            raise SourceError("an answer that does not end")
    return bytes(found)


TYPES = ("service", "batch", "system", "sysbatch")
"""What Nomad calls the types of its jobs."""
_RUNS = ("running", "pending")
_MAX_ALLOCATIONS = 4096


@record
class Task:
    """One task of one allocation."""

    allocation: str
    name: str
    namespace: str
    job: str
    parent: str = ""
    """Of a run of a periodic or dispatched job: that job."""
    type: str = ""
    devices: tuple[DeviceName, ...] = ()
    restarts: int | None = None


def tasks(answer: Any) -> tuple[Task, ...]:
    """Of the answer to /v1/node/ID/allocations: tasks of what runs or is about to; anything else is left out."""
    listed = cast("Sequence[Any]", answer) if isinstance(answer, list) else ()
    documents = [cast("Document", each) for each in listed[:_MAX_ALLOCATIONS] if isinstance(each, dict)]
    return tuple(task for each in documents if text(each, "ClientStatus") in _RUNS for task in _tasks_of(each))


def _tasks_of(allocation: Document) -> Iterator[Task]:
    job, states = part(allocation, "Job"), part(allocation, "TaskStates")
    identity, called = text(allocation, "ID").lower(), text(allocation, "JobID")
    if not identity or not called:
        return
    kind = text(job, "Type")
    given = part(part(allocation, "AllocatedResources"), "Tasks")
    for name in given:
        yield Task(
            allocation=identity,
            name=bounded(name),
            namespace=text(allocation, "Namespace") or "default",
            job=called,
            parent=text(job, "ParentID"),
            type=kind if kind in TYPES else "",
            devices=tuple(_gpus(part(given, name))),
            restarts=count(part(states, name).get("Restarts")),
        )


def _gpus(resources: Document) -> Iterator[DeviceName]:
    for devices in parts(resources, "Devices"):
        if text(devices, "Type") == "gpu":
            yield from _device_names(devices.get("DeviceIDs"))


def offered(answer: Any) -> tuple[DeviceName, ...]:
    """GPUs that Nomad may give out here, of the answer to /v1/node/ID."""
    node = cast("Document", answer) if isinstance(answer, dict) else cast("Document", {})
    groups = parts(part(node, "NodeResources"), "Devices")
    return tuple(
        name
        for group in groups
        if text(group, "Type") == "gpu"
        for name in _device_names([each.get("ID") for each in parts(group, "Instances")])
    )


def _device_names(ids: Any) -> Iterator[DeviceName]:
    listed = cast("Sequence[Any]", ids) if isinstance(ids, list) else ()
    for each in listed:
        found = device_of(each) if isinstance(each, str) else None
        if found:
            yield found
