"""The processes behind reports, as /proc shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution import cgroup_place
from exporter.host import namespace
from exporter.host.presence import exists
from exporter.host.process import parse_stat
from exporter.host.text import lines, natural, read_text
from exporter.progress.reporters import Process


def process(pid: int, procfs: Path) -> Process | None:
    """The process that has this pid now; None where there is none."""
    stat = parse_stat(read_text(f"{procfs}/{pid}/stat")) if pid > 0 else None
    status = read_text(f"{procfs}/{pid}/status") if stat else ""
    user = _field(status, "Uid:")
    return None if stat is None or user is None else Process(pid, stat.start_ticks, user)


def lives(known: Process, procfs: Path) -> bool:
    """One of which nothing can be read for now (no descriptor is free) is not taken for one that has ended."""
    path = f"{procfs}/{known.pid}/stat"
    stat = parse_stat(read_text(path))
    return exists(path) if stat is None else stat.start_ticks == known.start_ticks


def in_host_namespace(pid: int, procfs: Path) -> bool:
    """Whether the process calls itself by the pid it has here: one in a container of its own does not."""
    for line in lines(read_text(f"{procfs}/{pid}/status")):
        if line.startswith("NSpid:"):
            return len(line.split()) == 2  # noqa: PLR2004 - the word and one pid
    return True


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Finds the cgroups of processes in the host's tree, as owners' are: /proc may show them from elsewhere."""

    procfs: Path
    cgroupfs: Path
    own: str = ""
    """Where this reader's cgroup namespace begins; empty on the host."""

    def paths(self, pid: int) -> Iterator[str]:
        """Without the names of their hierarchies."""
        for line in lines(namespace.absolute(read_text(f"{self.procfs}/{pid}/cgroup"), self.own)):
            yield cgroup_place.absolute(line.split(":", 2)[-1], self.cgroupfs)


def _field(status: str, name: str) -> int | None:
    for line in lines(status):
        if line.startswith(name):
            words = line.split()
            return natural(words[1]) if len(words) > 1 else None
    return None
