"""A node whose reads hang: passes go on, what it said stands for a moment, and the health tells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership
from exporter.core.threads import Threads
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.node.unknown_node import UnknownNode
from exporter.sampling.node_deadline import NodeDeadline
from exporter.sampling.worker import Worker
from tests.attribution_kit.nodes import host_process, until

ALICE = Owner("process:x", "process", user="alice")


class Node(UnknownNode):
    """Reads of processes may be made to hang."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()

    def processes(self, pids: Sequence[int], now: float) -> Mapping[int, HostProcess]:
        del now
        self.go.wait(20)
        return {pid: host_process(pid, "") for pid in pids}

    def ownership(self, targets: object, pids: object, hosts: Mapping[int, HostProcess], now: float) -> Ownership:
        del targets, pids, now
        return Ownership(processes=dict.fromkeys(hosts, ALICE))


def test_read_that_hangs_costs_only_what_it_would_have_told() -> None:
    node, now = Node(), [0.0]
    under = NodeDeadline(node, 0.05, 10.0, clock=lambda: now[0])
    under.start(Threads())

    def one_pass() -> tuple[int, int, bool, float]:
        hosts = under.processes([7], 0.0)
        found = under.ownership((), {}, hosts, 0.0)
        return len(hosts), len(found.processes), found.health[-1].success, found.health[-1].age

    until(lambda: one_pass() == (1, 1, True, 0.0))
    node.go.clear()
    now[0] = 5.0
    assert one_pass() == (1, 1, False, 5.0)
    now[0] = 15.0
    assert one_pass() == (1, 1, False, 15.0)
    now[0] = 16.0
    assert one_pass() == (0, 0, False, 16.0)
    node.go.set()
    until(lambda: one_pass() == (1, 1, True, 0.0))
    under.stop()


def test_thread_of_the_node_has_its_name_in_the_series_of_threads() -> None:
    under, threads = NodeDeadline(Node(), 1.0, 10.0), Threads()
    under.start(threads)

    assert set(threads.states()) == {"node"}
    under.stop()


def test_machine_that_stood_still_forgets_nobody() -> None:
    """Its last answer is old, but it was not asked since: what it says stands for as long as after any late answer."""
    node, now = Node(), [0.0]
    under = NodeDeadline(node, 0.05, 10.0, clock=lambda: now[0])
    under.start(Threads())
    until(lambda: len(under.processes([7], 0.0)) == 1)

    node.go.clear()
    now[0] = 60.0
    first = len(under.processes([7], 0.0))
    now[0] = 71.0
    assert (first, len(under.processes([7], 0.0))) == (1, 0)
    node.go.set()
    until(lambda: len(under.processes([7], 0.0)) == 1)
    node.go.clear()
    now[0] = 75.0
    assert len(under.processes([7], 0.0)) == 1, "it is late anew"
    node.go.set()
    under.stop()


class Overdue:
    """A worker that is waited for until a call hangs."""

    def submit(self, ask: Callable[[], None]) -> bool:
        with suppress(TimeoutError):
            ask()
        return True

    def wait(self, deadline: float) -> None: ...


class Busy(Node):
    """Its cgroups may be made to hang."""

    hangs = False

    def usage(self, *_: object) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        if self.hangs:
            raise TimeoutError
        return {ALICE: HostUsage(cpu_seconds=1.0)}, {}


def test_use_of_the_host_that_hangs_costs_no_owner() -> None:
    node, now = Busy(), [0.0]
    under = NodeDeadline(node, 1.0, 10.0, clock=lambda: now[0])
    under._worker = cast("Worker[None]", Overdue())

    def one_pass(*pids: int) -> tuple[int, bool, int]:
        hosts = under.processes(pids, 0.0)
        found = under.ownership((), {}, hosts, 0.0)
        return len(found.processes), found.health[-1].success, len(under.usage(found, hosts, 0.0)[0])

    assert one_pass(7) == (1, True, 1)
    node.hangs = True
    assert one_pass(7, 8) == (2, False, 1)
    now[0] = 11.0
    assert one_pass(7, 8, 9) == (3, False, 0)
    node.hangs = False
    assert one_pass(7) == (1, True, 1)
