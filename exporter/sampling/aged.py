"""The last snapshot while no pass ends: what it reports of levels is no longer true, and how old it is shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exporter.core.block import AnyBlock
from exporter.sampling.blocks import node_blocks
from exporter.sampling.cached_reading import outlives_device
from exporter.sampling.exporter_families import NODE_FAMILIES
from exporter.sampling.snapshot import NodeStatus, ProcessHealth, Snapshot

_OWN = frozenset(family.name for family in NODE_FAMILIES)


def aged(snapshot: Snapshot, seconds: float, process: ProcessHealth) -> Snapshot:
    """`snapshot`, `seconds` after its pass: counters and descriptions as they were, no gauges of GPUs and owners."""
    status = _later(snapshot.status, seconds, process)

    def series() -> Iterator[AnyBlock]:
        for block in snapshot.series():
            if outlives_device(block.family) and block.family.name not in _OWN:
                yield block
        yield from node_blocks(status)

    return Snapshot(status, series, (), snapshot.monotonic)


def _later(status: NodeStatus, seconds: float, process: ProcessHealth) -> NodeStatus:
    return replace(
        status,
        gpus=tuple(replace(gpu, up=False, age=gpu.age + seconds) for gpu in status.gpus),
        sources=tuple(replace(source, success=False, age=source.age + seconds) for source in status.sources),
        unattributed_processes=None,
        process=process,
    )
