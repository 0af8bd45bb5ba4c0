"""Nomad on this node: what its local agent reports of the tasks that run here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from exporter.attribution.background_source import LAST_KNOWN_SECONDS, BackgroundSource, SourceError
from exporter.attribution.devices import DeviceName
from exporter.attribution.documents import Document, part, text
from exporter.attribution.nomad.agent import Agent
from exporter.attribution.nomad.allocation import Task, offered, tasks
from exporter.attribution.ownership import SourceHealth
from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads

SOURCE = "nomad"
INTERVAL = 10.0
_OFFERED_EVERY = 30
"""Questions between two about the node itself."""


@dataclass(frozen=True, slots=True)
class NomadView:
    """By allocation and task; `offered` are the GPUs that Nomad gives out here."""

    tasks: Mapping[tuple[str, str], Task] = field(default_factory=dict[tuple[str, str], Task])
    offered: tuple[DeviceName, ...] = ()
    silent: bool = True
    """The agent has not reported for long, or never, or is not asked."""


class Nomad:
    """Asks every few seconds, and when an allocation shows up that it has not reported."""

    def __init__(self, agent: Agent, *, interval: float = INTERVAL, clock: MonotonicClock = monotonic_time) -> None:
        self._agent = agent
        self._clock = clock
        self._node = ""
        self._offered: tuple[DeviceName, ...] = ()
        self._queries = 0
        self._poller = BackgroundSource(self._ask, NomadView(), name="nomad", interval=lambda _: interval, clock=clock)

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

    def view(self, now: MonotonicTime) -> NomadView:
        """Never waits. What the agent last reported counts for LAST_KNOWN_SECONDS after it fell silent."""
        answer = self._poller.answer
        stale = not answer.success and now - answer.at > LAST_KNOWN_SECONDS
        return NomadView() if stale else answer.value

    def health(self, now: MonotonicTime, conflicts: int = 0) -> Iterator[SourceHealth]:
        yield self._poller.health(SOURCE, now, conflicts)

    def _ask(self) -> NomadView:
        try:
            return self._read()
        except SourceError:
            self._node, self._queries = "", 0  # another agent may be there the next time
            raise

    def _read(self) -> NomadView:
        if not self._node:
            self._node = _node_id(self._agent.get("/v1/agent/self"))
        if self._queries % _OFFERED_EVERY == 0:
            self._offered = offered(self._agent.get(f"/v1/node/{self._node}", {"stale": "true"}))
        self._queries += 1
        answer = self._agent.get(f"/v1/node/{self._node}/allocations", {"stale": "true"})
        if not isinstance(answer, list):
            raise SourceError("not a list of allocations")
        found = {(task.allocation, task.name): task for task in tasks(cast("Any", answer))}
        return NomadView(found, self._offered, silent=False)


def _node_id(answer: Any) -> str:
    """Of the answer to /v1/agent/self. Raises SourceError where the agent is no client."""
    document = cast("Document", answer) if isinstance(answer, dict) else cast("Document", {})
    found = text(part(part(document, "stats"), "client"), "node_id")
    if not found or not found.replace("-", "").isalnum():
        raise SourceError("the agent is not a Nomad client")
    return found
