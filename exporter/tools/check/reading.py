"""One read of this node's GPUs, in a process of its own: a driver that hangs leaves a verdict, not a hanging check.

Also what Slurm gave the job in which the check runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from exporter.attribution import cgroup
from exporter.attribution.devices import DeviceName
from exporter.attribution.families import workload_families
from exporter.attribution.owner import Owner, Ownership
from exporter.attribution.slurm import gres
from exporter.collectors.base import AnyCollector
from exporter.core.clock import MonotonicTime, UnixTime, monotonic_time, unix_time
from exporter.core.threads import Threads
from exporter.daemon.assembly import slurm_names
from exporter.daemon.config import DaemonConfig
from exporter.driver.interface import Driver
from exporter.faults.evaluate import Report, unknown_report
from exporter.faults.model import FaultKind
from exporter.faults.rule import Facts, Series, from_blocks
from exporter.faults.watch import FaultTracker
from exporter.host import process, rdma
from exporter.host.network_ports import PortWatch
from exporter.host.rdma import pci_gpus
from exporter.host.text import lines
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import Host, HostQuestion, HostView
from exporter.sampling.sampler import Pacing, Sampler
from exporter.sampling.this_host import seats, unexplained_memory
from exporter.sampling.xids import past_xids
from exporter.tools.report.terminal import progress_message

_SAMPLING_RATIO = 0.45
"""Fraction of the deadline for opening the driver, and again for reading the GPUs; the rest starts and writes."""

_ASKING = ("driver", "gpus-")
"""Prefixes of the names of the threads that call the driver."""
_OURS = "the check itself failed"
_FAILED = "# FAILED "
_LONGEST = 200
"""Characters of what a child says went wrong."""
_EXIT_WAIT_SECONDS = 1.0
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
            unexplained=unexplained_memory(self._procfs, question.gpus),
            ports=PortWatch().update(ports, gpus, question.at.monotonic),
        )


def read_node(
    driver: Driver,
    host: Host,
    collectors: Sequence[AnyCollector],
    kmsg: Path | None,
    deadline: float,
    faults: FaultTracker | None = None,
) -> str:
    """Return the facts of one read as JSON, at most `deadline` seconds after; GPUs that hang are `gpu_up` 0.

    Raises RuntimeError where a thread that asks the driver does not run: then no GPU has been asked.
    """
    pacing = Pacing(interval=deadline, deadline=deadline * _SAMPLING_RATIO, stale=2 * deadline)
    accounting = Accounting(AccountingOptions(), workload_families(()))
    sampler = Sampler(driver, host, collectors, pacing, accounting, faults=faults)
    if kmsg:
        past_xids(kmsg, sampler.xids)
    threads = Threads()
    sampler.start(threads)
    snapshot = sampler.run_cycle()
    down = [name for name in threads.states() if name.startswith(_ASKING) and threads.is_down(name)]
    if down:
        raise RuntimeError(f"thread {down[0]} does not run")
    return to_json(from_blocks(snapshot.blocks, unix_time()))


class ChildError(Exception):
    """The child ended before its time; in words, how."""

    def __init__(self, how: str, *, crashed: bool) -> None:
        super().__init__(how)
        self.crashed = crashed
        """True if ended by a signal of its own making: what runs there beside Python is the driver's library."""


def in_child_process(work: Callable[[], str], deadline: float) -> str | None:
    """Return what `work` returns, run in a child process; None when it is not there within `deadline` seconds.

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
        raise _child_error(child, str(broken)) from None
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
    """The pipe came to its end without `# EOF`; what went wrong, where the child could say so."""


def _all_of(reader: int, end: MonotonicTime) -> str | None:
    """Return everything up to `# EOF`; None where it does not come in time."""
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


def _child_error(child: int, failure: str) -> ChildError:
    """A child that has closed its pipe is gone in a moment, but for one with a thread that hangs in the kernel."""
    end = monotonic_time() + _EXIT_WAIT_SECONDS
    ended = None
    while not failure and ended is None and monotonic_time() < end:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            time.sleep(_EXIT_WAIT_SECONDS / 100)
    if failure or ended is None or ended.si_code not in {os.CLD_KILLED, os.CLD_DUMPED}:
        return ChildError(f"{_OURS}: {failure or 'it ended without an answer'}", crashed=False)
    name, crashed = signal.Signals(ended.si_status).name, ended.si_status in _CRASHES
    where = "the driver's library crashes" if crashed else "the process that asks the driver was ended"
    return ChildError(f"{where}: {name}", crashed=crashed)


def to_json(facts: Facts) -> str:
    """Write the series for another process of this program."""
    return json.dumps({name: [(dict(s.labels), s.value) for s in series] for name, series in facts.series.items()})


def from_json(text: str, time: UnixTime) -> Facts:
    """Read what `to_json` wrote."""
    found: Mapping[str, Iterable[tuple[Mapping[str, str], float]]] = json.loads(text)
    return Facts({name: tuple(Series(*each) for each in series) for name, series in found.items()}, time)


_MISSED = frozenset({"gpu_missing", "gpu_down", *(kind.value for kind in FaultKind)})
"""Rules that find a GPU which is not there."""
_DIGITS = 9
"""Most digits of a place in gres.conf."""


def gres_devices(config: DaemonConfig) -> tuple[DeviceName | None, ...]:
    """Return the device behind each of Slurm's GPU numbers; empty where gres.conf names no files."""
    return gres.read(config.attribution.slurm.gres_conf, config.paths.procfs, frozenset(slurm_names()))


def job_gpus(environment: Mapping[str, str], devices: tuple[DeviceName | None, ...]) -> tuple[DeviceName, ...] | None:
    """GPUs of the ended job, as Slurm's epilog knows them; None outside of Slurm: all.

    Slurm counts places in gres.conf, whose `devices` those are. A job without GPUs leaves none, and one that shared its
    GPUs, or had instances of them, leaves them to the others: as far as Slurm shows its epilog, which hears of MPS and
    nothing of shards (22.05 to 24.11).
    """
    if not environment.get("SLURM_JOB_ID"):
        return None
    if environment.get("SLURM_SHARDS_ON_NODE") or environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"):
        return ()
    if "MIG-" in environment.get("CUDA_VISIBLE_DEVICES", ""):
        return ()
    parts = (part.strip() for part in environment.get("SLURM_JOB_GPUS", "").split(","))
    found: list[DeviceName] = []
    for part in filter(None, parts):
        name: DeviceName | None = DeviceName(uuid=part)
        if part.isascii() and part.isdecimal():
            name = gres.by_index(devices, int(part)) if len(part) <= _DIGITS else None
        if name and name.gpu_instance is None:
            found.append(name)
    return tuple(found)


def constraining_job(text: str) -> str:
    """The Slurm job that says which devices a process may open, by its /proc/PID/cgroup; empty for none."""
    fields = (line.split(":", 2) for line in lines(text) if line.count(":") >= 2)  # noqa: PLR2004 - id:controllers:path
    paths = (path for _, controllers, path in fields if not controllers or "devices" in controllers.split(","))
    return next((job for path in paths if (job := cgroup.parse_path(path).job)), "")


def seen_within(report: Report, facts: Facts, job: str) -> Report:
    """The verdict from within the Slurm `job`, whose cgroup may keep all GPUs but its own from being opened.

    A GPU that is missed there may be another job's: so it is with PrologFlags=RunInJob.
    """
    up = {series.labels.get("uuid") for series in facts.of("gpu_up") if series.value == 1}
    if job and any(finding.rule in _MISSED and finding.uuid not in up for finding in report.findings):
        return unknown_report(
            f"this runs in the cgroup of Slurm job {job}, which may not open every GPU: run it outside of jobs"
        )
    return report
