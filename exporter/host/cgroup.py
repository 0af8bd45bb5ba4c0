"""What one cgroup used and may use: version 2, version 1, and version 1 with the unified tree beside it (hybrid)."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from exporter.core.clock import MonotonicTime
from exporter.core.units import Bytes
from exporter.host.model import HostUsage
from exporter.host.text import exists, lines, natural, read_text


def mounts(cgroupfs: Path) -> tuple[str, ...]:
    """Where hierarchies are mounted: the v2 root alone, or v1's controllers and the hybrid's v2 tree."""
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
    some, full = ({each: parse_pressure(text, kind) for each, text in texts.items()} for kind in ("some", "full"))
    return _known(some), _known(full)


def _known(found: Mapping[str, float | None]) -> Mapping[str, float]:
    return {resource: seconds for resource, seconds in found.items() if seconds is not None}


UNLIMITED = 1 << 60
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
    """Which layout is mounted at `cgroupfs`."""
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
    return _cores(words[0], words[1]) if len(words) == 2 else None  # noqa: PLR2004 - quota and period


def parse_limit(text: str) -> Bytes | None:
    """None for `max` and for the number that stands for it."""
    number = natural(text.strip())
    return None if number is None or number >= UNLIMITED else Bytes(number)


def parse_cpu_list(text: str) -> int | None:
    """How many CPUs `0-3,8` names; None where it names none."""
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


def usage(path: str, cgroupfs: Path, layout: Hierarchy, limit: Limits) -> HostUsage:
    """What the cgroup at `path` used so far. `limit` is `limits()` of it, which changes seldom and costs more."""
    if not _inside(path):
        return HostUsage()
    read = _usage_v2 if layout is Hierarchy.V2 else _usage_v1
    return read(path.strip("/"), cgroupfs, limit)


def resident_bytes(path: str, cgroupfs: Path, layout: Hierarchy) -> Bytes | None:
    """What the cgroup holds without the page cache it would give back at once: what its limit is felt by.

    Apart from `usage`, for the kernel gathers memory.stat over all CPUs: too dear for every pass.
    """
    if not _inside(path):
        return None
    v2 = layout is Hierarchy.V2
    folder = f"{cgroupfs}/{path.strip('/')}" if v2 else f"{cgroupfs}/memory/{path.strip('/')}"
    held = natural(read_text(f"{folder}/{'memory.current' if v2 else 'memory.usage_in_bytes'}").strip())
    if held is None:
        return None
    inactive = parse_flat(read_text(f"{folder}/memory.stat")).get("inactive_file" if v2 else "total_inactive_file", 0)
    return Bytes(max(0, held - inactive))


def limits(path: str, cgroupfs: Path, layout: Hierarchy, cpus: int | None = None) -> Limits:
    """Its own limits and those above it. A CPU set counts as a limit where it leaves out some of the node's `cpus`."""
    if not _inside(path):
        return Limits()
    read = _limits_v2 if layout is Hierarchy.V2 else _limits_v1
    cores: list[float] = []
    memory: list[Bytes] = []
    for level in _upwards(path):
        found = read(level, cgroupfs)
        cores.extend(each for each in found[0] if each is not None)
        memory.extend(each for each in found[1] if each is not None)
    node = cpus or os.cpu_count() or 1
    least = min(cores, default=float(node))
    return Limits(least if least < node else None, min(memory, default=None))


def _inside(path: str) -> bool:
    """A cgroup namespace shows what is outside it as `/..`; such a path names nothing under this mount."""
    return bool(path.strip("/")) and ".." not in path.split("/")


def _upwards(path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part]
    for length in range(len(parts), 0, -1):
        yield "/".join(parts[:length])


def _usage_v2(path: str, cgroupfs: Path, limit: Limits) -> HostUsage:
    folder = f"{cgroupfs}/{path}"
    some, full = pressure_seconds(folder)
    io = read_text(f"{folder}/io.stat")
    return HostUsage(
        cpu_seconds=_scaled(parse_flat(read_text(f"{folder}/cpu.stat")).get("usage_usec"), 1e-6),
        cpu_limit_cores=limit.cpu_cores,
        memory_limit_bytes=limit.memory_bytes,
        read_bytes=parse_io_stat(io),
        written_bytes=parse_io_stat(io, "wbytes"),
        pressure_seconds=some,
        full_pressure_seconds=full,
    )


def _usage_v1(path: str, cgroupfs: Path, limit: Limits) -> HostUsage:
    some, full = pressure_seconds(f"{cgroupfs}/unified/{path}")
    io = read_text(f"{cgroupfs}/blkio/{path}/blkio.throttle.io_service_bytes_recursive")
    return HostUsage(
        cpu_seconds=_scaled(natural(read_text(f"{cgroupfs}/cpuacct/{path}/cpuacct.usage").strip()), 1e-9),
        cpu_limit_cores=limit.cpu_cores,
        memory_limit_bytes=limit.memory_bytes,
        read_bytes=parse_blkio(io),
        written_bytes=parse_blkio(io, "Write"),
        pressure_seconds=some,
        full_pressure_seconds=full,
    )


def _limits_v2(path: str, cgroupfs: Path) -> tuple[tuple[float | None, ...], tuple[Bytes | None, ...]]:
    folder = f"{cgroupfs}/{path}"
    cpus = parse_cpu_list(read_text(f"{folder}/cpuset.cpus.effective"))
    return (parse_cpu_max(read_text(f"{folder}/cpu.max")), cpus), (parse_limit(read_text(f"{folder}/memory.max")),)


def _limits_v1(path: str, cgroupfs: Path) -> tuple[tuple[float | None, ...], tuple[Bytes | None, ...]]:
    read: Callable[[str], str] = lambda file: read_text(f"{cgroupfs}/{file}").strip()  # noqa: E731 - shorter than a def
    quota = _cores(read(f"cpu/{path}/cpu.cfs_quota_us"), read(f"cpu/{path}/cpu.cfs_period_us"))
    cpus = parse_cpu_list(read(f"cpuset/{path}/cpuset.effective_cpus") or read(f"cpuset/{path}/cpuset.cpus"))
    return (quota, cpus), (parse_limit(read(f"memory/{path}/memory.limit_in_bytes")),)


def _cores(quota: str, period: str) -> float | None:
    """None without a quota, which version 1 writes as -1 and version 2 as `max`."""
    allowed, of = natural(quota), natural(period)
    return allowed / of if allowed and of else None


def _scaled(number: int | None, unit: float) -> float | None:
    return None if number is None else number * unit


LOOK_SECONDS = 3.0
_MOST = 256
"""Cgroups remembered."""


class Freezer:
    """Looked at every few seconds for each cgroup that is asked for."""

    def __init__(self, cgroupfs: Path) -> None:
        self._cgroupfs = cgroupfs
        self._unified = "" if hierarchy(cgroupfs) is Hierarchy.V2 else "/unified"
        self._found: dict[str, tuple[MonotonicTime, bool]] = {}

    def frozen(self, cgroup: str, now: MonotonicTime) -> bool:
        """Of a process with this text in /proc/PID/cgroup: itself or a cgroup above it."""
        known = self._found.get(cgroup)
        if known is not None and now - known[0] < LOOK_SECONDS:
            return known[1]
        if len(self._found) >= _MOST:
            self._found.clear()
        found = any(self._states(cgroup))
        self._found[cgroup] = (now, found)
        return found

    def _states(self, cgroup: str) -> Iterator[bool]:
        for line in lines(cgroup):
            _, _, named = line.partition(":")
            controllers, _, path = named.partition(":")
            if ".." in path.split("/"):
                continue
            if not controllers:
                yield parse_flat(read_text(f"{self._cgroupfs}{self._unified}{path}/cgroup.events")).get("frozen") == 1
            elif controllers == "freezer":
                yield read_text(f"{self._cgroupfs}/freezer{path}/freezer.state").strip() == "FROZEN"
