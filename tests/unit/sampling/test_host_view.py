"""A host whose reads hang: cycles go on, what it showed stands for a moment, and the health tells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from exporter.attribution.owner import Owner, Ownership
from exporter.collectors.base import Paced
from exporter.collectors.processes import GpuProcess, Processes
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.threads import Threads
from exporter.core.worker import Worker
from exporter.host.model import HostUsage
from exporter.sampling.host_view import HostDeadline, HostQuestion, HostView
from tests.attribution_kit.nodes import host_process, until

ALICE = Owner("process:x", "process", user="alice")


def question(*pids: int) -> HostQuestion:
    running = tuple(GpuProcess(pid, "GPU-0", None, {}) for pid in pids)
    listed = {"GPU-0": Processes(running, Paced(running, UnixTime(0.0)), None, 0)}
    return HostQuestion(Moment(UnixTime(0.0), MonotonicTime(0.0)), listed)


class ScriptedHost:
    """Reads of processes may be made to hang, and those of cgroups."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.cgroups_hang = False
        self.looked_at: list[tuple[int, ...]] = []

    def stages(self, question: HostQuestion) -> Iterator[HostView]:
        self.go.wait(20)
        processes = {pid: host_process(pid, "") for pid in question.pids}
        view = HostView(processes=processes, running={"GPU-0": question.listed["GPU-0"].running})
        yield view
        view = replace(view, ownership=Ownership(processes=dict.fromkeys(processes, ALICE)))
        yield view
        if self.cgroups_hang:
            raise TimeoutError
        yield replace(view, usage={ALICE: HostUsage(cpu_seconds=1.0)}, skipped_tasks=3)

    def reread(self, pids: Sequence[int]) -> None:
        self.go.wait(20)
        self.looked_at.append(tuple(pids))

    def start(self, threads: Threads) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing runs."""


def test_read_that_hangs_costs_only_what_it_would_have_told() -> None:
    host, now = ScriptedHost(), [0.0]
    under = HostDeadline(host, 0.05, 10.0, clock=lambda: now[0])
    under.start(Threads())

    def one_cycle() -> tuple[int, int, bool, float]:
        found = under.view(question(7))
        health = found.ownership.health[-1]
        return len(found.processes), len(found.ownership.processes), health.success, health.age

    until(lambda: one_cycle() == (1, 1, True, 0.0))
    host.go.clear()
    now[0] = 5.0
    assert one_cycle() == (1, 1, False, 5.0)
    now[0] = 15.0
    assert one_cycle() == (1, 1, False, 15.0)
    now[0] = 16.0
    assert one_cycle() == (0, 0, False, 16.0)
    host.go.set()
    until(lambda: one_cycle() == (1, 1, True, 0.0))
    under.stop()


def test_host_that_hangs_leaves_running_processes_to_the_drivers_lists() -> None:
    host = ScriptedHost()
    under = HostDeadline(host, 0.05, 10.0, clock=lambda: MonotonicTime(0.0))
    under.start(Threads())
    until(lambda: under.view(question(7)).running is not None)

    host.go.clear()

    assert under.view(question(7, 8)).running is None
    host.go.set()
    under.stop()


def test_thread_of_the_host_has_its_name_in_the_series_of_threads() -> None:
    under, threads = HostDeadline(ScriptedHost(), 1.0, 10.0), Threads()
    under.start(threads)

    assert set(threads.states()) == {"node"}
    under.stop()


def test_machine_that_stood_still_forgets_nobody() -> None:
    """Its last answer is old, but it was not asked since: what it says stands for as long as after any late answer."""
    host, now = ScriptedHost(), [0.0]
    under = HostDeadline(host, 0.05, 10.0, clock=lambda: now[0])
    under.start(Threads())

    def shown() -> int:
        return len(under.view(question(7)).processes)

    until(lambda: shown() == 1)
    host.go.clear()
    now[0] = 60.0
    first = shown()
    now[0] = 71.0
    assert (first, shown()) == (1, 0)
    host.go.set()
    until(lambda: shown() == 1)
    host.go.clear()
    now[0] = 75.0
    assert shown() == 1, "it is late anew"
    host.go.set()
    under.stop()


class Overdue:
    """A worker that is waited for until a call hangs."""

    def submit(self, ask: Callable[[], None]) -> bool:
        with suppress(TimeoutError):
            ask()
        return True

    def wait(self, deadline: float) -> None: ...


def test_use_of_the_host_that_hangs_costs_no_owner() -> None:
    host, now = ScriptedHost(), [0.0]
    under = HostDeadline(host, 1.0, 10.0, clock=lambda: now[0])
    under._worker = cast("Worker[None]", Overdue())

    def one_cycle(*pids: int) -> tuple[int, bool, int, int]:
        found = under.view(question(*pids))
        owners = found.ownership
        return len(owners.processes), owners.health[-1].success, len(found.usage), found.skipped_tasks

    assert one_cycle(7) == (1, True, 1, 3)
    host.cgroups_hang = True
    assert one_cycle(7, 8) == (2, False, 1, 3)
    now[0] = 11.0
    assert one_cycle(7, 8, 9) == (3, False, 0, 3)
    host.cgroups_hang = False
    assert one_cycle(7) == (1, True, 1, 3)


def test_look_that_hangs_holds_up_nobody() -> None:
    host = ScriptedHost()
    under = HostDeadline(host, 0.05, 10.0)
    under.reread([10])
    under.start(Threads())
    host.go.clear()
    under.reread([11])
    under.reread([12])
    assert host.looked_at == []

    host.go.set()
    until(lambda: host.looked_at == [(11,)])
    under.stop()
