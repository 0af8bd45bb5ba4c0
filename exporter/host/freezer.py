"""Whether a cgroup is frozen: a paused container. Its tasks show as asleep, or with version 1 in D state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from exporter.core.clock import MonotonicTime
from exporter.host.cgroup import Hierarchy, hierarchy, parse_flat
from exporter.host.text import lines, read_text

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
