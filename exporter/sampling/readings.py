"""Step from the collectors' readings of one GPU to the ledger's input: signals, allocations, energy, busy time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.collectors.clocks import Clocks
from exporter.collectors.gpm import Gpm
from exporter.collectors.mig import MigInstance
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.pcie import Pcie
from exporter.collectors.power import Power
from exporter.collectors.processes import Processes
from exporter.collectors.sample_integral import Integral
from exporter.collectors.throttle import Throttle
from exporter.collectors.utilization import Engines, Utilization
from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.core.units import Joules
from exporter.ledger.account import Counted, Reading
from exporter.ledger.states.state import Signals
from exporter.sampling.gpus import Gpu, reading, readings_of
from exporter.sampling.join import Join, allocations

_LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""One direction of one PCIe lane by generation, after encoding."""
_THERMAL = ("sw_thermal", "hw_thermal", "thermal")
_POWER_BRAKE, _POWER_CAP = ("hw_power_brake",), ("sw_power_cap",)


@record
class Throttled:
    """Seconds since driver load that a GPU was throttled, as last read."""

    thermal: float | None
    power_brake: float | None
    monotonic: MonotonicTime
    sm_clock: float | None = None
    """Clock while heat or the power brake lowered it."""
    power_cap: float | None = None
    sm_clock_capped: float | None = None
    """Clock while its power limit alone lowered it."""


def processes_are_listed(gpu: Gpu) -> bool:
    """Return whether its processes are known: some guests' drivers do not list them, and the collector can be off."""
    return reading(gpu, "processes", Processes) is not None


def signals(gpu: Gpu, before: Throttled | None, now: Throttled | None, monotonic: MonotonicTime) -> Signals | None:
    """Return what the GPU did since the last cycle; None when it did not answer in this one, or reports nothing of use.

    `before` and `now` are how long it was throttled until the last cycle and until this one. What a collector that
    failed in this cycle had found before is not of it.
    """
    if not gpu.reading:
        return None
    utilization = reading(gpu, "utilization", Utilization, monotonic)
    power = reading(gpu, "power", Power, monotonic)
    gpm = reading(gpu, "gpm", Gpm, monotonic)
    ratios: Mapping[str, float] = gpm.ratios if gpm else {}
    busy = _busy_ratio(utilization, ratios)
    if busy is None and gpm is None and not (processes_are_listed(gpu) or gpu.device.instances):
        return None  # integrated GPUs report neither
    clocks = reading(gpu, "clocks", Clocks)
    since = now.monotonic - before.monotonic if now and before else 0.0
    return Signals(
        busy=busy,
        engine_active=_busiest_engine(gpu, monotonic),
        sm_active=ratios.get("sm"),
        tensor_active=ratios.get("tensor"),
        dram_active=ratios.get("dram"),
        vector_active=_vector_activity(ratios),
        memory_activity=utilization.memory_ratio if utilization else None,
        link_activity=_link_activity(gpu, gpm) if gpm else None,
        power_of_limit=power.of_limit if power else None,
        throttled_thermal=_increase_ratio(before.thermal, now.thermal, since) if now and before else None,
        throttled_power_brake=_increase_ratio(before.power_brake, now.power_brake, since) if now and before else None,
        throttled_power_cap=_increase_ratio(before.power_cap, now.power_cap, since) if now and before else None,
        sm_clock=clocks.now.get("sm") if clocks else None,
        sm_clock_throttled=now.sm_clock if now else None,
        sm_clock_capped=now.sm_clock_capped if now else None,
        sm_clock_max=clocks.maximum.value.get("sm") if clocks else None,
    )


def _busy_ratio(utilization: Utilization | None, ratios: Mapping[str, float]) -> float | None:
    """Return the busy ratio. Without a sample buffer NVML's figure is of another window than GPM's."""
    graphics = ratios.get("graphics")
    if utilization is None or (graphics is not None and (utilization.busy is None or not utilization.busy.sampled)):
        return graphics
    return utilization.share


_ENGINES_SECONDS = 12.0
"""Two of the collector's turns and a late cycle."""


def _busiest_engine(gpu: Gpu, monotonic: MonotonicTime) -> float | None:
    """The one that was in use most, by its last reading: they are asked every few cycles."""
    found = reading(gpu, "engines", Engines, monotonic - _ENGINES_SECONDS)
    if found is None:
        return None
    shares = (found.encoder, found.decoder, found.jpeg, found.ofa)
    return max([ratio for ratio in shares if ratio is not None], default=None)


def _vector_activity(ratios: Mapping[str, float]) -> float | None:
    """Fractions of the pipes' own peak; several at once are more work than one, and never more than all the time."""
    pipes = [ratios[pipe] for pipe in ("fp64", "fp32", "fp16") if pipe in ratios]
    return min(1.0, sum(pipes)) if pipes else None


def instance_signals(gpu: Gpu, uuid: str, whole: Signals | None, monotonic: MonotonicTime) -> Signals | None:
    """Return what one MIG instance did: activity from GPM; heat and power are the GPU's as a whole."""
    if whole is None:
        return None
    found = reading(gpu, "mig", MigInstance, monotonic, uuid)
    ratios: Mapping[str, float] = found.ratios if found else {}
    return Signals(
        busy=ratios.get("graphics"),
        sm_active=ratios.get("sm"),
        tensor_active=ratios.get("tensor"),
        dram_active=ratios.get("dram"),
        vector_active=_vector_activity(ratios),
        throttled_thermal=whole.throttled_thermal,
        throttled_power_brake=whole.throttled_power_brake,
        sm_clock=whole.sm_clock,
        sm_clock_throttled=whole.sm_clock_throttled,
        sm_clock_max=whole.sm_clock_max,
    )


def throttled(gpu: Gpu, monotonic: MonotonicTime) -> Throttled | None:
    found = reading(gpu, "throttle", Throttle, monotonic)
    if found is None:
        return None
    slowed = any(found.active.get(reason) for reason in (*_THERMAL, *_POWER_BRAKE))
    return Throttled(
        _longest_reason(found, _THERMAL),
        _longest_reason(found, _POWER_BRAKE),
        monotonic,
        found.sm_clock if slowed else None,
        _longest_reason(found, _POWER_CAP),
        None if slowed else found.sm_clock,
    )


def busy_integral(gpu: Gpu, monotonic: MonotonicTime) -> Integral | None:
    """Return the seconds in which a kernel ran, by the reading of this very cycle."""
    found = reading(gpu, "utilization", Utilization, monotonic) if gpu.reading else None
    return found.busy if found else None


def _longest_reason(found: Throttle, reasons: tuple[str, ...]) -> float | None:
    """Reasons hold at the same time, so the longest stands for all; None where the driver counts none of them."""
    return max([found.seconds[reason] for reason in reasons if reason in found.seconds], default=None)


def _increase_ratio(earlier: float | None, later: float | None, seconds: float) -> float | None:
    if later is None or earlier is None or seconds <= 0:
        return None
    return min(max(later - earlier, 0.0) / seconds, 1.0)


def _link_activity(gpu: Gpu, gpm: Gpm) -> float | None:
    """Traffic both ways over what the links can carry both ways: the busier of NVLink and PCIe."""
    nvlink, pcie = reading(gpu, "nvlink", Nvlink), reading(gpu, "pcie", Pcie)
    shares: list[float] = []
    over_nvlink, over_pcie = gpm.nvlink.rate, gpm.pcie.rate
    if over_nvlink is not None and nvlink and nvlink.speed:
        links = sum(nvlink.up.values())
        shares += [over_nvlink / (2 * nvlink.speed * links)] if links else []
    lane = _LANE_BYTES_PER_SECOND.get(pcie.generation or 0) if pcie else None
    if over_pcie is not None and pcie and lane and pcie.width:
        shares.append(over_pcie / (2 * lane * pcie.width))
    return min(max(shares), 1.0) if shares else None


_STUCK_RATIO = 0.99
_IDLE_STATE = 8
"""The performance state from which on no kernel runs for long: the driver raises the clocks for one."""


def is_stuck(gpu: Gpu, join: Join) -> bool:
    """Return whether a GPU reports full use in an idle performance state, without a process or an allocation."""
    use, clocks = reading(gpu, "utilization", Utilization), reading(gpu, "clocks", Clocks)
    if use is None or clocks is None or not (use.share or 0.0) >= _STUCK_RATIO or (clocks.state or 0) < _IDLE_STATE:
        return False
    uuid = gpu.device.uuid
    return processes_are_listed(gpu) and not join.running[uuid] and not join.ownership.holders.get(uuid)


class LedgerReadings:
    """Keeps of the cycle before what the differences to this one need."""

    def __init__(self) -> None:
        self._throttled: dict[str, Throttled] = {}
        self._joules: dict[str, tuple[Joules, MonotonicTime]] = {}
        """Energy by uuid, and when it was read."""
        self._busy: dict[str, tuple[Integral, MonotonicTime]] = {}
        """Busy seconds by uuid, and when they were read."""

    def of(self, gpus: Sequence[Gpu], join: Join, monotonic: MonotonicTime) -> tuple[Reading, ...]:
        return tuple([each for gpu in gpus for each in self._gpu_readings(gpu, join, monotonic)])

    def _gpu_readings(self, gpu: Gpu, join: Join, monotonic: MonotonicTime) -> Iterator[Reading]:
        uuid = gpu.device.uuid
        running, ownership, listed = join.running[uuid], join.ownership, processes_are_listed(gpu)
        held_back = throttled(gpu, monotonic)
        whole = signals(gpu, self._throttled.get(uuid), held_back, monotonic)
        if whole and is_stuck(gpu, join):
            whole = replace(whole, busy=0.0)
        gained, metered = self._energy_gain(gpu)
        yield Reading(
            join.targets[uuid],
            whole,
            allocations(uuid, running, ownership, join.hosts, listed=listed),
            gained,
            counted=self._counted(gpu, monotonic),
            metered=metered,
        )
        for instance in gpu.device.instances:
            found = instance_signals(gpu, instance.uuid, whole, monotonic)
            profile = instance.mig.profile if instance.mig else ""
            owned = allocations(instance.uuid, running, ownership, join.hosts, listed=listed)
            yield Reading(join.targets[instance.uuid], found, owned, profile=profile)
        if held_back:
            self._throttled[uuid] = held_back

    def _energy_gain(self, gpu: Gpu) -> tuple[Joules, float]:
        """Return joules and seconds since the reading before. A counter that went back was reset and counts from 0."""
        cached = readings_of(gpu).get("power")
        total = cached.reading.energy if cached else None
        if cached is None or total is None:
            return Joules(0.0), 0.0
        before, at = self._joules.get(gpu.device.uuid, (total, cached.monotonic))
        self._joules[gpu.device.uuid] = (total, cached.monotonic)
        return Joules(total - before) if total >= before else total, cached.monotonic - at

    def _counted(self, gpu: Gpu, monotonic: MonotonicTime) -> Counted | None:
        """Return the busy time since the last read by the driver's counter; one that went back began anew."""
        now = busy_integral(gpu, monotonic)
        if now is None:
            return None
        before = self._busy.get(gpu.device.uuid)
        self._busy[gpu.device.uuid] = (now, monotonic)
        if before is None:
            return None
        if now.total < before[0].total:
            return Counted(now.total, monotonic - before[1])
        return Counted(now.total - before[0].total, monotonic - before[1], now.lost - before[0].lost)
