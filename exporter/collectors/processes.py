"""The processes on a GPU or on its MIG instances: memory allocated and engines used.

Owners, names and the host's side are joined later: the families are in `process_families`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from exporter.collectors.base import Collector, Pace, Paced, Tick, read_when_due
from exporter.core.clock import EPOCH, UnixTime
from exporter.core.record import record
from exporter.core.units import Bytes
from exporter.driver.interface import Device, Record, UnsupportedError

LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
_ENGINES = {
    "sm": "smUtil",
    "memory": "memUtil",
    "encoder": "encUtil",
    "decoder": "decUtil",
    "jpeg": "jpgUtil",
    "ofa": "ofaUtil",
}
_FIELDS = tuple(_ENGINES.values())
_FULL_PERCENT = 100
"""Percent. Less than none and more than all are garbage, which the driver does answer at times."""
_RECENT_MICROSECONDS = 2_000_000
"""µs before the newest sample within which others are believed: the driver may repeat those of dead processes."""
_HOLD_SECONDS = 2.0
"""Seconds a process keeps its last utilization. Drivers sample every 0.2 s to 1 s, some only those processes that used an
engine; one that is silent for longer used none."""


@record
class GpuProcess:
    """`target` is the uuid of the GPU, or of the MIG instance, the process runs on; `memory_bytes` None: not known.

    `utilization` is by engine, 0 to 1; empty where the driver does not say (under MIG).
    """

    pid: int
    target: str
    memory_bytes: Bytes | None
    utilization: Mapping[str, float]


@record
class Used:
    """Use of each engine by a process, and when the driver reported it."""

    engines: Mapping[str, float]
    told_at: UnixTime


@record
class Processes:
    running: tuple[GpuProcess, ...]
    lists: Paced[tuple[GpuProcess, ...]]
    used: Mapping[int, Used] | None
    """None where the driver does not say."""
    cursor: int


_UNUSED: Mapping[str, float] = {"sm": 0.0, "memory": 0.0, "encoder": 0.0, "decoder": 0.0}
NO_PROCESSES = Processes((), Paced((), EPOCH), None, 0)


def read_processes(device: Device, previous: Processes | None, tick: Tick) -> Processes:
    lists = read_when_due(previous.lists if previous else None, Pace.FAST, tick, lambda: _list_processes(device))
    due = previous is None or previous.used is not None or lists.time == tick.time
    used, cursor = _read_utilization(device, previous, tick) if due else (None, 0)
    if previous and lists.time != tick.time and _has_newcomers(lists.value, previous.used, used):
        lists = Paced(_list_processes(device), tick.time)
    return Processes(_with_engines(lists.value, used), lists, used, cursor)


def _with_engines(listed: Iterable[GpuProcess], used: Mapping[int, Used] | None) -> tuple[GpuProcess, ...]:
    """The driver has no sample of a process that used nothing: that is its way to say 0."""
    found: list[GpuProcess] = []
    for each in listed:
        engines: Mapping[str, float] = {}
        if used is not None:
            own = used.get(each.pid)
            engines = _UNUSED if own is None else own.engines
        found.append(GpuProcess(each.pid, each.target, each.memory_bytes, engines))
    return tuple(found)


def _has_newcomers(
    listed: Iterable[GpuProcess], before: Mapping[int, Used] | None, used: Mapping[int, Used] | None
) -> bool:
    """Return whether an unlisted process computes. The list is read once for each: samples of the dead repeat."""
    return bool((used or {}).keys() - (before or {}).keys() - {process.pid for process in listed})


def _list_processes(device: Device) -> tuple[GpuProcess, ...]:
    """Return the listed processes, under MIG by instance: the GPU's own list needs privileges and repeats them."""
    found = [process for target in device.instances or (device,) for process in processes_on(target)]
    return tuple(sorted(found, key=lambda process: (process.target, process.pid)))


def processes_on(target: Device) -> Iterable[GpuProcess]:
    """A process may be in more than one list, with the same memory: it counts once."""
    answers = [target.get(function) for function in LISTS]
    if all(answer is None for answer in answers):
        raise UnsupportedError("no process lists")
    memory: dict[int, Bytes | None] = {}
    for answer in answers:
        for process in answer or ():
            known = (value for value in (memory.get(process.pid), process.usedGpuMemory) if value is not None)
            memory[process.pid] = max(known, default=None)
    return (GpuProcess(pid, target.uuid, used, {}) for pid, used in memory.items())


def _read_utilization(device: Device, previous: Processes | None, tick: Tick) -> tuple[Mapping[int, Used] | None, int]:
    """Utilization by pid, and the timestamp to ask from next."""
    if device.instances:
        return None, 0
    cursor = previous.cursor if previous and previous.lists.time <= tick.time else 0  # 0: the clock was set back
    samples = device.get("nvmlDeviceGetProcessUtilization", cursor)
    if samples is None:
        return None, 0
    before = {
        pid: used
        for pid, used in ((previous.used if previous else None) or {}).items()
        if 0 <= tick.time - used.told_at <= _HOLD_SECONDS
    }
    fresh = {pid: Used(engines, tick.time) for pid, engines in by_process(samples, cursor).items()}
    return {**before, **fresh}, max([cursor, *[sample.timeStamp for sample in samples]])


def _add_totals(before: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {name: before.get(name, 0.0) + each for name, each in more.items()}


def by_process(samples: Sequence[Record], cursor: int) -> Mapping[int, Mapping[str, float]]:
    """Mean utilization of each process over its samples newer than `cursor` (µs), garbage left out."""
    newest = max([sample.timeStamp for sample in samples], default=0)
    after = max(cursor, newest - _RECENT_MICROSECONDS)
    sums: dict[int, tuple[int, dict[str, float]]] = {}
    for sample in samples:
        fields = vars(sample)
        if fields["timeStamp"] <= after:
            continue
        shares = {
            engine: percent / _FULL_PERCENT
            for engine, percent in zip(_ENGINES, map(fields.get, _FIELDS), strict=True)
            if percent is not None
        }
        found = shares.values()
        if found and min(found) >= 0 and max(found) <= 1:
            known = sums.get(sample.pid)
            sums[sample.pid] = (1, shares) if known is None else (known[0] + 1, _add_totals(known[1], shares))
    return {
        pid: totals if number == 1 else {engine: total / number for engine, total in totals.items()}
        for pid, (number, totals) in sums.items()
    }


PROCESSES = Collector(
    name="processes",
    help="Processes with their memory and utilization. 1 driver call a cycle, 3 more every 5 s and when one appears.",
    pace=Pace.CYCLE,
    read=read_processes,
    families=(),
)
