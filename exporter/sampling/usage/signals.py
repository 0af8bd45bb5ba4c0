"""Step from two readings of an owner's counters to what its host side did in between. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from exporter.core.record import record
from exporter.core.units import Bytes, BytesPerSecond
from exporter.host.model import HostSignals, HostUsage, ProcessSignals, ThreadLoad, busiest
from exporter.host.task import IoRates, Task

Tasks = Mapping[str, Task]


@record
class Counters:
    """One owner at one moment: its totals, and the tasks of its GPU processes by pid."""

    usage: HostUsage = field(default_factory=HostUsage)
    tasks: Mapping[int, Tasks] = field(default_factory=dict[int, Tasks])
    cpu_seconds: Mapping[int, float] = field(default_factory=dict[int, float])
    """Seconds of each of these processes."""
    network_bytes_per_second: BytesPerSecond | None = None
    serves: bool | None = None
    programs: tuple[str, ...] = ()
    launchers: Mapping[int, int] = field(default_factory=dict[int, int])
    connected: Mapping[int, int] = field(default_factory=dict[int, int])
    frozen: frozenset[int] = frozenset()
    """Processes of a paused container."""
    peer_sockets: frozenset[int] = frozenset()
    """Inodes of sockets that are connected to another GPU process of the owner."""

    def without_totals(self) -> Counters:
        """Return where what was used since then cannot be distinguished from what was used before it."""
        return replace(self, usage=replace(self.usage, cpu_seconds=None, read_bytes=None, written_bytes=None))


def signals(before: Counters, after: Counters, seconds: float, cores: int) -> HostSignals:
    """Return fractions of the `seconds` between; `cores` is the node's, the limit if the owner has none.

    Without PSI, CPU pressure is the run queue delay of the task that waited longest: less than PSI would report, never
    more. There is no such stand-in for IO: D state is a signal of its own.
    """
    if seconds <= 0:
        return HostSignals()
    found = {pid: _process_signals(pid, before, after, seconds) for pid in sorted(after.tasks)}
    # The kernel shows its tasks as asleep or in D state, by the version of its cgroups.
    processes = {
        pid: replace(each, stopped=True, blocked=0.0, receiving=0.0)
        if pid in after.frozen and not each.stopped
        else each
        for pid, each in found.items()
    }
    blocked = [each.blocked for each in processes.values() if each.blocked is not None]
    receiving = [each.receiving for each in processes.values() if each.receiving is not None]
    hot = busiest([ThreadLoad(each.hottest_thread, each.polling) for each in processes.values()])
    pressure = _pressure_rates(before.usage.pressure_seconds, after.usage.pressure_seconds, seconds)
    full = _pressure_rates(before.usage.full_pressure_seconds, after.usage.full_pressure_seconds, seconds)
    used = _increase_rate(before.usage.cpu_seconds, after.usage.cpu_seconds, seconds)
    return HostSignals(
        cpu_pressure=pressure["cpu"] if "cpu" in pressure else _run_delay(before, after, seconds),
        io_pressure=pressure.get("io"),
        io_full_pressure=full.get("io"),
        cpu_of_limit=None if used is None else used / (after.usage.cpu_limit_cores or cores),
        hottest_thread=hot.share,
        blocked_threads=sum(blocked) / len(blocked) if blocked else None,
        receiving_threads=sum(receiving) / len(receiving) if receiving else None,
        polling=hot.polling,
        read_bytes_per_second=_byte_rate(before.usage.read_bytes, after.usage.read_bytes, seconds),
        written_bytes_per_second=_byte_rate(before.usage.written_bytes, after.usage.written_bytes, seconds),
        network_bytes_per_second=after.network_bytes_per_second,
        serves=after.serves,
        programs=after.programs,
        launchers=after.launchers,
        connected=after.connected,
        processes=processes,
    )


def _pressure_rates(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Mapping[str, float]:
    found = [(resource, _increase_rate(before.get(resource), total, seconds)) for resource, total in after.items()]
    return {resource: min(1.0, ratio) for resource, ratio in found if ratio is not None}


def _increase_rate(before: float | None, after: float | None, seconds: float) -> float | None:
    """Return the increase per second. None where either value is unknown, or the counter fell: it began anew."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _byte_rate(before: Bytes | None, after: Bytes | None, seconds: float) -> BytesPerSecond | None:
    rate = _increase_rate(before, after, seconds)
    return None if rate is None else BytesPerSecond(rate)


def _process_signals(pid: int, earlier: Counters, later: Counters, seconds: float) -> ProcessSignals:
    """A thread that stands ready and gets no CPU counts as full: it delays the work as much as one that computes."""
    before, after = earlier.tasks.get(pid, {}), later.tasks[pid]
    tasks = after.values()
    threads = [task.stopped for place, task in after.items() if _THREAD in place]
    receiving = [task.receiving for task in tasks if task.receiving is not None]
    rates = [task.io for task in tasks if task.io is not None]
    both = _same_tasks(before, after)
    hot = busiest([_thread_load(then, task, rates, seconds) for _, then, task in both])
    main = [(then, task) for place, then, task in both if place == f"{pid}{_THREAD}{pid}"]
    own_io = main[0][1].own_io if main else None
    started = sum([task.started_cpu for task in tasks])
    children = [task.cpu_seconds - then.cpu_seconds for place, then, task in both if _THREAD not in place]
    cpu = _increase_rate(earlier.cpu_seconds.get(pid), later.cpu_seconds.get(pid), seconds)
    return ProcessSignals(
        hottest_thread=hot.share,
        blocked=max([float(task.blocked) for task in tasks], default=0.0),
        receiving=float(True in receiving) if receiving else None,
        from_peer=True in receiving and all(task.socket in later.peer_sockets for task in tasks if task.receiving),
        polling=hot.polling,
        stopped=bool(threads) and all(threads),
        read_bytes_per_second=BytesPerSecond(sum([rate.read for rate in rates])) if rates else None,
        written_bytes_per_second=BytesPerSecond(sum([rate.written for rate in rates])) if rates else None,
        reading_bytes_per_second=BytesPerSecond(sum([rate.reading for rate in rates])) if rates else None,
        writing_bytes_per_second=BytesPerSecond(sum([rate.writing for rate in rates])) if rates else None,
        main_thread=_cpu_ratio(*main[0], seconds) if main else None,
        main_writing_bytes_per_second=own_io.writing if own_io else None,
        computes=any(_is_computing(then, task, seconds) for _, then, task in both),
        cpu=cpu,
        tree_cpu=(cpu or 0.0) + sum(children) / seconds + started if started >= _MIN_STARTED else None,
    )


_MIN_STARTED = 0.1
"""CPUs of processes that it started and that ended, from which they are part of its work."""
_THREAD = "/task/"
"""Part of the place of a thread of the process itself; a child's has none."""


def _thread_load(earlier: Task, task: Task, rates: Sequence[IoRates], seconds: float) -> ThreadLoad:
    ratio = _cpu_ratio(earlier, task, seconds)
    return ThreadLoad(ratio, None if ratio is None else _is_polling(earlier, task, rates, seconds))


def _cpu_ratio(earlier: Task, task: Task, seconds: float) -> float | None:
    """Return the fraction of the time in which a task used a CPU, or was ready to."""
    ratio = _increase_rate(earlier.cpu_seconds, task.cpu_seconds, seconds)
    if ratio is None:
        return None
    return min(1.0, ratio + (_run_queue_fraction(earlier, task, seconds) or 0.0))


def _run_queue_fraction(earlier: Task, task: Task, seconds: float) -> float | None:
    """Fraction of the time that a task stood ready and had no CPU."""
    return 1.0 if _is_starved(earlier, task) else _increase_rate(earlier.run_delay, task.run_delay, seconds)


def _is_starved(earlier: Task, task: Task) -> bool:
    """Return whether the task was ready all the time, without a CPU."""
    return task.ready is not None and task.ready == earlier.ready


_MIN_FAULTS_PER_SECOND = 50.0
"""Page faults per second: who loads or computes takes memory by the thousand."""
_MIN_READ_PER_SECOND = 16384.0
"""Bytes per second."""


def _is_polling(earlier: Task, task: Task, rates: Sequence[IoRates], seconds: float) -> bool:
    """Return whether a thread takes no memory and its process reads nothing, though it runs."""
    if _is_starved(earlier, task):
        return False
    faults = _increase_rate(earlier.minor_faults, task.minor_faults, seconds)
    return (
        faults is not None
        and faults < _MIN_FAULTS_PER_SECOND
        and sum([rate.reading for rate in rates]) < _MIN_READ_PER_SECOND
    )


_MIN_COMPUTING, _MAX_IN_KERNEL = 0.5, 0.02
"""CPU of a thread, and the part of that in the kernel."""


def _is_computing(earlier: Task, task: Task, seconds: float) -> bool:
    used = _increase_rate(earlier.cpu_seconds, task.cpu_seconds, seconds) or 0.0
    return used >= _MIN_COMPUTING and task.system_seconds - earlier.system_seconds <= _MAX_IN_KERNEL * used * seconds


def _run_delay(before: Counters, after: Counters, seconds: float) -> float | None:
    delays = [
        _run_queue_fraction(earlier, task, seconds)
        for pid, tasks in after.tasks.items()
        for _, earlier, task in _same_tasks(before.tasks.get(pid, {}), tasks)
    ]
    known = [delay for delay in delays if delay is not None]
    return min(1.0, max(known)) if known else None


def _same_tasks(before: Tasks, after: Tasks) -> Sequence[tuple[str, Task, Task]]:
    """The tasks in both by place, earlier and later; a thread id used again is another task."""
    return [
        (place, earlier, task)
        for place, task in after.items()
        if (earlier := before.get(place)) is not None and earlier.start_ticks == task.start_ticks
    ]
