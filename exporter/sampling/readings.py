"""From the collectors' readings of one GPU to what the ledger judges and the status page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from exporter.collectors.clocks import Clocks
from exporter.collectors.gpm import Gpm
from exporter.collectors.mig import MigInstance
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.pcie import Pcie
from exporter.collectors.power import Power
from exporter.collectors.processes import Processes
from exporter.collectors.throttle import Throttle
from exporter.collectors.utilization import Engines, Utilization
from exporter.core.clock import NEVER, MonotonicTime
from exporter.core.record import record
from exporter.core.units import Joules
from exporter.ledger.states.state import Signals
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import NO_STATE, CachedReading

R = TypeVar("R")

Readings = Mapping[str, CachedReading]
"""Of one GPU or MIG instance, by collector."""

_LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""One direction of one PCIe lane by generation, after encoding."""
_THERMAL = ("sw_thermal", "hw_thermal", "thermal")
_POWER_BRAKE = ("hw_power_brake",)


@record
class Throttled:
    """Seconds since driver load that a GPU was held back, as last read."""

    thermal: float | None
    power_brake: float | None
    monotonic: MonotonicTime
    sm_clock: float | None = None
    """While it was."""


def reading(gpu: Gpu, name: str, kind: type[R]) -> R | None:
    """The last good reading of one collector on the GPU, however old."""
    return _last(readings_of(gpu), name, kind)


def processes_are_listed(gpu: Gpu) -> bool:
    """Whether who runs on it is known: some guests' drivers do not tell, and the collector can be switched off."""
    return reading(gpu, "processes", Processes) is not None


def readings_of(gpu: Gpu, uuid: str = "") -> Readings:
    """What was last read of the GPU, or of one of its instances."""
    return gpu.states.get(uuid or gpu.device.uuid, NO_STATE).readings


def _last(readings: Readings, name: str, kind: type[R], since: MonotonicTime = NEVER) -> R | None:
    """None where the collector has read nothing good, or nothing `since` then."""
    cached = readings.get(name)
    if cached is None or cached.monotonic < since or not isinstance(cached.reading, kind):
        return None
    return cached.reading


def signals(gpu: Gpu, before: Throttled | None, now: Throttled | None, monotonic: MonotonicTime) -> Signals | None:
    """What the GPU did since the last pass; None when it did not answer in this one.

    `before` and `now` are how long it was held back until the last pass and until this one. What a collector that
    failed in this pass had found before is not of it.
    """
    if not gpu.reading:
        return None
    readings = readings_of(gpu)
    utilization = _last(readings, "utilization", Utilization, monotonic)
    power = _last(readings, "power", Power, monotonic)
    gpm = _last(readings, "gpm", Gpm, monotonic)
    ratios: Mapping[str, float] = gpm.ratios if gpm else {}
    clocks = _last(readings, "clocks", Clocks)
    thermal, power_brake = _throttled_shares(now, before) if now and before else (None, None)
    return Signals(
        busy=_busy(utilization, ratios),
        engine_active=_engines(readings, monotonic),
        sm_active=ratios.get("sm"),
        tensor_active=ratios.get("tensor"),
        dram_active=ratios.get("dram"),
        vector_active=_vector(ratios),
        memory_activity=utilization.memory_share if utilization else None,
        link_activity=_link_activity(readings, gpm) if gpm else None,
        power_of_limit=power.of_limit if power else None,
        throttled_thermal=thermal,
        throttled_power_brake=power_brake,
        sm_clock=now.sm_clock if now and now.sm_clock else clocks.now.get("sm") if clocks else None,
        sm_clock_max=clocks.maximum.value.get("sm") if clocks else None,
    )


def _busy(utilization: Utilization | None, ratios: Mapping[str, float]) -> float | None:
    """Of the pass. Without a sample buffer NVML's figure is of a window of its own, which does not go with GPM's."""
    graphics = ratios.get("graphics")
    if utilization is None or (graphics is not None and (utilization.busy is None or not utilization.busy.sampled)):
        return graphics
    return utilization.share


_ENGINES_SECONDS = 12.0
"""Two of the collector's turns and a late pass."""


def _engines(readings: Readings, monotonic: MonotonicTime) -> float | None:
    """The one that was in use most, by its last reading: they are asked every few passes."""
    found = _last(readings, "engines", Engines, monotonic - _ENGINES_SECONDS)
    if found is None:
        return None
    shares = (found.encoder, found.decoder, found.jpeg, found.ofa)
    return max([share for share in shares if share is not None], default=None)


def _vector(ratios: Mapping[str, float]) -> float | None:
    """Shares of the pipes' own peak; several at once are more work than one, and never more than all the time."""
    pipes = [ratios[pipe] for pipe in ("fp64", "fp32", "fp16") if pipe in ratios]
    return min(1.0, sum(pipes)) if pipes else None


def instance_signals(gpu: Gpu, uuid: str, whole: Signals | None, monotonic: MonotonicTime) -> Signals | None:
    """What one MIG instance did: activity from GPM; heat and power are the GPU's as a whole."""
    if whole is None:
        return None
    found = _last(readings_of(gpu, uuid), "mig", MigInstance, monotonic)
    ratios: Mapping[str, float] = found.ratios if found else {}
    return Signals(
        busy=ratios.get("graphics"),
        sm_active=ratios.get("sm"),
        tensor_active=ratios.get("tensor"),
        dram_active=ratios.get("dram"),
        vector_active=_vector(ratios),
        throttled_thermal=whole.throttled_thermal,
        throttled_power_brake=whole.throttled_power_brake,
        sm_clock=whole.sm_clock,
        sm_clock_max=whole.sm_clock_max,
    )


def throttled(gpu: Gpu, monotonic: MonotonicTime) -> Throttled | None:
    found = _last(readings_of(gpu), "throttle", Throttle, monotonic)
    if found is None:
        return None
    return Throttled(_longest(found, _THERMAL), _longest(found, _POWER_BRAKE), monotonic, found.sm_clock)


def joules(gpu: Gpu) -> Joules | None:
    """Energy since driver load, as last read."""
    power = reading(gpu, "power", Power)
    return power.joules if power else None


def busy_seconds(gpu: Gpu, monotonic: MonotonicTime) -> float | None:
    """Seconds a kernel ran since the first read, by the reading of this very pass."""
    found = _last(readings_of(gpu), "utilization", Utilization, monotonic) if gpu.reading else None
    return found.busy.total if found and found.busy else None


def _longest(found: Throttle, reasons: tuple[str, ...]) -> float | None:
    """Reasons hold at the same time, so the longest stands for all; None where the driver counts none of them."""
    return max([found.seconds[reason] for reason in reasons if reason in found.seconds], default=None)


def _throttled_shares(now: Throttled, before: Throttled) -> tuple[float | None, float | None]:
    """By heat and by the power brake, of the time between."""
    seconds = now.monotonic - before.monotonic
    return _share(before.thermal, now.thermal, seconds), _share(before.power_brake, now.power_brake, seconds)


def _share(earlier: float | None, later: float | None, seconds: float) -> float | None:
    if later is None or earlier is None or seconds <= 0:
        return None
    return min(max(later - earlier, 0.0) / seconds, 1.0)


def _link_activity(readings: Readings, gpm: Gpm) -> float | None:
    """Traffic both ways over what the links can carry both ways: the busier of NVLink and PCIe."""
    nvlink, pcie = _last(readings, "nvlink", Nvlink), _last(readings, "pcie", Pcie)
    shares: list[float] = []
    over_nvlink, over_pcie = gpm.nvlink.rate, gpm.pcie.rate
    if over_nvlink is not None and nvlink and nvlink.speed:
        links = sum(nvlink.up.values())
        shares += [over_nvlink / (2 * nvlink.speed * links)] if links else []
    lane = _LANE_BYTES_PER_SECOND.get(pcie.generation or 0) if pcie else None
    if over_pcie is not None and pcie and lane and pcie.width:
        shares.append(over_pcie / (2 * lane * pcie.width))
    return min(max(shares), 1.0) if shares else None
