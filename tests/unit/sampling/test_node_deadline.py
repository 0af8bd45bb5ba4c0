"""A node whose reads hang: passes go on, what it said stands for a moment, and the health tells."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership
from exporter.host.model import HostProcess
from exporter.node.unknown_node import UnknownNode
from exporter.sampling.node_deadline import NodeDeadline
from exporter.threads.runner import Threads
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
    now[0] = 11.0
    assert one_pass() == (0, 0, False, 11.0)
    node.go.set()
    until(lambda: one_pass() == (1, 1, True, 0.0))
    under.stop()
