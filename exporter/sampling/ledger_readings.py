"""What the ledger is given for each GPU and MIG instance in one pass: signals, holders, and energy used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.core.clock import MonotonicTime
from exporter.core.units import Joules
from exporter.ledger.account import Counted, Reading
from exporter.sampling.gpus import Gpu
from exporter.sampling.join import Join, holdings
from exporter.sampling.readings import (
    Throttled,
    busy_seconds,
    instance_signals,
    joules,
    processes_are_listed,
    signals,
    throttled,
)


class LedgerReadings:
    """Keeps of the pass before what the differences to this one need."""

    def __init__(self) -> None:
        self._throttled: dict[str, Throttled] = {}
        self._joules: dict[str, Joules] = {}
        self._busy: dict[str, tuple[float, MonotonicTime]] = {}
        """Busy seconds by uuid, and when they were read."""

    def of(self, gpus: Sequence[Gpu], join: Join, monotonic: MonotonicTime) -> tuple[Reading, ...]:
        return tuple([each for gpu in gpus for each in self._of(gpu, join, monotonic)])

    def _of(self, gpu: Gpu, join: Join, monotonic: MonotonicTime) -> Iterator[Reading]:
        uuid = gpu.device.uuid
        running, ownership, listed = join.running[uuid], join.ownership, processes_are_listed(gpu)
        held_back = throttled(gpu, monotonic)
        whole = signals(gpu, self._throttled.get(uuid), held_back, monotonic)
        yield Reading(
            join.targets[uuid],
            whole,
            holdings(uuid, running, ownership, join.hosts, listed=listed),
            self._energy(gpu),
            counted=self._counted(gpu, monotonic),
        )
        for instance in gpu.device.instances:
            found = instance_signals(gpu, instance.uuid, whole, monotonic)
            profile = instance.mig.profile if instance.mig else ""
            held = holdings(instance.uuid, running, ownership, join.hosts, listed=listed)
            yield Reading(join.targets[instance.uuid], found, held, profile=profile)
        if held_back:
            self._throttled[uuid] = held_back

    def _energy(self, gpu: Gpu) -> Joules:
        """Joules since the last pass; a counter that went back was reset and counts from 0."""
        total = joules(gpu)
        if total is None:
            return Joules(0.0)
        before = self._joules.get(gpu.device.uuid, total)
        self._joules[gpu.device.uuid] = total
        return Joules(total - before) if total >= before else total

    def _counted(self, gpu: Gpu, monotonic: MonotonicTime) -> Counted | None:
        """As the driver counted since the GPU was last read; a count that went back began anew."""
        total = busy_seconds(gpu, monotonic)
        if total is None:
            return None
        before = self._busy.get(gpu.device.uuid)
        self._busy[gpu.device.uuid] = (total, monotonic)
        if before is None:
            return None
        return Counted(total - before[0] if total >= before[0] else total, monotonic - before[1])
