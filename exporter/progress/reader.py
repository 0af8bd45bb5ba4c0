"""Reports of programs, joined to workloads and added up, and the options for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.attribution.owner import NOBODY, Owner, Ownership, SourceHealth
from exporter.config.kinds import optional_path
from exporter.config.option import option
from exporter.core.clock import NEVER, MonotonicClock, monotonic_time
from exporter.core.threads import Threads
from exporter.host.namespace import own_cgroup
from exporter.progress.folder_source import FolderSource
from exporter.progress.processes import Cgroups, lives
from exporter.progress.processes import process as named
from exporter.progress.progress import Phases, Progress, Reported, Totals, step_times
from exporter.progress.reporters import Process, Reporter, Reporters
from exporter.progress.socket_source import SocketSource

_CHECK_SECONDS = 2.0
"""Seconds between two checks of whether reporters still live."""


class _Innermost:
    """Owners of the innermost cgroups, looked up once for all processes of a place."""

    def __init__(self, cgroups: Mapping[Owner, str]) -> None:
        self.of = cgroups
        self._found: dict[tuple[str, ...], Owner] = {}

    def owner(self, paths: tuple[str, ...]) -> Owner:
        found = self._found.get(paths)
        if found is None:
            around = (
                (len(path), owner)
                for owner, path in self.of.items()
                if path and any(each == path or each.startswith(f"{path}/") for each in paths)
            )
            found = self._found[paths] = max(around, default=(0, NOBODY))[1]
        return found


class ProgressReader:
    """Progress of workloads. Used by the sampling thread; the sources read on theirs. No method waits."""

    def __init__(
        self,
        socket: Path | None,
        folder: Path | None,
        procfs: Path = Path("/proc"),
        clock: MonotonicClock = monotonic_time,
        *,
        cgroupfs: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self.reporters = Reporters()
        self._socket = SocketSource(socket, self.reporters, procfs, clock, cgroupfs=cgroupfs) if socket else None
        self._folder = FolderSource(folder, self.reporters, procfs, clock) if folder else None
        self._procfs = procfs
        self._cgroups = Cgroups(procfs, cgroupfs, own_cgroup(cgroupfs))
        self._clock = clock
        self._checked_at = NEVER
        self._paths: dict[Process, tuple[str, ...]] = {}
        self._owners: dict[Process, Owner] = {}
        """Last owner of each process: reports from before its end still count."""
        self._innermost = _Innermost({})
        self._phases = Phases()
        self._totals: dict[Owner, Totals] = {}

    def start(self, threads: Threads) -> None:
        if self._socket:
            threads.start("progress-socket", self._socket.run)
        if self._folder:
            threads.start("progress-folder", self._folder.run)

    def stop(self) -> None:
        for source in (self._socket, self._folder):
            if source:
                source.stop()

    def health(self) -> tuple[SourceHealth, ...]:
        found = (("progress_socket", self._socket), ("progress_folder", self._folder))
        return tuple(SourceHealth(name, not source.error, 0.0) for name, source in found if source)

    def read(self, ownership: Ownership) -> Reported:
        """Return the progress by owner. A reporter belongs to a workload if it runs on its GPU or in its cgroup."""
        reporters = self.reporters.all()
        by_owner: dict[Owner, list[Reporter]] = {}
        for reporter in reporters:
            owner = self._process_owner(reporter.process, ownership)
            if owner != NOBODY:
                by_owner.setdefault(owner, []).append(reporter)
        present = {*by_owner, *(owner for owners in ownership.holders.values() for owner in owners)}
        processes = {each.process for each in reporters}
        self._totals = {
            owner: totals for owner, totals in self._totals.items() if owner in present or totals.counts(processes)
        }
        ranks = self._phases.ranks(reporters, self._clock())
        owners = {owner: self._progress(owner, found) for owner, found in by_owner.items()}
        self._forget_ended(reporters)
        ranks_by_owner = {owner: tuple(ranks[each.process] for each in found) for owner, found in by_owner.items()}
        return Reported(owners, self.reporters.results(), ranks_by_owner)

    def _forget_ended(self, reporters: Iterable[Reporter]) -> None:
        """Forget ended processes once their reports are counted."""
        now = self._clock()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        gone = [each for each in reporters if not lives(each.process, self._procfs)]
        self.reporters.forget(gone)
        left = {each.process for each in self.reporters.all()}
        self._paths = {process: paths for process, paths in self._paths.items() if process in left}
        self._owners = {process: owner for process, owner in self._owners.items() if process in left}
        for totals in self._totals.values():
            totals.keep(left)

    def _process_owner(self, process: Process, ownership: Ownership) -> Owner:
        """Return the owner of a process; of an ended one its last owner, because its pid may have been reused."""
        known = self._owners.get(process, NOBODY)
        owner = ownership.processes.get(process.pid) or self._by_cgroup(process, ownership)
        if owner == known or not lives(process, self._procfs):
            return known
        if owner == NOBODY:
            del self._owners[process]  # it goes on without the workload
        else:
            self._owners[process] = owner
        return owner

    def _by_cgroup(self, process: Process, ownership: Ownership) -> Owner:
        if process not in self._paths:
            self._paths[process] = tuple(self._cgroups.paths(process.pid))
        if self._innermost.of != ownership.cgroups:
            self._innermost = _Innermost(ownership.cgroups)
        owner = self._innermost.owner(self._paths[process])
        if owner.kind != "unit":
            return owner
        # A unit may run programs of many users (JupyterHub without containers), which are different owners.
        own = (named(pid, self._procfs) for pid, each in ownership.processes.items() if each == owner)
        return owner if any(found and found.user == process.user for found in own) else NOBODY

    def _progress(self, owner: Owner, reporters: list[Reporter]) -> Progress:
        totals = self._totals.setdefault(owner, Totals())
        totals.add(reporters, lambda process: not lives(process, self._procfs))
        reports = [each.report for each in reporters]
        steps = step_times(reporters)
        return Progress(
            dict(totals.counters),
            dict(totals.phases),
            min((each.ratio for each in reports if each.ratio is not None), default=None),
            max((each.remaining for each in reports if each.remaining is not None), default=None),
            steps and replace(steps, slowest=totals.name_rank(steps.slowest)),
            max((each.time_to_target for each in reports if each.time_to_target is not None), default=None),
        )


@dataclass(frozen=True, kw_only=True)
class ProgressConfig:
    """`--progress.*`."""

    socket: Path | None = option(
        "",
        optional_path,
        "Unix datagram socket where programs send their progress: docs/progress.md.",
        metavar="FILE",
    )
    folder: Path | None = option(
        "",
        optional_path,
        "Directory where programs leave their progress: docs/progress.md.",
        metavar="DIR",
        name="dir",
    )
