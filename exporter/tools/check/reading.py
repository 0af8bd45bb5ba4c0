"""One read of this node's GPUs, in a process of its own: a driver that hangs leaves a verdict, not a hanging check."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.attribution import cgroup
from exporter.attribution.families import workload_families
from exporter.attribution.owner import Owner, Ownership
from exporter.collectors.base import AnyCollector
from exporter.core.clock import MonotonicTime, monotonic_time, unix_time
from exporter.core.threads import Threads
from exporter.driver.interface import Driver
from exporter.faults.facts import from_blocks, to_json
from exporter.faults.watch import FaultWatch
from exporter.host import process, rdma
from exporter.host.network_ports import PortWatch
from exporter.host.pci import pci_gpus
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import Host, HostQuestion, HostView
from exporter.sampling.sampler import Pacing, Sampler
from exporter.sampling.usage.network_port_source import seats
from exporter.sampling.xids import past_xids
from exporter.tools.report.formats.plain import progress_message

_SHARE = 0.45
"""Of the deadline: for opening the driver, and again for reading the GPUs; the rest is for starting and writing."""

_ASKING = ("driver", "gpus-")
"""What the names of the threads that call the driver begin with."""
_OURS = "the check itself failed"
_FAILED = "# FAILED "
_LONGEST = 200
"""Characters of what a child says went wrong."""
_MOMENT = 1.0
"""Seconds in which a child that has ended shows how."""
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})


class PciHost(Host):
    """The machine as the check sees it: its PCI bus, its network ports, and the processes on its GPUs.

    Of owners it knows the Slurm job, by cgroup alone, which no user can write.
    """

    def __init__(self, sysfs: Path, procfs: Path) -> None:
        self._sysfs = sysfs
        self._procfs = procfs

    def view(self, question: HostQuestion) -> HostView:
        processes = {pid: found for pid in question.pids if (found := process.read(pid, self._procfs))}
        jobs = {pid: cgroup.parse(host.cgroup).job for pid, host in processes.items()}
        owners = {pid: Owner(f"slurm:{job}", "slurm", slurm_job=job) for pid, job in jobs.items() if job}
        ports, gpus = rdma.ports(self._sysfs), seats(self._sysfs, question.gpus)
        return HostView(
            processes=processes,
            ownership=Ownership(owners),
            pci_gpus=pci_gpus(self._sysfs),
            ports=PortWatch().look(ports, gpus, question.at.monotonic),
        )


def read_node(
    driver: Driver,
    host: Host,
    collectors: Sequence[AnyCollector],
    kmsg: Path | None,
    deadline: float,
    faults: FaultWatch | None = None,
) -> str:
    """Return the facts of one read as JSON, at most `deadline` seconds after; GPUs that hang are `gpu_up` 0.

    Raises RuntimeError where a thread that asks the driver does not run: then no GPU has been asked.
    """
    pacing = Pacing(interval=deadline, deadline=deadline * _SHARE, stale=2 * deadline)
    accounting = Accounting(AccountingOptions(), workload_families(()))
    sampler = Sampler(driver, host, collectors, pacing, accounting, faults=faults)
    threads = Threads()
    sampler.start(threads)
    snapshot = sampler.run_pass()
    down = [name for name in threads.states() if name.startswith(_ASKING) and threads.is_down(name)]
    if down:
        raise RuntimeError(f"thread {down[0]} does not run")
    if kmsg:
        past_xids(kmsg, sampler.xids, sampler.uuids())
        snapshot = sampler.run_pass()  # reads little again, and publishes the XIDs
    return to_json(from_blocks(snapshot.blocks, unix_time()))


class ChildError(Exception):
    """The child ended before its time; in words, how."""

    def __init__(self, how: str, *, crashed: bool) -> None:
        super().__init__(how)
        self.crashed = crashed
        """By a signal of its own making: what runs there beside Python is the driver's library."""


def in_child_process(work: Callable[[], str], deadline: float) -> str | None:
    """What `work` returns, run in a child process; None when it is not there within `deadline` seconds.

    Raises ChildError where the child is known to have ended without an answer. A child that hangs in the kernel cannot
    even be killed. It holds nothing of ours but one end of a pipe, and nobody waits for it. Call it before the process
    has threads.
    """
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError as error:  # no memory, or no more processes
        os.close(reader)
        os.close(writer)
        raise ChildError(f"{_OURS}: {error.strerror}", crashed=False) from None
    if child == 0:  # pragma: no cover - the child's coverage is not collected
        _in_child(work, writer)
    os.close(writer)
    try:
        with progress_message("asking the driver"):
            text = _all_of(reader, monotonic_time() + deadline)
    except _BrokenOffError as broken:
        raise _ended(child, str(broken)) from None
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # not waited for yet: its number is nobody else's
        os.waitpid(child, os.WNOHANG)
    return text


def _in_child(work: Callable[[], str], writer: int) -> None:  # pragma: no cover - see above
    status = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        # Whoever reads our output must not wait for a child that hangs.
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        with os.fdopen(writer, "w") as pipe:
            try:
                text = work()
            except Exception as error:
                pipe.write(f"{_FAILED}{type(error).__name__}: {error}")
                raise
            pipe.write(text + "\n# EOF\n")
        status = 0
    finally:
        os._exit(status)


class _BrokenOffError(Exception):
    """The pipe came to its end without the mark; what went wrong, where the child could say so."""


def _all_of(reader: int, end: MonotonicTime) -> str | None:
    """Everything up to the mark of its end; None where it does not come in time."""
    parts: list[bytes] = []
    while (left := end - monotonic_time()) > 0 and select.select([reader], [], [], left)[0]:
        part = os.read(reader, 1 << 16)
        if not part:
            text = b"".join(parts).decode("utf-8", "replace")
            if text.endswith("# EOF\n"):
                return text.removesuffix("# EOF\n")
            raise _BrokenOffError(" ".join(text.partition(_FAILED)[2].split())[:_LONGEST])
        parts.append(part)
    return None


def _ended(child: int, failure: str) -> ChildError:
    """A child that has closed its pipe is gone in a moment, but for one with a thread that hangs in the kernel."""
    end = monotonic_time() + _MOMENT
    ended = None
    while not failure and ended is None and monotonic_time() < end:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            time.sleep(_MOMENT / 100)
    if failure or ended is None or ended.si_code not in {os.CLD_KILLED, os.CLD_DUMPED}:
        return ChildError(f"{_OURS}: {failure or 'it ended without an answer'}", crashed=False)
    name, crashed = signal.Signals(ended.si_status).name, ended.si_status in _CRASHES
    where = "the driver's library crashes" if crashed else "the process that asks the driver was ended"
    return ChildError(f"{where}: {name}", crashed=crashed)
