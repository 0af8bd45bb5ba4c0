"""What one pass shows of processes, understood once for all sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exporter.attribution.cgroup import Cgroup, parse
from exporter.attribution.devices import Devices
from exporter.attribution.ownership import Target
from exporter.host.model import HostProcess

HOLD_SECONDS = 3.0
"""A new job or pod whose name is being asked for stays nobody's so long: its series should not change labels."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Processes on GPUs in one pass; those that /proc does not show have a place but no host and no cgroup."""

    now: float
    devices: Devices
    places: Mapping[int, Sequence[str]]
    """Pid to the uuids of the targets it runs on."""
    hosts: Mapping[int, HostProcess]
    cgroups: Mapping[int, Cgroup]


class Eyes:
    """Makes `Seen` of a pass's arguments. Keeps what it has parsed, for most of it is the same next time."""

    def __init__(self) -> None:
        self._parsed: dict[str, Cgroup] = {}
        self._devices = Devices(())

    def see(
        self,
        targets: Sequence[Target],
        processes: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: float,
    ) -> Seen:
        if self._devices.targets != tuple(targets):
            self._devices = Devices(targets)
        places: dict[int, list[str]] = {}
        for uuid, pids in processes.items():
            for pid in pids:
                places.setdefault(pid, []).append(uuid)
        texts = {pid: hosts[pid].cgroup for pid in places if pid in hosts}
        current = set(texts.values())
        self._parsed = {text: self._parsed.get(text) or parse(text) for text in current}
        return Seen(now, self._devices, places, hosts, {pid: self._parsed[text] for pid, text in texts.items()})


class FirstSeen:
    """When each thing was first there, for as long as it is."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def update(self, present: Iterable[str], now: float) -> None:
        self._at = {name: self._at.get(name, now) for name in present}

    def age(self, name: str, now: float) -> float:
        return now - self._at.get(name, now)
