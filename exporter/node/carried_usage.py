"""What an owner has used, also where what counts it changes: a counter goes on, and neither falls nor jumps.

A cgroup is an owner's alone until somebody else's process is in it too (a root shell in a login session, another user's
notebook in the same service): then its own processes count, and later the cgroup again. A container or a unit that is
started anew has a cgroup that counts from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exporter.core.units import Bytes
from exporter.host.model import HostUsage

_Key = tuple[str, str]
"""A field and, of pressure, its resource."""
_PLAIN = ("cpu_seconds", "read_bytes", "written_bytes")
_PRESSURE = ("pressure_seconds", "full_pressure_seconds")


class CarriedUsage:
    """Of one owner."""

    __slots__ = ("_added", "_raw", "_raws", "_shown", "_source", "_usage")

    def __init__(self) -> None:
        self._source: object = None
        self._raw = self._usage = HostUsage()
        self._raws: dict[_Key, float] = {}
        """The totals that this source counted last."""
        self._shown: dict[_Key, float] = {}
        """What was shown of each, whatever counted it."""
        self._added: dict[_Key, float] = {}

    def of(self, raw: HostUsage, source: object) -> HostUsage:
        """`raw` is what `source` counts. The same object again where nothing ever had to be carried."""
        if raw is self._raw and source == self._source:
            return self._usage
        if source != self._source:
            self._raws.clear()
        for key, number in _totals(raw):
            before = self._raws.get(key)
            if key in self._shown and (before is None or number < before):
                self._added[key] = self._shown[key] - number
            self._raws[key] = number
            self._shown[key] = number + self._added.get(key, 0.0)
        self._raw, self._source = raw, source
        self._usage = self._with(raw) if self._added else raw
        return self._usage

    def _with(self, raw: HostUsage) -> HostUsage:
        shown = {key: self._shown[key] for key, _ in _totals(raw)}
        pressure, full = ({each: at for (name, each), at in shown.items() if name == field} for field in _PRESSURE)
        return replace(
            raw,
            cpu_seconds=shown.get(("cpu_seconds", "")),
            read_bytes=_bytes(shown.get(("read_bytes", ""))),
            written_bytes=_bytes(shown.get(("written_bytes", ""))),
            pressure_seconds=pressure,
            full_pressure_seconds=full,
        )


def _totals(usage: HostUsage) -> Iterator[tuple[_Key, float]]:
    for name in _PLAIN:
        number = getattr(usage, name)
        if number is not None:
            yield (name, ""), number
    for name in _PRESSURE:
        for resource, seconds in getattr(usage, name).items():
            yield (name, resource), seconds


def _bytes(number: float | None) -> Bytes | None:
    return None if number is None else Bytes(round(number))
