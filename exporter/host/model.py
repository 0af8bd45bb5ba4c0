"""Readings of the host side, in base units; None is what this host cannot report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from exporter.core.clock import UnixTime
from exporter.core.record import record
from exporter.core.units import Bytes, BytesPerSecond


@record
class HostProcess:
    """One process as /proc shows it. `start_time` with `pid` distinguishes a reused pid."""

    pid: int
    command: str
    """Short name (comm); never arguments."""
    user: str
    start_time: UnixTime
    cpu_seconds: float
    resident_bytes: Bytes
    cgroup: str
    """Raw text of /proc/PID/cgroup."""
    parent: int = 0
    arguments: str = ""
    """Masked, on one line; only where they were asked for."""


@record
class HostUsage:
    """Totals of one owner since its cgroup (or its oldest known process) began, and levels now."""

    cpu_seconds: float | None = None
    cpu_limit_cores: float | None = None
    resident_bytes: Bytes | None = None
    memory_limit_bytes: Bytes | None = None
    read_bytes: Bytes | None = None
    written_bytes: Bytes | None = None
    network_bytes: Mapping[str, Bytes] = field(default_factory=dict[str, Bytes])
    """Bytes over its own network namespace, by direction (`receive`, `transmit`); empty where it shares the host's."""
    ports: tuple[int, ...] = ()
    """TCP ports it listens on for clients, the lowest few."""
    pressure_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds by resource (`cpu`, `io`, `memory`) that some task was stalled (PSI `some`). Empty without PSI."""
    full_pressure_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds all its tasks that wanted to run were stalled (PSI `full`)."""


@record
class ProcessSignals:
    """One GPU process with its loader workers (children, and theirs): fractions of the cycle as in `HostSignals`."""

    hottest_thread: float | None = None
    blocked: float | None = None
    """Fraction of the reads in which it or a child sat in D state, in which it may wait for storage."""
    receiving: float | None = None
    """1 where its main thread or a child sat in a receive from the network."""
    polling: bool | None = None
    """Its full threads neither read nor took memory: they poll for work."""
    stopped: bool = False
    """True if stopped by a signal (SIGSTOP, as `scontrol suspend` sends), a debugger or `docker pause`."""
    read_bytes_per_second: BytesPerSecond | None = None
    written_bytes_per_second: BytesPerSecond | None = None
    """Rate over the last half minute or so, also those that the page cache still holds."""
    reading_bytes_per_second: BytesPerSecond | None = None
    writing_bytes_per_second: BytesPerSecond | None = None
    """Rate over the last few seconds."""
    main_thread: float | None = None
    """Load of its main thread alone: where that is full it waits for nothing that another one does."""
    main_writing_bytes_per_second: BytesPerSecond | None = None
    """Rate over the last few seconds, by the main thread itself; None too where the whole process hardly writes."""
    cpu: float | None = None
    """CPUs that all its own threads used together: 2.0 are two cores."""
    tree_cpu: float | None = None
    """The same with its children, and those that ended lately; None where it starts none that use CPU."""
    computes: bool = False
    """A full thread of it stays in its own code, as one that polls by system calls does not."""
    from_peer: bool = False
    """All its receives are from other GPU processes of the owner, over TCP."""

    @property
    def io_bytes_per_second(self) -> BytesPerSecond | None:
        """Both ways; None where the kernel does not report this reader."""
        if self.read_bytes_per_second is None or self.written_bytes_per_second is None:
            return None
        return BytesPerSecond(self.read_bytes_per_second + self.written_bytes_per_second)


@record
class HostSignals:
    """The host side of one owner between its last two turns, as fractions of that time; None: not known.

    Its turn is in every cycle but on a node of many processes (`RoundRobin`).
    """

    cpu_pressure: float | None = None
    io_pressure: float | None = None
    """Some task of the owner was stalled."""
    io_full_pressure: float | None = None
    """Every task of the owner that wanted to run was stalled."""
    cpu_of_limit: float | None = None
    """CPU used over its limit (or over the node's cores where there is none)."""
    hottest_thread: float | None = None
    """CPU that the busiest single thread used, or stood ready to use and did not get: 1.0 is one core full."""
    blocked_threads: float | None = None
    """Fraction of the owner's main processes that sat in D state."""
    receiving_threads: float | None = None
    """Fraction of them that sat in a receive from the network."""
    polling: bool | None = None
    read_bytes_per_second: BytesPerSecond | None = None
    written_bytes_per_second: BytesPerSecond | None = None
    network_bytes_per_second: BytesPerSecond | None = None
    """Both ways, over the owner's own network namespace."""
    serves: bool | None = None
    """It listens for clients over TCP."""
    programs: tuple[str, ...] = ()
    """Start of the command lines of its GPU processes, and of what started them in the same cgroup."""
    launchers: Mapping[int, int] = field(default_factory=dict[int, int])
    """Map of pid to the pid of the launcher of ranks that started it."""
    connected: Mapping[int, int] = field(default_factory=dict[int, int])
    """The lowest pid of the owner's GPU processes that TCP connections link a pid to, by pid; empty: not known."""
    processes: Mapping[int, ProcessSignals] = field(default_factory=dict[int, ProcessSignals])
    """Processes that were read, keyed by pid: a waiting GPU is explained by its own processes."""


_TIE_MARGIN = 0.1
"""Part of a CPU. Between threads that are full all the time, the kernel's ticks choose which has used more."""


class ThreadLoad(NamedTuple):
    """One thread, or the fullest of a process."""

    share: float | None = None
    polling: bool | None = None


UNKNOWN = ThreadLoad()


def busiest(found: Sequence[ThreadLoad]) -> ThreadLoad:
    """One that spins beside one that works must not hide the work: it polls only where all the full ones do."""
    shares = [each.share for each in found if each.share is not None]
    if not shares:
        return found[0] if found else UNKNOWN
    most = max(shares)
    polling = {each.polling for each in found if each.share is not None and each.share >= most - _TIE_MARGIN}
    return ThreadLoad(most, False if False in polling else None if None in polling else True)


@record
class Rank:
    """One reporting process. `phases` are the fractions of the last seconds in each phase; they may overlap.

    `step_seconds` is the time of a step without waiting for other ranks; None if it does not report both, or takes no
    steps any more.
    """

    pid: int
    name: str = ""
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    step_seconds: float | None = None
    advances: bool = False
    """Its last report is fresh, and it took a step lately."""
