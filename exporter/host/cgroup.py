"""Use and limits of one cgroup: version 2, version 1, and version 1 with the unified tree beside it (hybrid)."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from exporter.core.clock import MonotonicTime
from exporter.core.units import Bytes
from exporter.host.model import HostUsage
from exporter.host.text import exists, lines, natural, read_text


def mounts(cgroupfs: Path) -> tuple[str, ...]:
    """Return where hierarchies are mounted: the v2 root alone, or v1's controllers and the hybrid's v2 tree."""
    if exists(cgroupfs / "cgroup.controllers"):
        return (str(cgroupfs),)
    return tuple(f"{cgroupfs}/{name}" for name in sorted(folders(str(cgroupfs))))


def folders(path: str) -> list[str]:
    """Names of the folders in `path`, links left out; none where it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


RESOURCES = ("cpu", "io", "memory")


def parse_pressure(text: str, kind: str = "some") -> float | None:
    """Seconds in which at least one task was stalled (`some`), or all that wanted to run were (`full`), since boot.

    None where the file does not say.
    """
    for line in lines(text):
        words = line.split()
        if words[:1] == [kind]:
            totals = [natural(word.removeprefix("total=")) for word in words if word.startswith("total=")]
            return None if not totals or totals[0] is None else totals[0] / 1e6
    return None


def pressure_seconds(folder: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Stall seconds by resource from a cgroup's `*.pressure` files, `some` and `full`; empty without PSI."""
    texts = {each: read_text(f"{folder}/{each}.pressure") for each in RESOURCES}
    found = {(kind, each): parse_pressure(text, kind) for each, text in texts.items() for kind in ("some", "full")}
    some, full = (
        {each: seconds for (kind, each), seconds in found.items() if kind == wanted and seconds is not None}
        for wanted in ("some", "full")
    )
    return some, full


UNLIMITED_BYTES = 1 << 60
"""Version 1 writes no limit as a number just under 2^63."""


class Hierarchy(str, enum.Enum):
    V2 = "v2"
    HYBRID = "hybrid"
    V1 = "v1"


class Limits(NamedTuple):
    """The tightest of a cgroup and all above it; None: not limited."""

    cpu_cores: float | None = None
    memory_bytes: Bytes | None = None


def hierarchy(cgroupfs: Path) -> Hierarchy:
    """Return which layout is mounted at `cgroupfs`."""
    if exists(cgroupfs / "cgroup.controllers"):
        return Hierarchy.V2
    return Hierarchy.HYBRID if exists(cgroupfs / "unified" / "cgroup.controllers") else Hierarchy.V1


def parse_flat(text: str) -> Mapping[str, int]:
    """A file of `name number` lines, as cpu.stat and memory.stat are."""
    pairs = (line.split() for line in lines(text))
    found = ((words[0], natural(words[1])) for words in pairs if len(words) == 2)  # noqa: PLR2004 - name and number
    return {name: number for name, number in found if number is not None}


def parse_cpu_max(text: str) -> float | None:
    """Cores of `200000 100000`; None for `max 100000`."""
    words = text.split()
    return _quota_cores(words[0], words[1]) if len(words) == 2 else None  # noqa: PLR2004 - quota and period


def parse_limit(text: str) -> Bytes | None:
    """Return the limit; None for `max` and for the number that stands for it."""
    number = natural(text.strip())
    return None if number is None or number >= UNLIMITED_BYTES else Bytes(number)


def parse_cpu_list(text: str) -> int | None:
    """Return how many CPUs `0-3,8` names; None where it names none."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = natural(first), natural(last or first)
        if low is None or high is None or high < low:
            return None
        count += high - low + 1
    return count or None


def parse_io_stat(text: str, key: str = "rbytes") -> Bytes | None:
    """Read from (`wbytes`: written to) all block devices; None where the io controller is off."""
    words = (word.partition("=") for line in lines(text) for word in line.split())
    found = [natural(number) for name, _, number in words if name == key]
    return Bytes(sum(number or 0 for number in found)) if found else None


def parse_blkio(text: str, key: str = "Read") -> Bytes | None:
    """Version 1's `8:0 Read 4096` lines: read from (`Write`: written to) all block devices."""
    rows = (line.split() for line in lines(text))
    found = [natural(words[2]) for words in rows if len(words) == 3 and words[1] == key]  # noqa: PLR2004
    return Bytes(sum(number or 0 for number in found)) if found else None


READ_INTERVAL_SECONDS = 3.0
"""Seconds between two reads of whether a cgroup is frozen."""
_MAX_REMEMBERED = 256
"""Cgroups remembered."""


class Cgroups:
    """The cgroups below one mount. `cpus` are the node's."""

    def __init__(self, root: Path, cpus: int | None = None) -> None:
        self._root = root
        self._cpus = cpus or os.cpu_count() or 1
        self._frozen: dict[str, tuple[MonotonicTime, bool]] = {}

    @cached_property
    def hierarchy(self) -> Hierarchy:
        return hierarchy(self._root)

    @cached_property
    def _unified_mount(self) -> str:
        return str(self._root if self.hierarchy is Hierarchy.V2 else self._root / "unified")

    def usage(self, path: str, limit: Limits) -> HostUsage:
        """Return what the cgroup used so far. `limit` is `limits()` of it, which changes seldom and costs more."""
        if not _is_inside(path):
            return HostUsage()
        path = path.strip("/")
        some, full = pressure_seconds(f"{self._unified_mount}/{path}")
        if self.hierarchy is Hierarchy.V2:
            cpu, second = parse_flat(self._read(f"{path}/cpu.stat")).get("usage_usec"), 1e6
            io = self._read(f"{path}/io.stat")
            read, written = parse_io_stat(io), parse_io_stat(io, "wbytes")
        else:
            cpu, second = natural(self._read(f"cpuacct/{path}/cpuacct.usage")), 1e9
            io = self._read(f"blkio/{path}/blkio.throttle.io_service_bytes_recursive")
            read, written = parse_blkio(io), parse_blkio(io, "Write")
        return HostUsage(
            cpu_seconds=None if cpu is None else cpu / second,
            cpu_limit_cores=limit.cpu_cores,
            memory_limit_bytes=limit.memory_bytes,
            read_bytes=read,
            written_bytes=written,
            pressure_seconds=some,
            full_pressure_seconds=full,
        )

    def resident_bytes(self, path: str) -> Bytes | None:
        """Return what the cgroup uses without the page cache it would give back at once.

        Apart from `usage`, for the kernel gathers memory.stat over all CPUs: too dear for every cycle.
        """
        if not _is_inside(path):
            return None
        v2 = self.hierarchy is Hierarchy.V2
        folder = path.strip("/") if v2 else f"memory/{path.strip('/')}"
        used = natural(self._read(f"{folder}/{'memory.current' if v2 else 'memory.usage_in_bytes'}"))
        if used is None:
            return None
        flat = parse_flat(self._read(f"{folder}/memory.stat"))
        return Bytes(max(0, used - flat.get("inactive_file" if v2 else "total_inactive_file", 0)))

    def limits(self, path: str) -> Limits:
        """Return its own limits and those above it. A CPU set is a limit if it leaves out some of the node's CPUs."""
        parts = [part for part in path.split("/") if part] if _is_inside(path) else []
        levels = ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]
        found = [
            self._limits_v2(level) if self.hierarchy is Hierarchy.V2 else self._limits_v1(level) for level in levels
        ]
        least = min([cores for level in found for cores in level[0] if cores is not None], default=float(self._cpus))
        memory = min([level[1] for level in found if level[1] is not None], default=None)
        return Limits(least if least < self._cpus else None, memory)

    def frozen(self, cgroup: str, now: MonotonicTime) -> bool:
        """Return whether a process with this text in /proc/PID/cgroup is frozen, with its cgroup or one above it."""
        known = self._frozen.get(cgroup)
        if known is not None and now - known[0] < READ_INTERVAL_SECONDS:
            return known[1]
        if len(self._frozen) >= _MAX_REMEMBERED:
            self._frozen.clear()
        found = any(self._frozen_states(cgroup))
        self._frozen[cgroup] = (now, found)
        return found

    def _limits_v2(self, path: str) -> tuple[tuple[float | None, float | None], Bytes | None]:
        cpus = parse_cpu_list(self._read(f"{path}/cpuset.cpus.effective"))
        return (parse_cpu_max(self._read(f"{path}/cpu.max")), cpus), parse_limit(self._read(f"{path}/memory.max"))

    def _limits_v1(self, path: str) -> tuple[tuple[float | None, float | None], Bytes | None]:
        read = self._read
        quota = _quota_cores(read(f"cpu/{path}/cpu.cfs_quota_us"), read(f"cpu/{path}/cpu.cfs_period_us"))
        cpus = parse_cpu_list(read(f"cpuset/{path}/cpuset.effective_cpus") or read(f"cpuset/{path}/cpuset.cpus"))
        return (quota, cpus), parse_limit(read(f"memory/{path}/memory.limit_in_bytes"))

    def _frozen_states(self, cgroup: str) -> Iterator[bool]:
        for line in lines(cgroup):
            _, _, named = line.partition(":")
            controllers, _, path = named.partition(":")
            if ".." in path.split("/"):
                continue
            if not controllers:
                yield parse_flat(read_text(f"{self._unified_mount}{path}/cgroup.events")).get("frozen") == 1
            elif controllers == "freezer":
                yield self._read(f"freezer{path}/freezer.state") == "FROZEN"

    def _read(self, file: str) -> str:
        return read_text(f"{self._root}/{file}").strip()


def _is_inside(path: str) -> bool:
    """A cgroup namespace shows what is outside it as `/..`; such a path names nothing under this mount."""
    return bool(path.strip("/")) and ".." not in path.split("/")


def _quota_cores(quota: str, period: str) -> float | None:
    """Return the cores; None without a quota, which version 1 writes as -1 and version 2 as `max`."""
    allowed, of = natural(quota), natural(period)
    return allowed / of if allowed and of else None
