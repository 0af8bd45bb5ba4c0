"""From the collectors' readings of one GPU to what the ledger judges and the status page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from exporter.clock import MonotonicTime
from exporter.collectors.clocks import Clocks
from exporter.collectors.engines import Engines
from exporter.collectors.gpm import Gpm
from exporter.collectors.info import Info
from exporter.collectors.memory import Memory
from exporter.collectors.mig import MigInstance
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.pcie import Pcie
from exporter.collectors.power import Power
from exporter.collectors.temperature import Temperature
from exporter.collectors.throttle import Throttle
from exporter.collectors.utilization import Utilization
from exporter.ledger.evidence import Signals
from exporter.record import record
from exporter.sampling.cached_reading import is_fresh
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import NO_STATE
from exporter.units import Joules

R = TypeVar("R")

_LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""One direction of one PCIe lane by generation, after encoding."""
_THERMAL = ("sw_thermal", "hw_thermal", "thermal")
_POWER_BRAKE = ("hw_power_brake",)


@record
class Numbers:
    """What a person wants to see first; None where the GPU has none, or it is stale."""

    model: str = ""
    busy: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    power: float | None = None
    temperature: float | None = None


@record
class Throttled:
    """Seconds since driver load that a GPU was held back, as last read."""

    thermal: float | None
    power_brake: float | None
    monotonic: MonotonicTime
    sm_clock: float | None = None
    """While it was."""


def numbers(gpu: Gpu, monotonic: MonotonicTime, stale: float) -> Numbers:
    def shown(name: str, kind: type[R]) -> R | None:
        cached = gpu.states.get(gpu.device.uuid, NO_STATE).readings.get(name)
        if cached is None or not is_fresh(cached, monotonic, gpu.answered, stale):
            return None
        return cached.reading if isinstance(cached.reading, kind) else None

    info = reading(gpu, gpu.device.uuid, "info", Info)
    utilization, memory = shown("utilization", Utilization), shown("memory", Memory)
    power, temperature = shown("power", Power), shown("temperature", Temperature)
    return Numbers(
        model=info.model if info else "",
        busy=utilization.share if utilization else None,
        memory_used=memory.used if memory else None,
        memory_total=memory.total if memory else None,
        power=power.watts if power else None,
        temperature=temperature.gpu if temperature else None,
    )


def reading(gpu: Gpu, uuid: str, name: str, kind: type[R]) -> R | None:
    """The last good reading of one collector on the GPU or one of its instances, however old."""
    state = gpu.states.get(uuid)
    cached = state.readings.get(name) if state else None
    return cached.reading if cached and isinstance(cached.reading, kind) else None


def signals(gpu: Gpu, before: Throttled | None, now: Throttled | None, monotonic: MonotonicTime) -> Signals | None:
    """What the GPU did since the last pass; None when it did not answer in this one.

    `before` and `now` are how long it was held back until the last pass and until this one.
    """
    if not gpu.reading:
        return None
    utilization = _now(gpu, "utilization", Utilization, monotonic)
    power = _now(gpu, "power", Power, monotonic)
    gpm = _now(gpu, "gpm", Gpm, monotonic)
    ratios: Mapping[str, float] = gpm.ratios if gpm else {}
    clocks = reading(gpu, gpu.device.uuid, "clocks", Clocks)
    thermal, power_brake = _throttled_shares(now, before) if now and before else (None, None)
    return Signals(
        busy=_busy(utilization, ratios),
        engine_active=_engines(gpu, monotonic),
        sm_active=ratios.get("sm"),
        tensor_active=ratios.get("tensor"),
        dram_active=ratios.get("dram"),
        vector_active=_vector(ratios),
        memory_activity=utilization.memory_share if utilization else None,
        link_activity=_link_activity(gpu, gpm) if gpm else None,
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


def _engines(gpu: Gpu, monotonic: MonotonicTime) -> float | None:
    """The one that was in use most, by its last reading: they are asked every few passes."""
    cached = gpu.states.get(gpu.device.uuid, NO_STATE).readings.get("engines")
    if cached is None or monotonic - cached.monotonic > _ENGINES_SECONDS or not isinstance(cached.reading, Engines):
        return None
    found = (cached.reading.encoder, cached.reading.decoder, cached.reading.jpeg, cached.reading.ofa)
    return max((share for share in found if share is not None), default=None)


def _vector(ratios: Mapping[str, float]) -> float | None:
    """Shares of the pipes' own peak; several at once are more work than one, and never more than all the time."""
    pipes = [ratios[pipe] for pipe in ("fp64", "fp32", "fp16") if pipe in ratios]
    return min(1.0, sum(pipes)) if pipes else None


def instance_signals(gpu: Gpu, uuid: str, whole: Signals | None, monotonic: MonotonicTime) -> Signals | None:
    """What one MIG instance did: activity from GPM; heat and power are the GPU's as a whole."""
    if whole is None:
        return None
    found = _now(gpu, "mig", MigInstance, monotonic, uuid)
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
    found = _now(gpu, "throttle", Throttle, monotonic)
    if found is None:
        return None
    return Throttled(_longest(found, _THERMAL), _longest(found, _POWER_BRAKE), monotonic, found.sm_clock)


def joules(gpu: Gpu) -> Joules | None:
    """Energy since driver load, as last read."""
    power = reading(gpu, gpu.device.uuid, "power", Power)
    return power.joules if power else None


def _now(gpu: Gpu, name: str, kind: type[R], monotonic: MonotonicTime, uuid: str = "") -> R | None:
    """The reading of this very pass, of the GPU or an instance; a collector that failed in it reports nothing of it."""
    state = gpu.states.get(uuid or gpu.device.uuid)
    cached = state.readings.get(name) if state else None
    return cached.reading if cached and cached.monotonic >= monotonic and isinstance(cached.reading, kind) else None


def busy_seconds(gpu: Gpu, monotonic: MonotonicTime) -> float | None:
    """Seconds a kernel ran since the first read, by the reading of this very pass."""
    found = _now(gpu, "utilization", Utilization, monotonic) if gpu.reading else None
    return found.busy.total if found and found.busy else None


def shows_utilization(gpu: Gpu) -> bool:
    """Whether a look sees how busy it is; not in MIG mode."""
    found = reading(gpu, gpu.device.uuid, "utilization", Utilization)
    return found is not None and found.gpu is not None


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


def _link_activity(gpu: Gpu, gpm: Gpm) -> float | None:
    """Traffic both ways over what the links can carry both ways: the busier of NVLink and PCIe."""
    nvlink = reading(gpu, gpu.device.uuid, "nvlink", Nvlink)
    pcie = reading(gpu, gpu.device.uuid, "pcie", Pcie)
    shares: list[float] = []
    over_nvlink, over_pcie = gpm.nvlink_bytes_per_second, gpm.pcie_bytes_per_second
    if over_nvlink is not None and nvlink and nvlink.speed:
        links = sum(nvlink.up.values())
        shares += [over_nvlink / (2 * nvlink.speed * links)] if links else []
    lane = _LANE_BYTES_PER_SECOND.get(pcie.generation or 0) if pcie else None
    if over_pcie is not None and pcie and lane and pcie.width:
        shares.append(over_pcie / (2 * lane * pcie.width))
    return min(max(shares), 1.0) if shares else None
