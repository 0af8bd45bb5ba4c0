"""Every GPU this process has seen, read under one deadline per cycle."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Generic, TypeVar

from exporter.collectors.base import AnyCollector
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.core.record import record
from exporter.core.threads import Threads
from exporter.core.worker import Worker
from exporter.driver.interface import Device, DriverError
from exporter.sampling.reader import (
    NO_STATE,
    CachedReading,
    CollectorResult,
    GpuRead,
    LastAnswers,
    TargetState,
    extra_reads,
    read_again,
    read_gpu,
)

R = TypeVar("R")
T = TypeVar("T")


def _never_present(_: object) -> bool:
    return False


class GpuThreads(Generic[T]):
    """Reads GPUs by uuid. Belongs to the thread that runs the cycles.

    GPUs are read one after the other, for threads that call the driver side by side spend as much again on the
    interpreter's lock. A GPU without a reading within its turn is read beside the next ones. The turns of all GPUs
    take half of the time until the deadline.
    """

    def __init__(self, thread_name: Callable[[str], str]) -> None:
        """`thread_name` returns the name of a GPU's thread."""
        self._thread_name = thread_name
        self.threads = Threads()
        """Starter of all threads from now on."""
        self._workers: dict[str, Worker[T]] = {}
        self.unasked: frozenset[str] = frozenset()
        """GPUs that the last read did not ask, as their thread does not run: nothing is known of them."""

    def read(
        self, tasks: Mapping[str, Callable[[], T]], deadline: MonotonicTime, takes: Callable[[T], bool] = _never_present
    ) -> Mapping[str, T | None]:
        """Return the results by uuid; None for one that is not there by `deadline` (monotonic seconds).

        A GPU whose read of an earlier cycle still runs is left out. If that read has ended since then, and `takes`
        accepts its result, it is the result: a GPU that always takes longer than a cycle would never have one.
        """
        found: dict[str, T | None] = {}
        unasked: set[str] = set()
        turn = (deadline - monotonic_time()) / 2 / max(len(tasks), 1)
        for uuid, task in tasks.items():
            worker = self._workers.get(uuid) or self._start(uuid, tasks)
            if worker.down:
                unasked.add(uuid)
                continue
            late = worker.overdue()
            if late is not None and takes(late):
                found[uuid] = late
            elif worker.submit(task):
                found[uuid] = worker.wait(min(monotonic_time() + turn, deadline))
        self.unasked = frozenset(unasked)
        return {
            uuid: self._workers[uuid].wait(deadline) if result is None else result for uuid, result in found.items()
        }

    def busy_seconds(self, uuid: str) -> float:
        """Return how long the GPU's read has been running; 0 if none is."""
        worker = self._workers.get(uuid)
        return worker.busy_seconds if worker else 0.0

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()

    def _start(self, uuid: str, present: Mapping[str, object]) -> Worker[T]:
        """Take over the idle thread of a GPU that was replaced, or start one.

        A GPU that has gone keeps its thread: one that comes back before its last call has returned is not called twice.
        """
        name = self._thread_name(uuid)
        replaced = [
            other
            for other, worker in self._workers.items()
            if other not in present and worker.name == name and not worker.busy_seconds
        ]
        worker: Worker[T] = self._workers.pop(replaced[0]) if replaced else Worker(name, self.threads)
        worker.overdue()  # the result of the other GPU
        self._workers[uuid] = worker
        return worker


log = logging.getLogger(__name__)


@record
class Gpu:
    """One GPU between cycles. Times are monotonic seconds."""

    device: Device
    states: Mapping[str, TargetState] = field(default_factory=dict[str, TargetState])
    present: bool = True
    """True if the driver's last enumeration has it."""
    answered: MonotonicTime = NEVER
    """Time of its last answer."""
    reading: bool = False
    """True if it answered in this cycle."""
    failure: str = ""
    asked: bool = True
    """True if this cycle could ask it: not while the thread that would does not run."""

    def answers(self, monotonic: MonotonicTime, grace_seconds: float) -> bool | None:
        """Late is not lost: one that missed a deadline, or failed, answers until `grace_seconds` after it did.

        None where it is not known, since nobody asked.
        """
        if not self.asked and self.present:
            return None
        if not self.present or self.answered == NEVER:
            return False
        return not self.failure or (self.failure in (LATE, SILENT, SICK) and monotonic - self.answered <= grace_seconds)


def readings_of(gpu: Gpu, uuid: str = "") -> Mapping[str, CachedReading]:
    """Return what was last read of the GPU, or of one of its instances, by collector."""
    return gpu.states.get(uuid or gpu.device.uuid, NO_STATE).readings


def reading(gpu: Gpu, name: str, kind: type[R], since: MonotonicTime = NEVER, uuid: str = "") -> R | None:
    """Return the last good reading of a collector on the GPU or an instance; None if it is from before `since`."""
    cached = readings_of(gpu, uuid).get(name)
    if cached is None or cached.monotonic < since or not isinstance(cached.reading, kind):
        return None
    return cached.reading


_MAX_LATE_READ_SECONDS = 60.0
"""Seconds from the beginning of a read in which its result is still taken."""
LATE, SILENT, SICK = "HUNG", "SILENT", "UNKNOWN"
"""The failures of a GPU whose read did not end by the deadline, of one that has its handle and answers nothing, and of
one that fails in most of its telemetry. An error that says that the GPU or the driver has gone holds at once."""
_TELEMETRY = frozenset({"utilization", "power", "clocks", "temperature"})
_SICK_COLLECTORS = 3
"""Groups of telemetry that fail together on a sick GPU. Fewer are calls that this driver does not do well."""


class Gpus:
    """All GPUs seen so far. Not thread-safe: belongs to the sampling thread."""

    def __init__(self, collectors: Sequence[AnyCollector]) -> None:
        self._collectors = collectors
        self._gpus: dict[str, Gpu] = {}
        self.threads: GpuThreads[GpuRead] = GpuThreads(lambda uuid: f"gpus-{self._gpus[uuid].device.index}")
        self._memories: dict[str, LastAnswers] = {}
        self._outcomes: dict[str, dict[tuple[str, str], CollectorResult]] = {}
        """The last ones of each GPU, by the uuid of what was read (it, or an instance of it) and collector."""
        self._rejected: Counter[str] = Counter()

    @property
    def all(self) -> tuple[Gpu, ...]:
        """The GPUs in index order. One that the driver no longer shows stays, so that its loss is reported.

        If another GPU is at its bus address, it has another UUID now, or was replaced, and is no loss.
        """
        buses = {gpu.device.pci_bus_id for gpu in self._gpus.values() if gpu.present} - {""}
        shown = [gpu for gpu in self._gpus.values() if gpu.present or gpu.device.pci_bus_id not in buses]
        return tuple(sorted(shown, key=lambda gpu: (gpu.device.index, gpu.device.uuid)))

    def hung_seconds(self, uuid: str) -> float:
        """Return how long the GPU's current read has been running."""
        return self.threads.busy_seconds(uuid)

    def outcomes(self) -> Sequence[CollectorResult]:
        """The last outcome of each collector on each GPU and instance that is there."""
        found = [self._outcomes.get(uuid, {}) for uuid, gpu in self._gpus.items() if gpu.present]
        return tuple([outcome for each in found for outcome in each.values()])

    @property
    def rejected(self) -> Mapping[str, int]:
        """Implausible answers left out since the start, by collector."""
        return dict(self._rejected)

    def read(
        self,
        devices: Iterable[Device],
        now: UnixTime,
        deadline: MonotonicTime,
        counted_at: MonotonicTime | None = None,
        *,
        clock: MonotonicClock | None = None,
    ) -> tuple[DriverError, ...]:
        """Read every present GPU until `deadline`; returns the errors of devices and driver, for the connection.

        `counted_at` is the monotonic time of the readings, where that is not the machine's own. `clock` states
        how late an answer is, where `counted_at` is the machine's own.
        """
        self._update_present(devices)
        monotonic = monotonic_time() if counted_at is None else counted_at
        tasks = {
            uuid: partial(
                read_gpu,
                gpu.device,
                gpu.states,
                self._collectors,
                now,
                monotonic,
                self._memories.setdefault(uuid, {}),
                clock=clock,
            )
            for uuid, gpu in self._gpus.items()
            if gpu.present
        }
        errors: list[DriverError] = []
        results = self.threads.read(tasks, deadline, partial(_is_usable, monotonic))
        for uuid in (uuid for uuid in tasks if uuid not in self.threads.unasked):
            result = results.get(uuid)  # none where an earlier call is still out
            if result is not None:
                self._record_read(uuid, result, monotonic)
                errors += [result.device_error] if result.device_error else []
            elif self._gpus[uuid].failure != LATE:
                log.warning("GPU %s does not answer within the deadline", uuid)
                self._gpus[uuid] = replace(self._gpus[uuid], failure=LATE)
        self._gpus |= {uuid: replace(self._gpus[uuid], asked=False) for uuid in self.threads.unasked}
        return tuple(errors)

    def extra_reads(self, interval: float) -> int:
        """Return how often to read again before the next cycle, as any GPU that answered in this one wants."""
        return max([extra_reads(gpu.device, gpu.states, interval) for gpu in self.all if gpu.reading], default=0)

    def read_again(self, deadline: MonotonicTime, interval: float) -> None:
        """Read the GPUs that want it once more inside the cycle. One without a reading is left to the next cycle."""
        tasks = {
            uuid: partial(read_again, gpu.device, gpu.states, monotonic_time(), self._memories[uuid], interval)
            for uuid, gpu in self._gpus.items()
            if gpu.reading and extra_reads(gpu.device, gpu.states, interval)
        }
        for uuid, result in self.threads.read(tasks, deadline).items():
            if result is not None:
                self._gpus[uuid] = replace(self._gpus[uuid], states=result.states)

    def stop(self) -> None:
        self.threads.stop()

    def _update_present(self, devices: Iterable[Device]) -> None:
        present = {device.uuid: device for device in devices}
        for uuid, gpu in self._gpus.items():
            if uuid not in present and gpu.present:
                log.warning("GPU %s (index %d) has gone from the driver", uuid, gpu.device.index)
            device = present.get(uuid, gpu.device)
            self._gpus[uuid] = Gpu(device, gpu.states, uuid in present, gpu.answered, failure=gpu.failure)
        for uuid, device in present.items():
            if uuid not in self._gpus:
                self._gpus[uuid] = Gpu(device)

    def _record_read(self, uuid: str, result: GpuRead, monotonic: MonotonicTime) -> None:
        gpu, outcomes = self._gpus[uuid], self._outcomes.setdefault(uuid, {})
        for outcome in result.outcomes:
            key = outcome.target, outcome.collector
            if outcome.error and ((before := outcomes.get(key)) is None or before.error != outcome.error):
                log.warning("collector %s failed on %s: %s", outcome.collector, outcome.target, outcome.error)
            outcomes[key] = outcome
            if outcome.rejected:
                self._rejected[outcome.collector] += outcome.rejected
        silence = result.silence or (gpu.failure == SILENT and not result.outcomes)  # nothing was asked, for it failed
        silent = bool(silence) and not any(outcome.answered for outcome in outcomes.values())
        failing = {each.collector for each in outcomes.values() if each.target == uuid and each.error}
        sick = len(failing & _TELEMETRY) >= _SICK_COLLECTORS
        ill = SILENT if silent else SICK if sick else LATE if result.at < monotonic else ""
        failure = result.device_error.code if result.device_error else ill
        if failure != gpu.failure:
            words = {SILENT: f"answers nothing ({result.silence})", SICK: "answers errors to most of its telemetry"}
            log.warning("GPU %s: %s", uuid, result.device_error or words.get(failure, "answers again"))
        alive = result.answered and not result.device_error and not sick
        answered = _answer_time(result, monotonic) if alive else gpu.answered
        self._gpus[uuid] = Gpu(
            gpu.device, self._without_gone(gpu.device, result), gpu.present, answered, alive, failure
        )

    def _without_gone(self, device: Device, result: GpuRead) -> Mapping[str, TargetState]:
        """States of the targets that still exist: a destroyed MIG instance leaves its series, and fails no more."""
        uuid = device.uuid
        targets = {uuid, *[instance.uuid for instance in device.instances]}
        if targets.issuperset(result.states):
            return result.states
        self._outcomes[uuid] = {key: each for key, each in self._outcomes[uuid].items() if key[0] in targets}
        return {target: state for target, state in result.states.items() if target in targets}


def _answer_time(result: GpuRead, monotonic: MonotonicTime) -> MonotonicTime:
    """Return when the GPU last answered in a read that this cycle takes: of a late one, when its last call returned."""
    if result.at >= monotonic:
        return result.at
    return min(monotonic, result.at + sum([outcome.seconds for outcome in result.outcomes]))


def _is_usable(now: MonotonicTime, late: GpuRead) -> bool:
    """Return whether a read that ended after its cycle shows the state of the GPU. A lost GPU reports that again."""
    return late.answered and not late.device_error and now - late.at <= _MAX_LATE_READ_SECONDS
