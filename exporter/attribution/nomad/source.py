"""Tasks of Nomad on this node, and the GPUs they were allocated, as its local agent reports them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from exporter.attribution.background_source import LAST_KNOWN_SECONDS, BackgroundSource, SourceError
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.containers.engines import Container
from exporter.attribution.containers.names import ContainerNames
from exporter.attribution.devices import DeviceName, Devices
from exporter.attribution.documents import Document, part, text
from exporter.attribution.nomad.agent import Agent, Task, offered, tasks
from exporter.attribution.owner import INFERRED, Owner
from exporter.attribution.ownership import SourceHealth, WorkloadInfo
from exporter.attribution.process_index import HOLD_SECONDS, FirstSeen, ProcessIndex
from exporter.attribution.source import Amounts, View, by_pid, own_cgroups
from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads

SOURCE = "nomad"
INTERVAL = 10.0
_ALLOCATION_LABEL = "com.hashicorp.nomad.alloc_id"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CONTAINER_NAME = re.compile(rf"(?P<task>.+)-(?P<allocation>{_UUID})")
"""Nomad's drivers for Docker and Podman call every container so."""
TaskName = tuple[str, str]
"""Allocation and task."""
_OFFERED_EVERY = 30
"""Questions between two about the node itself."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """By allocation and task; `offered` are the GPUs that Nomad allocates here."""

    tasks: Mapping[tuple[str, str], Task] = field(default_factory=dict[tuple[str, str], Task])
    offered: tuple[DeviceName, ...] = ()
    silent: bool = True
    """The agent has not reported for long, or never, or is not asked."""


class AgentPoller:
    """Asks the agent every few seconds, and when an allocation shows up that it has not reported."""

    def __init__(self, agent: Agent, *, interval: float = INTERVAL, clock: MonotonicClock = monotonic_time) -> None:
        self._agent = agent
        self._clock = clock
        self._node = ""
        self._offered: tuple[DeviceName, ...] = ()
        self._queries = 0
        self._poller = BackgroundSource(
            self._ask, AgentReport(), name="nomad", interval=lambda _: interval, clock=clock
        )

    def start(self, threads: Threads | None = None) -> None:
        self._poller.start(threads)

    def stop(self) -> None:
        self._poller.stop()

    def wake(self) -> None:
        self._poller.wake()

    def ask_once(self) -> None:
        """Ask now, in the caller's thread."""
        self._poller.ask_once()

    @property
    def error(self) -> str:
        """Why it did not answer, last; empty where it did."""
        return self._poller.answer.error

    def report(self, now: MonotonicTime) -> AgentReport:
        """Never waits. What the agent last reported counts for LAST_KNOWN_SECONDS after it fell silent."""
        answer = self._poller.answer
        stale = not answer.success and now - answer.at > LAST_KNOWN_SECONDS
        return AgentReport() if stale else answer.value

    def health(self, now: MonotonicTime) -> SourceHealth:
        return self._poller.health(SOURCE, now)

    def _ask(self) -> AgentReport:
        try:
            return self._read()
        except SourceError:
            self._node, self._queries = "", 0  # another agent may be there the next time
            raise

    def _read(self) -> AgentReport:
        if not self._node:
            self._node = _node_id(self._agent.get("/v1/agent/self"))
        if self._queries % _OFFERED_EVERY == 0:
            self._offered = offered(self._agent.get(f"/v1/node/{self._node}", {"stale": "true"}))
        self._queries += 1
        answer = self._agent.get(f"/v1/node/{self._node}/allocations", {"stale": "true"})
        if not isinstance(answer, list):
            raise SourceError("not a list of allocations")
        found = {(task.allocation, task.name): task for task in tasks(cast("Any", answer))}
        return AgentReport(found, self._offered, silent=False)


def _node_id(answer: Any) -> str:
    """Of the answer to /v1/agent/self. Raises SourceError where the agent is no client."""
    document = cast("Document", answer) if isinstance(answer, dict) else cast("Document", {})
    found = text(part(part(document, "stats"), "client"), "node_id")
    if not found or not found.replace("-", "").isalnum():
        raise SourceError("the agent is not a Nomad client")
    return found


class Nomad:
    """Names tasks by their cgroups, or by their containers' names; without an agent by the allocations' ids alone."""

    def __init__(self, containers: ContainerNames, agent: AgentPoller | None = None) -> None:
        self._containers = containers
        self._agent = agent
        self._first = FirstSeen()
        self.readers = (agent,) if agent else ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        report = self._agent.report(now) if self._agent else AgentReport()
        running = {
            group.cgroup: task
            for group in processes.groups
            if not group.cgroup.scheduled and (task := self._task(group.cgroup))
        }
        waiting = self._waiting(set(running.values()), report, now)
        owners = {task: _owner(task, report.tasks.get(task)) for task in {*running.values(), *report.tasks} - waiting}
        allocated = {
            owners[task]: amounts
            for task, known in report.tasks.items()
            if (amounts := _uuids(known, processes.devices))
        }
        return View(
            names=by_pid(
                (group, owners.get(task)) for group in processes.groups if (task := running.get(group.cgroup))
            ),
            allocated=allocated,
            offered=frozenset(target.uuid for name in report.offered for target in processes.devices.find(name)),
            info={owner: _info(report.tasks.get(task)) for task, owner in owners.items()},
            cgroups=own_cgroups(
                (owners[task], cgroup.container_path or cgroup.allocation_path)
                for cgroup, task in running.items()
                if task in owners
            ),
            unsure=frozenset(owners.values()) if report.silent else frozenset(),
            health=(self._agent.health(now),) if self._agent else (),
        )

    def _task(self, cgroup: Cgroup) -> TaskName | None:
        """Return the task that runs there."""
        container = self._containers.find(cgroup)
        task = task_of(container) if container else None
        if task:
            return task
        return (cgroup.allocation, cgroup.allocation_task) if cgroup.allocation and not cgroup.container else None

    def _waiting(self, running: set[TaskName], report: AgentReport, now: MonotonicTime) -> set[TaskName]:
        """Return the tasks that the agent has not reported yet; it is asked again."""
        unknown = running - report.tasks.keys() if self._agent else set[TaskName]()
        self._first.update(("/".join(task) for task in unknown), now)
        waiting = {task for task in unknown if self._first.age("/".join(task), now) < HOLD_SECONDS}
        if self._agent and waiting:
            self._agent.wake()
        return waiting


def task_of(container: Container) -> TaskName | None:
    """Return the task of a container of Docker or Podman, by its name; None for one that Nomad did not start."""
    name = _CONTAINER_NAME.fullmatch(container.name)
    labelled = dict(container.labels).get(_ALLOCATION_LABEL) or (name and name["allocation"])
    return (name["allocation"], name["task"]) if name and name["allocation"] == labelled else None


def _uuids(task: Task, devices: Devices) -> Amounts:
    return dict.fromkeys(target.uuid for name in task.devices for target in devices.find(name))


def _owner(name: TaskName, task: Task | None) -> Owner:
    """Return the owner of a task; of one that the agent does not report, the allocation's id is all there is."""
    short = name[0].partition("-")[0]
    return Owner(
        workload=f"nomad:{task.namespace}/{task.job}" if task else f"nomad:{short}",
        kind="nomad",
        namespace=task.namespace if task else "",
        container=f"{name[1]}-{short}",
    )


def _info(task: Task | None) -> WorkloadInfo:
    if task is None:
        return WorkloadInfo(trust=INFERRED)
    part_of = f"nomad:{task.namespace}/{task.parent}" if task.parent else ""
    return WorkloadInfo(owner_kind=task.type, part_of=part_of, restarts=task.restarts)
