"""Real programs that keep a GPU waiting, told apart by the real /proc, cgroups and PSI of this machine.

The GPU itself is constructed: its utilization is what a driver would say of such a program.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from operator import sub
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner, Ownership, Target
from exporter.core.clock import MonotonicTime, UnixTime
from exporter.core.units import Fraction
from exporter.host.process import ProcessReader
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import STATES
from exporter.ledger.states.state import Signals
from exporter.sampling.usage.host_reader import HostReader
from tests.e2e.causes import CGROUPFS, Cgroup, cgroup, data_on_disk, running, wait_until_blocked

OWNER = Owner(workload="slurm:42", kind="slurm", slurm_job="42")
INTERVAL, CYCLES, LOOKS = 0.5, 6, 12


WARM = 25
"""Cycles of a second that ranks are compared over before one is named."""


def settle(
    pids: Sequence[int], busy: Sequence[float], own: Cgroup | None = None, work: str = "", extra: int = 0
) -> dict[str, float]:
    """Seconds of the owner by state, over cycles in which each process had a GPU that was busy for so much of it.

    In each cycle the processes are read again `extra` times.
    """
    processes, host = ProcessReader(), HostReader(cgroupfs=CGROUPFS)
    ownership = Ownership(processes=dict.fromkeys(pids, OWNER), cgroups={OWNER: own.path} if own else {})
    readings = tuple(
        Reading(Target(f"GPU-{index}", index, ""), Signals(busy=share), (Allocation(OWNER, Fraction(1), (pid,)),))
        for index, (pid, share) in enumerate(zip(pids, busy, strict=True))
    )
    ledger, before = Ledger(), None
    began: Sequence[float] = ()
    for _ in range(CYCLES + 1):
        now = MonotonicTime(time.monotonic())
        found = {pid: process for pid in pids if (process := processes.read(pid)) is not None}
        _, signals = host.read(ownership, found, now)
        seconds = 0.0 if before is None else now - before
        step = LedgerInput(
            time=UnixTime(time.time()),
            seconds=seconds,
            interval=5.0,
            readings=readings,
            hosts=signals,
            work={OWNER: work},
        )
        if before is None:  # the past of the ranks, without waiting for it
            for _ in range(WARM):
                ledger = advance_ledger(ledger, replace(step, seconds=1.0))
            began = ledger.owners[OWNER].seconds
        ledger, before = advance_ledger(ledger, step), now
        for _ in range(extra):
            time.sleep(INTERVAL / (extra + 1))
            host.threads.reread(pids)
        time.sleep(INTERVAL / (extra + 1))  # the pace of the sampler: what is measured is the time between two cycles
    return dict(zip(STATES, map(sub, ledger.owners[OWNER].seconds, began), strict=True))


def mostly(pids: Sequence[int], busy: Sequence[float], *states: str, own: Cgroup | None = None, work: str = "") -> None:
    """What was lost was lost to these states, and something to the first. Where the machine stalled it is looked again.

    The kernel tells what a thread waited for a CPU only once it has one, so a stall hides what it waited for.
    """
    for _ in range(LOOKS):
        seconds = settle(pids, busy, own, work)
        if seconds[states[0]] > 0 and sum(share_of_lost(seconds, state) for state in states) >= 0.8:
            return
    raise AssertionError(f"{states}: {seconds}")


def share_of_lost(seconds: dict[str, float], state: str) -> float:
    lost = sum(seconds.values()) - seconds["computing"]
    assert lost > 0
    return seconds[state] / lost


def test_one_full_thread_is_a_wait_for_cpu() -> None:
    with running("burn") as pid:
        mostly([pid], [0.3], "wait_cpu")


def test_program_at_its_cpu_quota_waits_for_cpu() -> None:
    with cgroup("quota") as own:
        own.limit_cpu(0.2)
        with running("burn", within=own) as pid:
            mostly([pid], [0.3], "wait_cpu", own=own)


def test_reading_from_a_slowed_disk_is_a_wait_for_storage(tmp_path: Path) -> None:
    with cgroup("slow") as own:
        own.slow_disk_of(tmp_path, 2 << 20)
        with running("read", str(data_on_disk(tmp_path)), within=own) as pid:
            mostly([pid], [0.2], "wait_storage", own=own)


def test_writing_to_a_slowed_disk_is_a_wait_for_a_checkpoint(tmp_path: Path) -> None:
    with cgroup("slow-write") as own:
        own.slow_disk_of(tmp_path, 8 << 20, writes=True)
        with running("write", str(tmp_path / "checkpoint"), within=own) as pid:
            mostly([pid], [0.2], "wait_checkpoint", "wait_storage", own=own)  # the latter until it is seen to write


def test_process_in_d_state_waits_for_storage_also_without_psi() -> None:
    with running("blocked") as pid:
        wait_until_blocked(pid)
        mostly([pid], [0.0], "wait_storage")


def test_sleeping_program_waits_for_something_else() -> None:
    with running("sleep") as pid:
        mostly([pid], [0.1], "wait_other")


def test_rank_in_a_receive_waits_for_the_one_beside_it_that_prepares_data() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        with running("burn") as late, running("receive", port) as waiting:
            mostly([late, waiting], [0.2, 0.05], "wait_peer", "wait_cpu")


def test_rank_that_waits_for_its_sibling_waits_for_its_peer() -> None:
    """The working rank's launching thread is full, as in training; the waiting one must not be blamed for it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with running("serve", port) as working, running("follow", port) as waiting:
        mostly([working, waiting], [1.0, 0.05], "wait_peer")


def test_processes_without_a_connection_are_runs_that_do_not_wait_for_each_other() -> None:
    with running("burn") as working, running("sleep") as waiting:
        mostly([working, waiting], [1.0, 0.05], "wait_other")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


@contextmanager
def requests(port: str) -> Iterator[None]:
    """Send 20 requests a second, and read the answers, from outside of the job."""
    ended = threading.Event()

    def send() -> None:
        with socket.create_connection(("127.0.0.1", int(port))) as server:
            while not ended.wait(0.05):
                server.sendall(b"request")
                server.recv(4096)

    client = threading.Thread(target=send)
    client.start()
    try:
        yield
    finally:
        ended.set()
        client.join()


@pytest.mark.parametrize("neighbours", [0, 3])
def test_polling_server_under_light_traffic_is_not_short_of_cpu(neighbours: int) -> None:
    """A thread of it is full, whatever it serves. The neighbours fill the CPUs of the host."""
    port = free_port()
    with cgroup("server") as own, running("poll", port, within=own) as pid, requests(port), ExitStack() as crowd:
        for _ in range(neighbours):
            crowd.enter_context(running("burn"))
        mostly([pid], [0.3], "wait_requests", own=own, work="service")


def test_rank_in_an_exchange_over_tcp_waits_for_its_peer() -> None:
    """As in gloo: one rank sits in a receive from the other for most of each step, and no network is slow."""
    port = free_port()
    with running("lead", port) as leader, running("rank", port) as receiver:
        mostly([leader, receiver], [0.3, 0.3], "wait_peer", "wait_other")


def test_d_state_for_half_of_the_time_is_found_by_reads_inside_the_cycle() -> None:
    with running("blinks") as pid:
        for _ in range(LOOKS):
            seconds = settle([pid], [0.05], extra=4)
            if 0.3 <= share_of_lost(seconds, "wait_storage") <= 0.7:
                return
    raise AssertionError(seconds)


def test_turns_of_cpu_and_storage_leave_no_wait_unexplained() -> None:
    """A save: copies, then `fsync`, in turns shorter than a cycle."""
    with running("saves") as pid:
        for _ in range(LOOKS):
            seconds = settle([pid], [0.05], extra=4)
            parts = [share_of_lost(seconds, state) for state in ("wait_storage", "wait_cpu")]
            if min(parts) >= 0.25 and sum(parts) >= 0.8:
                return
    raise AssertionError(seconds)


@pytest.mark.parametrize(
    ("code", "state"), [("for _ in range(10**7): pass", "wait_cpu"), ("import time; time.sleep(0.4)", "wait_other")]
)
def test_work_in_one_child_after_the_other_is_a_wait_for_cpu(code: str, state: str) -> None:
    """A compilation: no process lives long enough to be seen as full. Children that sleep are no work."""
    with cgroup("compile") as own, running("compile", code, within=own) as pid:
        used, began = cpu_with_children(pid), time.monotonic()
        for _ in range(LOOKS):
            seconds = settle([pid], [0.05], own)
            if share_of_lost(seconds, state) >= 0.8:
                return
        cores = (cpu_with_children(pid) - used) / (time.monotonic() - began)
    if state == "wait_cpu" and cores < 0.95:
        pytest.skip(f"the machine is busy: the children had {cores:.2f} of a core, and need a whole one")
    raise AssertionError(seconds)


def cpu_with_children(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
