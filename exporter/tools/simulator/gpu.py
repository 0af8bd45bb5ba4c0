"""One simulated GPU as physics: its history, energy, heat, clocks and memory at any moment, before NVML's units."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from exporter.tools.simulator.behaviour import CONTEXT_BYTES, ZERO, Behaviour, Channel, Rates, Role, behaviour
from exporter.tools.simulator.models import MIB, Slice
from exporter.tools.simulator.patterns import Fault
from exporter.tools.simulator.scenario import Plan, Scenario
from exporter.tools.simulator.workload import Place, Workload

_KEPT = 16
"""Episodes kept for the history; further back the history is computed again from its beginning."""

_POINTS = 128
"""Moments remembered: one cycle asks many channels about the same few."""


class Step(NamedTuple):
    """A change: when it begins and how long it lasts."""

    behaviour: Behaviour
    end: float


class Episode(NamedTuple):
    start: float
    end: float
    behaviour: Behaviour
    totals: Rates
    """Totals at its start."""
    active: float
    """The wave's integral at its start."""

    def total(self, channel: int, time: float, active: float) -> float:
        """`active` is the wave's integral at `time`."""
        idle = self.behaviour.idle[channel]
        busy = self.behaviour.active[channel] - idle
        return self.totals[channel] + idle * (time - self.start) + busy * (active - self.active)


class Track:
    """Totals by channel, as a function of the time since the start. Safe to ask from several threads."""

    def __init__(self, step: Callable[[float], Step]) -> None:
        self._step = step
        self._episodes: tuple[Episode, ...] = (self._next_episode(0.0, ZERO),)
        self._points: dict[float, tuple[Episode, float]] = {}

    def episode(self, time: float) -> Episode:
        """The episode at `time`; a time before the start counts as the start."""
        time = max(time, 0.0)
        episodes = self._episodes
        if episodes[-1].start <= time < episodes[-1].end:
            return episodes[-1]
        if time < episodes[0].start:
            episodes = (self._next_episode(0.0, ZERO),)
        while episodes[-1].end <= time:
            last = episodes[-1]
            active = last.behaviour.wave.active(last.end)
            totals = tuple(last.total(channel, last.end, active) for channel in Channel)
            episodes = (*episodes[-_KEPT:], self._next_episode(last.end, totals))
        self._episodes = episodes
        return next(episode for episode in reversed(episodes) if episode.start <= time)

    def total(self, channel: Channel, time: float) -> float:
        time = max(time, 0.0)
        point = self._points.get(time)
        if point is None:
            episode = self.episode(time)
            point = (episode, episode.behaviour.wave.active(time))
            if len(self._points) >= _POINTS:
                self._points = {}
            self._points[time] = point
        episode, active = point
        return episode.total(channel, time, active)

    def _next_episode(self, start: float, totals: Rates) -> Episode:
        behaviour, end = self._step(start)
        if not end > start:
            end = math.inf
        return Episode(start, end, behaviour, totals, behaviour.wave.active(start))


RATE_WINDOW_SECONDS = 1.0
"""Seconds the gauges of use and the reasons for low clocks are a mean of."""
AMBIENT_CELSIUS = 30.0
_FULL_LOAD_RISE_CELSIUS = 36.0
"""°C above ambient at the power limit."""
_THERMAL_SECONDS = 30.0
"""The heat sink follows the mean power of so many seconds."""
_RAMP_SECONDS = 20.0
"""A workload takes its memory within this time."""
_DRIVER_BYTES = 4 * MIB
_LEAKED = 0.35
"""Part of the memory that stays in use after a process died without giving it back."""


class Running(NamedTuple):
    workload: Workload
    run: int
    rank: int
    """Rank of the target among the workload's on this node."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on one target. `share` is its part of the target's work."""

    pid: int
    running: Running
    place: Place
    memory: int
    share: float
    began: float


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Bytes; they sum to the total."""

    total: int
    reserved: int
    used: int

    @property
    def free(self) -> int:
        return self.total - self.reserved - self.used


class Target:
    """A thing that can be allocated: the GPU, or one of its MIG instances."""

    def __init__(self, place: Place, plan: Plan, scenario: Scenario, faults: tuple[Fault, ...]) -> None:
        self.place = place
        self.slice: Slice | None = plan.model.slices[place.slot] if place.slot is not None else None
        self.share = self.slice.slices / 7 if self.slice else 1.0
        self._plan = plan
        self._seed = scenario.seed
        self._workloads = tuple(each for each in scenario.workloads if place in each.places)
        self._faults = faults
        node = int(identity(scenario, "pid", "")[:4], 16) % 100
        self._pid = 1_000_000 + node * 1_000 * 97 % 900_000 + place.gpu * 8_000 + (place.slot or 0) * 1_000
        whole = plan.model.memory * MIB
        self._total = whole * self.slice.memory_eighths // 8 if self.slice else whole
        self.track = Track(self._step)

    def running(self, time: float) -> Running | None:
        """Return the workload that it is allocated to, also with no process on it."""
        for workload in self._workloads:
            run = workload.run(time)
            if run is not None:
                return Running(workload, run, workload.places.index(self.place))
        return None

    def processes(self, time: float) -> tuple[GpuProcess, ...]:
        now = self.running(time)
        count = now.workload.pattern.processes if now else 0
        if not now or not count:
            return ()
        began = now.workload.began(now.run)
        grown = min(1.0, 0.2 + 0.8 * (time - began) / _RAMP_SECONDS)
        each = int(self._total * now.workload.pattern.of_rank(now.rank).memory * grown) // count + CONTEXT_BYTES
        first = self._pid + now.run * 10 % 900
        return tuple(GpuProcess(first + number, now, self.place, each, 1.0 / count, began) for number in range(count))

    def memory(self, time: float) -> MemoryState:
        reserved = self._total // 160
        used = _DRIVER_BYTES + sum(process.memory for process in self.processes(time))
        if any(fault.kind.name == "leaked-memory" and fault.active(time) for fault in self._faults):
            used += int(self._total * _LEAKED)
        return MemoryState(self._total, reserved, min(used, self._total - reserved))

    def behaviour(self, time: float) -> Behaviour:
        return self.track.episode(time).behaviour

    def mean(self, channel: Channel, time: float, window: float) -> float:
        """Mean rate over the last `window` seconds."""
        return (self.track.total(channel, time) - self.track.total(channel, time - window)) / window

    def _step(self, time: float) -> Step:
        running = self.running(time)
        active = [fault for fault in self._faults if fault.active(time)]
        role = None
        if running:
            # All ranks of a job share one seed: they step together, as synchronous training does.
            role = Role(
                running.workload.pattern.of_rank(running.rank),
                self._seed + running.workload.job,
                running.rank,
                self.share,
                running.workload.nodes,
            )
        changes = [workload.change(time) for workload in self._workloads]
        changes += [edge for fault in self._faults for edge in (fault.at, fault.end) if edge > time]
        return Step(behaviour(self._plan.model, role, active), min(changes, default=math.inf))


class Gpu:
    """A GPU and its targets: itself, or its MIG instances. All times are seconds since the start."""

    def __init__(self, index: int, scenario: Scenario) -> None:
        plan = scenario.gpus[index]
        self.index = index
        self.model = plan.model
        self.mig = plan.mig
        self.driver = scenario.driver
        self.branch = int(scenario.driver.split(".")[0])
        self.uuid = f"GPU-{identity(scenario, 'gpu', index)}"
        self.serial = str(1_560_000_000_000 + int(identity(scenario, "serial", index)[:8], 16))
        self.bus = 0x18 + 0x10 * (index % 8) + 3 * (index // 8)
        self.faults = tuple(fault for fault in scenario.faults if fault.concerns(index))
        places = [Place(index, slot) for slot in plan.slots]
        self.targets = tuple(Target(place, plan, scenario, self.faults) for place in places)
        self.instance_uuids = tuple(f"MIG-{identity(scenario, 'mig', place)}" for place in places) if plan.mig else ()
        self._energy_before = 1e6 + int(identity(scenario, "energy", index)[:6], 16)

    @property
    def pci_bus_id(self) -> str:
        return f"0000:{self.bus:02x}:00.0"

    def has(self, kind: str, time: float) -> bool:
        """Return whether a fault of this kind is active."""
        return bool(self.faults) and any(fault.kind.name == kind and fault.active(time) for fault in self.faults)

    def total(self, channel: Channel, time: float) -> float:
        """Return the total to 12 digits: more depend on the order of the sum, and counters must not go back."""
        return float(f"{sum(target.track.total(channel, time) for target in self.targets):.12g}")

    def mean(self, channel: Channel, time: float, window: float) -> float:
        return sum(target.mean(channel, time, window) for target in self.targets)

    def joules(self, time: float) -> float:
        """Return the energy since the driver was loaded, which was before the start."""
        return self._energy_before + self.model.idle * time + self.total(Channel.ENERGY, time)

    def watts(self, time: float, window: float) -> float:
        """Mean over the last `window` seconds."""
        return self.model.idle + self.mean(Channel.ENERGY, time, window)

    def temperature(self, time: float) -> float:
        """°C; slowdown keeps it at its limit at most."""
        rise = _FULL_LOAD_RISE_CELSIUS * self.watts(time, _THERMAL_SECONDS) / self.model.limit
        heat = max(target.behaviour(time).heat for target in self.targets)
        return min(AMBIENT_CELSIUS + rise * heat, self.model.max_temperature + 1.0)

    def busy(self, time: float, window: float) -> float:
        return min(1.0, max(target.mean(Channel.BUSY, time, window) for target in self.targets))

    def clock(self, time: float) -> int:
        """MHz of the SMs."""
        if not any(target.behaviour(time).active[Channel.BUSY] for target in self.targets):
            return self.model.idle_clock
        if not self.busy(time, 5.0):
            return self.model.idle_clock
        factor = min(target.behaviour(time).clock for target in self.targets)
        capped = self.mean(Channel.SW_POWER, time, 1.0) > 0
        return int(self.model.clock * factor * (0.91 if capped else 1.0)) // 15 * 15

    def memory(self, time: float) -> MemoryState:
        """The whole board's; what no instance has is free."""
        parts = [target.memory(time) for target in self.targets]
        total = self.model.memory * MIB
        return MemoryState(total, sum(part.reserved for part in parts), sum(part.used for part in parts))

    def processes(self, time: float) -> tuple[GpuProcess, ...]:
        return tuple(process for target in self.targets for process in target.processes(time))


def identity(scenario: Scenario, what: str, which: object) -> str:
    """A UUID's text, the same for the same seed, node and thing."""
    digest = hashlib.sha256(f"{scenario.seed}/{scenario.node}/{what}/{which}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
