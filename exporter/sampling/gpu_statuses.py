"""The GPUs as the status page and the series of the node show them: made when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from exporter.collectors.info import Info
from exporter.collectors.memory import Memory
from exporter.collectors.power import Power
from exporter.collectors.temperature import Temperature
from exporter.collectors.utilization import Utilization
from exporter.core.clock import MonotonicTime
from exporter.sampling.accounting import AccountingResult
from exporter.sampling.cached_reading import is_fresh
from exporter.sampling.gpus import Gpu
from exporter.sampling.readings import reading, readings_of
from exporter.sampling.snapshot import GpuStatus

R = TypeVar("R")


def gpu_statuses(
    gpus: Sequence[Gpu], hung: Mapping[str, float], result: AccountingResult, monotonic: MonotonicTime, stale: float
) -> Iterator[GpuStatus]:
    """As the pass at `monotonic` found them; `hung` is how long the read of each GPU had been running by then."""
    leaked, states = result.unattributed_bytes(), result.states()
    for gpu in gpus:
        uuid = gpu.device.uuid
        up = gpu.answers(monotonic, stale)
        info = reading(gpu, "info", Info)
        utilization, memory, power, temperature = (
            _shown(gpu, "utilization", Utilization, monotonic, stale),
            _shown(gpu, "memory", Memory, monotonic, stale),
            _shown(gpu, "power", Power, monotonic, stale),
            _shown(gpu, "temperature", Temperature, monotonic, stale),
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
            power_watts=power.watts if power else None,
            joules=power.joules if power else None,
            temperature_celsius=temperature.gpu if temperature else None,
            unattributed_bytes=leaked.get(uuid) if up else None,
            owners=result.shares.get(uuid, ()),
            states=states.get(uuid, {}),
        )


def _shown(gpu: Gpu, name: str, kind: type[R], monotonic: MonotonicTime, stale: float) -> R | None:
    """None where the GPU has none of it, or it is stale."""
    cached = readings_of(gpu).get(name)
    if cached is None or not is_fresh(cached, monotonic, gpu.answered, stale):
        return None
    return cached.reading if isinstance(cached.reading, kind) else None
