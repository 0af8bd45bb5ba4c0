"""Tasks that run on this node, and the GPUs Nomad gave them, from its agent's answers; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from exporter.attribution.devices import DeviceName, kubernetes_device
from exporter.attribution.documents import Document, part, parts, text
from exporter.core.record import record
from exporter.host.text import bounded, count

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
    return tuple(task for each in documents if text(each, "ClientStatus") in _RUNS for task in _of(each))


def _of(allocation: Document) -> Iterator[Task]:
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
            devices=tuple(_given(part(given, name))),
            restarts=count(part(states, name).get("Restarts")),
        )


def _given(resources: Document) -> Iterator[DeviceName]:
    for devices in parts(resources, "Devices"):
        if text(devices, "Type") == "gpu":
            yield from _named(devices.get("DeviceIDs"))


def offered(answer: Any) -> tuple[DeviceName, ...]:
    """GPUs that Nomad may give out here, of the answer to /v1/node/ID."""
    node = cast("Document", answer) if isinstance(answer, dict) else cast("Document", {})
    groups = parts(part(node, "NodeResources"), "Devices")
    return tuple(
        name
        for group in groups
        if text(group, "Type") == "gpu"
        for name in _named([each.get("ID") for each in parts(group, "Instances")])
    )


def _named(ids: Any) -> Iterator[DeviceName]:
    listed = cast("Sequence[Any]", ids) if isinstance(ids, list) else ()
    for each in listed:
        found = kubernetes_device(each) if isinstance(each, str) else None
        if found:
            yield found
