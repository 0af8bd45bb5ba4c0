"""From two readings of an owner's counters to what its host side did in between. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporter.host.model import HostSignals, HostUsage, ProcessSignals
from exporter.host.threads import Task

Tasks = Mapping[str, Task]


@dataclass(frozen=True, slots=True)
class Counters:
    """One owner at one moment: its totals, and the tasks of its GPU processes by pid."""

    usage: HostUsage = field(default_factory=HostUsage)
    tasks: Mapping[int, Tasks] = field(default_factory=dict[int, Tasks])


def signals(before: Counters, after: Counters, seconds: float, cores: int) -> HostSignals:
    """Shares of the `seconds` between; `cores` is the node's, the limit where the owner has none.

    Without PSI, CPU pressure is the run queue delay of the task that waited longest: less than PSI would say, never
    more. There is no such stand-in for IO: D state is a signal of its own.
    """
    if seconds <= 0:
        return HostSignals()
    processes = {pid: _process(before.tasks.get(pid, {}), tasks, seconds) for pid, tasks in sorted(after.tasks.items())}
    blocked = [each.blocked for each in processes.values() if each.blocked is not None]
    pressure = _pressure(before.usage, after.usage, seconds)
    used = _advance(before.usage.cpu_seconds, after.usage.cpu_seconds, seconds)
    return HostSignals(
        cpu_pressure=pressure.get("cpu", _run_delay(before, after, seconds)),
        io_pressure=pressure.get("io"),
        memory_pressure=pressure.get("memory"),
        cpu_of_limit=None if used is None else used / (after.usage.cpu_limit_cores or cores),
        hottest_thread=max(
            (each.hottest_thread for each in processes.values() if each.hottest_thread is not None), default=None
        ),
        blocked_threads=sum(blocked) / len(blocked) if blocked else None,
        read_bytes_per_second=_advance(before.usage.read_bytes, after.usage.read_bytes, seconds),
        processes=processes,
    )


def _pressure(before: HostUsage, after: HostUsage, seconds: float) -> Mapping[str, float]:
    found = (
        (resource, _advance(before.pressure_seconds.get(resource), total, seconds))
        for resource, total in after.pressure_seconds.items()
    )
    return {resource: min(1.0, share) for resource, share in found if share is not None}


def _advance(before: float | None, after: float | None, seconds: float) -> float | None:
    """Per second; None where either is not known. A counter that fell began anew, so what it did is not known."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _process(before: Tasks, after: Tasks, seconds: float) -> ProcessSignals:
    """A thread that stands ready and gets no CPU counts as full: it is as much in the way as one that computes."""
    shares = (
        share + (_advance(earlier.run_delay, task.run_delay, seconds) or 0.0)
        for earlier, task in _same(before, after)
        if (share := _advance(earlier.cpu_seconds, task.cpu_seconds, seconds)) is not None
    )
    hottest = max((min(1.0, share) for share in shares), default=None)
    return ProcessSignals(hottest_thread=hottest, blocked=any(task.blocked for task in after.values()))


def _run_delay(before: Counters, after: Counters, seconds: float) -> float | None:
    delays = (
        _advance(earlier.run_delay, task.run_delay, seconds)
        for pid, tasks in after.tasks.items()
        for earlier, task in _same(before.tasks.get(pid, {}), tasks)
    )
    known = [delay for delay in delays if delay is not None]
    return min(1.0, max(known)) if known else None


def _same(before: Tasks, after: Tasks) -> Iterator[tuple[Task, Task]]:
    """The tasks in both, earlier and later; a thread id used again is another task."""
    for place, task in after.items():
        earlier = before.get(place)
        if earlier is not None and earlier.start_ticks == task.start_ticks:
            yield earlier, task
