"""MIG instances: what they are, their memory, and their activity (GPM, Hopper and newer)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter.collectors.base import Collector, Pace, Paced, Scope, Tick, read_when_due
from exporter.collectors.gpm import UNIT_IDS, UNITS, Activity, add_activity, keep_totals
from exporter.core.clock import UnixTime
from exporter.core.families import INSTANCE, Family, Sample, Unit, counter, gauge, info
from exporter.core.record import record
from exporter.driver.interface import Device

_RETRY_SECONDS = 300.0
"""Seconds until an instance without GPM (A100) is asked again."""


@record
class MigMemory:
    """Bytes of the instance."""

    total: int | None
    used: int | None
    free: int | None
    reserved: int | None


@record
class MigInstance:
    """`activity` is None without GPM; `tried_at` is when it was last asked for."""

    model: Paced[str]
    memory: Paced[MigMemory]
    activity: Activity | None
    tried_at: UnixTime

    @property
    def ratios(self) -> Mapping[str, float]:
        """Activity in the last cycle by unit (`graphics`, `sm`, `tensor`, …), 0 to 1."""
        return self.activity.ratios if self.activity else {}


def read_instance(device: Device, previous: MigInstance | None, tick: Tick) -> MigInstance:
    units, tried_at = _read_activity(device, previous, tick)
    return MigInstance(
        model=read_when_due(
            previous.model if previous else None,
            Pace.SLOW,
            tick,
            lambda: str(device.get("nvmlDeviceGetName") or ""),
        ),
        memory=read_when_due(previous.memory if previous else None, Pace.FAST, tick, lambda: _read_memory(device)),
        activity=units,
        tried_at=tried_at,
    )


def _read_memory(device: Device) -> MigMemory:
    info = device.get("nvmlDeviceGetMemoryInfo")
    return MigMemory(*(getattr(info, name, None) for name in ("total", "used", "free", "reserved")))


def _read_activity(device: Device, previous: MigInstance | None, tick: Tick) -> tuple[Activity | None, UnixTime]:
    if previous and previous.activity is None and 0 <= tick.time - previous.tried_at < _RETRY_SECONDS:
        return None, previous.tried_at
    values = device.get("nvmlGpmMetricsGet", UNIT_IDS)
    before = (previous.activity if previous else None) or Activity()
    units = (
        add_activity(before, values, tick.seconds)
        if values is not None
        else keep_totals(previous.activity if previous else None)
    )
    return units, tick.time


def _seconds_of(unit: str, what: str) -> Family[MigInstance]:
    def total(instance: MigInstance) -> float | None:
        return instance.activity.seconds.get(unit) if instance.activity else None

    name = "gpu_mig_sm_occupancy_seconds_total" if unit == "sm_occupancy" else f"gpu_mig_{unit}_active_seconds_total"
    text = f"Seconds, weighted by the fraction in which {what}, within the instance."
    return counter(name, text, Unit.SECONDS, total, INSTANCE)


def _bytes_of(kind: str, text: str, value: Callable[[MigMemory], int | None]) -> Family[MigInstance]:
    def number(instance: MigInstance) -> float | None:
        return value(instance.memory.value)

    return gauge(f"gpu_mig_memory_{kind}_bytes", text, Unit.BYTES, number, INSTANCE)


MIG: Collector[MigInstance] = Collector(
    name="mig",
    help="MIG instances. Per instance 1 driver call a cycle (with GPM), 1 every 5 s and 1 every 30 s.",
    pace=Pace.CYCLE,
    scope=Scope.INSTANCE,
    read=read_instance,
    families=(
        info("gpu_mig_info", "What the MIG instance is; always 1.", lambda i: (Sample(1, (i.model.value,)),), ("model",), INSTANCE),
        _bytes_of("total", "Device memory of the instance.", lambda memory: memory.total),
        _bytes_of("used", "Device memory of the instance in use.", lambda memory: memory.used),
        _bytes_of("free", "Device memory of the instance not in use.", lambda memory: memory.free),
        _bytes_of("reserved", "Device memory of the instance kept by the driver.", lambda memory: memory.reserved),
        *(_seconds_of(unit, what) for unit, _, what in UNITS),
    ),
)  # fmt: skip
