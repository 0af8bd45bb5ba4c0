"""Processes that have ended since the driver was last asked who is there, which is only every few seconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from exporter.collectors.processes import GpuProcess, Processes
from exporter.core.clock import UnixTime


class ExitedProcesses:
    """Takes out of the driver's lists whoever /proc showed and shows no more.

    A list that was read after a process left has the last word: the driver may hold on to a dead one. What /proc
    never showed (another PID namespace) stays.
    """

    def __init__(self) -> None:
        self._shown: frozenset[int] = frozenset()
        self._left: dict[tuple[str, int], UnixTime] = {}
        """By GPU uuid and pid: when the list was read that still has it."""

    def remaining(
        self, listed: Mapping[str, Processes], shown: Collection[int]
    ) -> Mapping[str, tuple[GpuProcess, ...]]:
        """Processes by GPU uuid; `shown` are the pids of them in /proc."""
        gone = self._shown.difference(shown)
        if gone or self._left:
            times = {
                (uuid, process.pid): each.lists.time
                for uuid, each in listed.items()
                for process in each.running
                if process.pid not in shown and (process.pid in gone or (uuid, process.pid) in self._left)
            }
            self._left = {key: self._left.get(key, time) for key, time in times.items()}
        if gone or len(shown) != len(self._shown):
            self._shown = frozenset(shown)
        return {uuid: self._remaining(uuid, each) for uuid, each in listed.items()}

    def _remaining(self, uuid: str, listed: Processes) -> tuple[GpuProcess, ...]:
        if not self._left:
            return listed.running
        left, time = self._left, listed.lists.time
        return tuple([process for process in listed.running if left.get((uuid, process.pid)) != time])


def pids_by_target(running: Mapping[str, Sequence[GpuProcess]]) -> Mapping[str, Sequence[int]]:
    """Return the pids on each GPU or MIG instance by its uuid, of processes by GPU uuid."""
    found: dict[str, list[int]] = {}
    for processes in running.values():
        for process in processes:
            found.setdefault(process.target, []).append(process.pid)
    return found
