"""Step from cached readings to series, the status of GPUs, and what of both outlives a cycle."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from exporter.collectors.base import AnyCollector
from exporter.collectors.info import Info
from exporter.collectors.memory import Memory
from exporter.collectors.power import Power
from exporter.collectors.temperature import Temperature
from exporter.collectors.utilization import Utilization
from exporter.collectors.xid import XID_FAMILIES, XidCounts
from exporter.core.clock import MonotonicTime
from exporter.core.families import Block
from exporter.driver.interface import Device
from exporter.sampling.accounting import AccountingResult
from exporter.sampling.families import NODE_FAMILIES
from exporter.sampling.gpus import Gpu, reading, readings_of
from exporter.sampling.reader import CachedReading, CollectorResult, is_fresh, outlives_device
from exporter.sampling.snapshot import CollectorStatus, GpuStatus, NodeStatus, ProcessHealth, Snapshot

log = logging.getLogger(__name__)


def prefix(device: Device) -> tuple[str, ...]:
    """Values of the labels that every series of the device carries (metric.DEVICE or metric.INSTANCE)."""
    if device.mig is None:
        return (str(device.index), device.uuid)
    mig = device.mig
    return (
        str(device.index),
        device.uuid,
        device.parent_uuid,
        mig.profile,
        str(mig.gpu_instance),
        str(mig.compute_instance),
    )


def device_blocks(gpu: Gpu, monotonic: MonotonicTime, stale: float, broken: set[str] | None = None) -> list[Block]:
    """Series of one GPU and its instances: all while fresh, counters and descriptions for good.

    A collector whose samples cannot be made has none, and is added to `broken`.
    """
    found: list[Block] = []
    for target in (gpu.device, *gpu.device.instances):
        state = gpu.states.get(target.uuid)
        if state is None:
            continue
        labels = prefix(target)
        for cached in state.readings.values():
            made = _make_blocks(cached, labels, broken)
            if not is_fresh(cached, monotonic, gpu.answered, stale):
                made = tuple([block for block in made if outlives_device(block.family)])
            found += made
    return found


def _make_blocks(cached: CachedReading, labels: tuple[str, ...], broken: set[str] | None) -> tuple[Block, ...]:
    try:
        return cached.blocks(labels)
    except Exception:  # a bug in one family must not take the page with it
        if broken is None:
            raise
        log.debug("samples of collector %s cannot be made", cached.collector.name, exc_info=True)
        broken.add(cached.collector.name)
        return ()


def xid_blocks(gpu: Gpu, counts: XidCounts) -> Iterator[Block]:
    """XIDs of a GPU, for good: one that fell off the bus has them to show why."""
    return (Block(family, prefix(gpu.device), counts) for family in XID_FAMILIES)


def node_blocks(status: NodeStatus, broken: Collection[str] = ()) -> Iterator[Block]:
    """Series of the node and the exporter; the collectors in `broken` have failed, however their read went."""
    if broken:
        collectors = (replace(each, success=each.success and each.name not in broken) for each in status.collectors)
        status = replace(status, collectors=tuple(collectors))
    return (Block(family, (), status) for family in NODE_FAMILIES)


def collector_statuses(
    collectors: Sequence[AnyCollector], outcomes: Iterable[CollectorResult], rejected: Mapping[str, int]
) -> tuple[CollectorStatus, ...]:
    """One row per collector, whatever happened; a collector no GPU has been asked yet has not failed."""
    by_collector: dict[str, list[CollectorResult]] = {collector.name: [] for collector in collectors}
    for outcome in outcomes:
        by_collector[outcome.collector].append(outcome)
    return tuple(
        CollectorStatus(
            name=name,
            success=not any(outcome.error for outcome in found),
            seconds=sum(outcome.seconds for outcome in found),
            rejected=rejected.get(name, 0),
        )
        for name, found in by_collector.items()
    )


_OWN = frozenset(family.name for family in NODE_FAMILIES)


def stale_snapshot(snapshot: Snapshot, seconds: float, process: ProcessHealth) -> Snapshot:
    """`snapshot`, `seconds` after its cycle: counters and descriptions as they were, no gauges of GPUs and owners."""
    status = replace(
        snapshot.status,
        gpus=tuple(replace(gpu, up=False, age=gpu.age + seconds) for gpu in snapshot.status.gpus),
        sources=tuple(replace(each, success=False, age=each.age + seconds) for each in snapshot.status.sources),
        unattributed_processes=None,
        process=process,
    )

    def series() -> Iterator[Block]:
        for block in snapshot.series():
            if outlives_device(block.family) and block.family.name not in _OWN:
                yield block
        yield from node_blocks(status)

    return Snapshot(status, series, (), snapshot.monotonic)


R = TypeVar("R")


def gpu_statuses(
    gpus: Sequence[Gpu], hung: Mapping[str, float], result: AccountingResult, monotonic: MonotonicTime, stale: float
) -> Iterator[GpuStatus]:
    """Yield the state at `monotonic`; `hung` is how long the read of each GPU had been running by then."""
    for gpu in gpus:
        uuid = gpu.device.uuid
        up = gpu.answers(monotonic, stale)
        info = reading(gpu, "info", Info)
        utilization, memory, power, temperature = (
            _shown_reading(gpu, "utilization", Utilization, monotonic, stale),
            _shown_reading(gpu, "memory", Memory, monotonic, stale),
            _shown_reading(gpu, "power", Power, monotonic, stale),
            _shown_reading(gpu, "temperature", Temperature, monotonic, stale),
        )
        yield GpuStatus(
            index=gpu.device.index,
            uuid=uuid,
            model=info.model if info else "",
            up=up,
            age=monotonic - gpu.answered,
            hung_seconds=hung[uuid],
            busy_ratio=utilization.share if utilization else None,
            busy_seconds=utilization.busy.total if utilization and utilization.busy else None,
            memory_used_bytes=memory.used if memory else None,
            memory_total_bytes=memory.total if memory else None,
            memory_shared=bool(memory and memory.shared),
            power_watts=power.watts if power else None,
            joules=power.energy if power else None,
            temperature_celsius=temperature.gpu if temperature else None,
            unattributed_bytes=result.unattributed_bytes.get(uuid) if up else None,
            stuck=uuid in result.stuck,
            owners=result.shares.get(uuid, ()),
            states=result.states.get(uuid, {}),
        )


def _shown_reading(gpu: Gpu, name: str, kind: type[R], monotonic: MonotonicTime, stale: float) -> R | None:
    """Return the reading; None if the GPU has none, or it is stale."""
    cached = readings_of(gpu).get(name)
    if cached is None or not is_fresh(cached, monotonic, gpu.answered, stale):
        return None
    return cached.reading if isinstance(cached.reading, kind) else None
