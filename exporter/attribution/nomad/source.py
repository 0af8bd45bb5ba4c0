"""Tasks of Nomad on this node, and the GPUs they were allocated, as its local agent reports them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from exporter.attribution.background_source import LAST_KNOWN_SECONDS, BackgroundSource, SourceError
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.containers.engines import Container
from exporter.attribution.containers.source import ContainerNames
from exporter.attribution.devices import DeviceName, device_of
from exporter.attribution.documents import MAX_BYTES, Document, items, objects, part, parts, text
from exporter.attribution.owner import INFERRED, Owner, WorkloadInfo
from exporter.attribution.source import Amounts, FirstSeen, ProcessIndex, View, by_pid, own_cgroups
from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.record import record
from exporter.core.site_file import read_bytes
from exporter.host.text import bounded, count

if TYPE_CHECKING:
    import http.client


_SECONDS = 10.0
_CHUNK_BYTES = 1 << 16
_MAX_TOKEN_BYTES = 4096
_OK = 200


@dataclass(frozen=True, slots=True)
class Agent:
    """Address and credentials. The token is read again for each question: tokens rotate."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    deadline: float = _SECONDS

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Return the answer's JSON. Raises SourceError and OSError."""
        import http.client  # noqa: PLC0415 - OpenSSL, and all of mail, are loaded where there is Nomad

        parts = urlsplit(self.url)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            import ssl  # noqa: PLC0415 - the same

            context = ssl.create_default_context(
                cadata=read_bytes(self.ca_file).decode("ascii", "ignore") if self.ca_file else None
            )
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=self.deadline, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.deadline)
        try:
            connection.request("GET", f"{path}?{urlencode(parameters or {})}", headers=self._request_headers())
            response = connection.getresponse()
            content = _read_answer(response, self.deadline)
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

    def _request_headers(self) -> Mapping[str, str]:
        if not self.token_file:
            return {}
        token = read_bytes(self.token_file, _MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
        if not token.isprintable():
            raise SourceError(f"{self.token_file}: not a token")
        return {"X-Nomad-Token": token}


def _read_answer(response: http.client.HTTPResponse, seconds: float) -> bytes:
    """Return all of an answer that ends within the deadline."""
    found, began = bytearray(), monotonic_time()
    while chunk := response.read1(_CHUNK_BYTES):
        found += chunk
        if len(found) > MAX_BYTES:
            raise SourceError(f"an answer of more than {MAX_BYTES} bytes")
        if monotonic_time() - began > seconds:
            raise SourceError("an answer that does not end")
    return bytes(found)


TYPES = ("service", "batch", "system", "sysbatch")
"""Nomad's types of jobs."""
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
    """Periodic or dispatched job that it is a run of."""
    type: str = ""
    devices: tuple[DeviceName, ...] = ()
    restarts: int | None = None


def tasks(answer: Any) -> tuple[Task, ...]:
    """Return the tasks that run or are about to, from the answer to /v1/node/ID/allocations."""
    allocations = objects(answer)[:_MAX_ALLOCATIONS]
    return tuple(task for each in allocations if text(each, "ClientStatus") in _RUNS for task in _tasks_of(each))


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
            devices=tuple(
                found
                for devices in parts(part(given, name), "Devices")
                if text(devices, "Type") == "gpu"
                for found in _device_names(items(devices.get("DeviceIDs")))
            ),
            restarts=count(part(states, name).get("Restarts")),
        )


def offered(answer: Any) -> tuple[DeviceName, ...]:
    """Return the GPUs that Nomad may allocate here, from the answer to /v1/node/ID."""
    groups = parts(part(answer, "NodeResources"), "Devices")
    return tuple(
        name
        for group in groups
        if text(group, "Type") == "gpu"
        for name in _device_names([each.get("ID") for each in parts(group, "Instances")])
    )


def _device_names(ids: Iterable[Any]) -> Iterator[DeviceName]:
    return (found for each in ids if isinstance(each, str) and (found := device_of(each)))


SOURCE = "nomad"
INTERVAL_SECONDS = 10.0
_ALLOCATION_LABEL = "com.hashicorp.nomad.alloc_id"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CONTAINER_NAME = re.compile(rf"(?P<task>.+)-(?P<allocation>{_UUID})")
"""Name of every container of Nomad's drivers for Docker and Podman."""
TaskName = tuple[str, str]
"""Id of the allocation, and task."""
_OFFERED_EVERY = 30
"""Questions between two questions about the agent and its node: Nomad still answers for a node of the past."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """Tasks by allocation and name; `offered` are the GPUs that Nomad allocates here."""

    tasks: Mapping[tuple[str, str], Task] = field(default_factory=dict[tuple[str, str], Task])
    offered: tuple[DeviceName, ...] = ()
    silent: bool = True
    """True if the agent has not reported for long, or never, or is not asked."""


class AgentPoller(BackgroundSource[AgentReport]):
    """Questions to the agent every few seconds, and when an allocation shows up that it has not reported."""

    def __init__(
        self, agent: Agent, *, interval: float = INTERVAL_SECONDS, clock: MonotonicClock = monotonic_time
    ) -> None:
        super().__init__(self._ask_agent, AgentReport(), name=SOURCE, interval=lambda _: interval, clock=clock)
        self._agent = agent
        self._node = ""
        self._offered: tuple[DeviceName, ...] = ()
        self._queries = 0

    def report(self, now: MonotonicTime) -> AgentReport:
        """Return the last report. It counts for LAST_KNOWN_SECONDS after the agent fell silent."""
        stale = not self.answer.success and now - self.answer.at > LAST_KNOWN_SECONDS
        return AgentReport() if stale else self.answer.value

    def _ask_agent(self) -> AgentReport:
        try:
            return self._read()
        except (SourceError, OSError):
            self._queries = 0  # another agent may be there the next time
            raise

    def _read(self) -> AgentReport:
        if self._queries % _OFFERED_EVERY == 0:
            node = text(part(part(self._agent.get("/v1/agent/self"), "stats"), "client"), "node_id")
            if not node or not node.replace("-", "").isalnum():
                raise SourceError("the agent is not a Nomad client")
            self._node = node
            self._offered = offered(self._agent.get(f"/v1/node/{self._node}", {"stale": "true"}))
        self._queries += 1
        answer = self._agent.get(f"/v1/node/{self._node}/allocations", {"stale": "true"})
        if not isinstance(answer, list):
            raise SourceError("not a list of allocations")
        found = {(task.allocation, task.name): task for task in tasks(answer)}
        return AgentReport(found, self._offered, silent=False)


class Nomad:
    """Tasks by their cgroups, or by their containers' names; without an agent by the allocations' ids alone."""

    def __init__(self, containers: ContainerNames, agent: AgentPoller | None = None) -> None:
        self._containers = containers
        self._agent = agent
        self._first = FirstSeen()
        self._known: Mapping[TaskName, Task] = {}
        """Last report of each task that runs: it may outlive the agent's answers, and its allocation."""
        self.readers = (agent,) if agent else ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        report = self._agent.report(now) if self._agent else AgentReport()
        running = {
            group.cgroup: task
            for group in processes.groups
            if not group.cgroup.scheduled and (task := self._running_task(group.cgroup))
        }
        known = {**self._known, **report.tasks}
        self._known = {task: known[task] for task in running.values() if task in known}
        unknown = set(running.values()) - known.keys() if self._agent else set[TaskName]()
        waiting = self._first.recent(unknown, now)
        if self._agent and waiting:
            self._agent.wake()
        owners = {task: _task_owner(task, known.get(task)) for task in {*running.values(), *report.tasks} - waiting}
        allocated: dict[Owner, Amounts] = {
            owners[task]: amounts
            for task, given in report.tasks.items()
            if (amounts := dict.fromkeys(each.uuid for name in given.devices for each in processes.devices.find(name)))
        }
        return View(
            names=by_pid(
                (group, owners.get(task)) for group in processes.groups if (task := running.get(group.cgroup))
            ),
            allocated=allocated,
            offered=frozenset(target.uuid for name in report.offered for target in processes.devices.find(name)),
            info={owner: _task_info(known.get(task)) for task, owner in owners.items()},
            cgroups=own_cgroups(
                (owners[task], cgroup.container_path or cgroup.allocation_path)
                for cgroup, task in running.items()
                if task in owners
            ),
            unsure=frozenset(owners.values()) if report.silent else frozenset(),
            health=(self._agent.health(SOURCE, now),) if self._agent else (),
        )

    def _running_task(self, cgroup: Cgroup) -> TaskName | None:
        """Return the task that runs there."""
        container = self._containers.find(cgroup)
        task = task_of(container) if container else None
        if task:
            return task
        return (cgroup.allocation, cgroup.allocation_task) if cgroup.allocation and not cgroup.container else None


def task_of(container: Container) -> TaskName | None:
    """Return the task of a container of Docker or Podman, by its name; None for one that Nomad did not start."""
    name = _CONTAINER_NAME.fullmatch(container.name)
    labelled = dict(container.labels).get(_ALLOCATION_LABEL) or (name and name["allocation"])
    return (name["allocation"], name["task"]) if name and name["allocation"] == labelled else None


def _task_owner(name: TaskName, task: Task | None) -> Owner:
    """Return the owner of a task; of one that the agent does not report, the allocation's id is all there is."""
    short = name[0].partition("-")[0]
    return Owner(
        workload=f"nomad:{task.namespace}/{task.job}" if task else f"nomad:{short}",
        kind="nomad",
        namespace=task.namespace if task else "",
        container=f"{name[1]}-{short}",
    )


def _task_info(task: Task | None) -> WorkloadInfo:
    if task is None:
        return WorkloadInfo(trust=INFERRED)
    part_of = f"nomad:{task.namespace}/{task.parent}" if task.parent else ""
    return WorkloadInfo(owner_kind=task.type, part_of=part_of, restarts=task.restarts)
