"""From the cached readings of the GPUs to finished samples: which series show in this pass."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.collectors.base import AnyCollector
from exporter.collectors.xid import XID_FAMILIES, XidCounts
from exporter.core.block import Block, LazyBlock
from exporter.core.clock import MonotonicTime
from exporter.driver.interface import Device
from exporter.sampling.cached_reading import CachedReading, is_fresh, outlives_device
from exporter.sampling.exporter_families import NODE_FAMILIES
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import Outcome
from exporter.sampling.snapshot import CollectorStatus, NodeStatus

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
            made = _made(cached, labels, broken)
            if not is_fresh(cached, monotonic, gpu.answered, stale):
                made = tuple([block for block in made if outlives_device(block.family)])
            found += made
    return found


def _made(cached: CachedReading, labels: tuple[str, ...], broken: set[str] | None) -> tuple[Block, ...]:
    try:
        return cached.blocks(labels)
    except Exception:  # a bug in one family must not take the page with it
        if broken is None:
            raise
        log.debug("samples of collector %s cannot be made", cached.collector.name, exc_info=True)
        broken.add(cached.collector.name)
        return ()


def xid_blocks(gpu: Gpu, counts: XidCounts) -> Iterator[LazyBlock]:
    """XIDs of a GPU, for good: one that fell off the bus has them to tell why."""
    return (LazyBlock(family, counts, prefix(gpu.device)) for family in XID_FAMILIES)


def node_blocks(status: NodeStatus, broken: Collection[str] = ()) -> Iterator[LazyBlock]:
    """Series of the node and the exporter; the collectors in `broken` have failed, however their read went."""
    if broken:
        collectors = (replace(each, success=each.success and each.name not in broken) for each in status.collectors)
        status = replace(status, collectors=tuple(collectors))
    return (LazyBlock(family, status) for family in NODE_FAMILIES)


def collector_statuses(
    collectors: Sequence[AnyCollector], outcomes: Iterable[Outcome], rejected: Mapping[str, int]
) -> tuple[CollectorStatus, ...]:
    """One row per collector, whatever happened; a collector no GPU has been asked yet has not failed."""
    by_collector: dict[str, list[Outcome]] = {collector.name: [] for collector in collectors}
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
