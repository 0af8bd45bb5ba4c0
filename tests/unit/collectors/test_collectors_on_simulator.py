"""The collectors over whole simulated nodes: what is published agrees with what the node was made to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector, Scope, Tick
from exporter.collectors.gpm import Gpm
from exporter.collectors.mig import MigInstance
from exporter.collectors.processes import Processes
from exporter.collectors.utilization import Utilization
from exporter.core.families import Type
from exporter.driver.interface import Device, UnsupportedError
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.driver import SimulatedDriver, SimulatedGpu
from exporter.tools.simulator.spec import parse

Published = dict[tuple[str, tuple[str, ...]], float]


class Clock:
    """Unix seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Node:
    """Every collector on every target of a simulated node, cycle after cycle."""

    def __init__(self, spec: str) -> None:
        self.clock = Clock()
        self.driver = SimulatedDriver(parse(spec), self.clock, self.clock.sleep)
        self.driver.open()
        self.readings: dict[tuple[str, str], Any] = {}
        self.read_at: dict[tuple[str, str], float] = {}

    def targets(self) -> Iterator[Device]:
        for device in self.driver.devices():
            yield device
            yield from device.instances

    def passed(self, seconds: float = 1.0) -> None:
        for target in self.targets():
            for collector in COLLECTORS:
                if collector.scope is (Scope.GPU if target.mig is None else Scope.INSTANCE):
                    self._read(collector, target)
        self.clock.sleep(seconds)

    def _read(self, collector: AnyCollector, target: Device) -> None:
        key, now = (target.uuid, collector.name), self.clock.now
        before = self.read_at.get(key)
        if before is not None and now - before < collector.pace.value:
            return
        try:
            reading = collector.read(target, self.readings.get(key), Tick(now, 0.0 if before is None else now - before))
        except UnsupportedError:
            return
        self.readings[key], self.read_at[key] = reading, now

    def published(self, uuid: str, *types: Type) -> Published:
        return {
            (family.name, sample.labels): sample.value
            for collector in COLLECTORS
            if (uuid, collector.name) in self.readings
            for family in collector.families
            if family.type in types
            for sample in family.collect(self.readings[uuid, collector.name])
        }


SPECS = ["1xH200", "1xH100", "1xA100", "1xA100-mig", "1xH200-mig", "1xL40S", "1xRTX4090", "1xT4", "1xV100", "1xB200"]


@pytest.mark.parametrize("spec", SPECS)
def test_counters_never_fall_and_exist_from_the_second_cycle_on(spec: str) -> None:
    simulated = Node(spec)
    simulated.passed()
    simulated.passed()
    before = {target.uuid: simulated.published(target.uuid, Type.COUNTER) for target in simulated.targets()}
    for _ in range(60):
        simulated.passed()
    for target in simulated.targets():
        after = simulated.published(target.uuid, Type.COUNTER)
        assert set(after) == set(before[target.uuid])
        assert [key for key, value in after.items() if value < before[target.uuid][key]] == []


@pytest.mark.parametrize("spec", SPECS)
def test_ratios_are_between_zero_and_one(spec: str) -> None:
    simulated = Node(spec)
    for _ in range(12):
        simulated.passed()
    for target in simulated.targets():
        ratios = {k: v for k, v in simulated.published(target.uuid, Type.GAUGE).items() if k[0].endswith("_ratio")}
        assert [key for key, value in ratios.items() if not 0.0 <= value <= 1.0] == []


@pytest.mark.parametrize("spec", ["1xH200", "1xA100", "1xH200:input-bound", "1xH200:allocated-idle"])
def test_busy_seconds_are_what_the_simulated_gpu_did(spec: str) -> None:
    simulated = Node(spec)
    for _ in range(20):
        simulated.passed()
    (device,) = simulated.driver.devices()
    assert isinstance(device, SimulatedGpu)
    totals: list[tuple[float, float]] = []
    for seconds in (0, 120):
        for _ in range(seconds):
            simulated.passed()
        reading = simulated.readings[device.uuid, "utilization"]
        assert isinstance(reading, Utilization)
        assert reading.busy is not None
        totals.append((simulated.driver.now(), reading.busy.total))
    (start, low), (end, high) = totals
    track = device._gpu.targets[0].track
    told = track.total(Channel.BUSY, end) - track.total(Channel.BUSY, start)
    assert high - low == pytest.approx(told, abs=0.02 * (end - start))


def test_gpm_of_a_mig_instance_is_its_own() -> None:
    simulated = Node("1xH200-mig")
    for _ in range(30):
        simulated.passed()
    readings = [r for r in simulated.readings.values() if isinstance(r, MigInstance)]
    assert readings
    assert all(r.activity is not None and r.activity.seconds["sm"] <= 30 for r in readings)


def test_processes_are_on_their_targets() -> None:
    for spec in ("1xH200", "1xH200-mig"):
        simulated = Node(spec)
        for _ in range(3):
            simulated.passed()
        uuids = {target.uuid for target in simulated.targets()}
        (reading,) = [r for r in simulated.readings.values() if isinstance(r, Processes)]
        assert reading.running
        assert {process.target for process in reading.running} <= uuids


def test_rates_of_the_links_follow_the_counters() -> None:
    simulated = Node("2xH200")
    for _ in range(5):
        simulated.passed()
    gpms = [r for r in simulated.readings.values() if isinstance(r, Gpm)]
    assert all(r.nvlink.rate is not None and r.nvlink.rate >= 0 for r in gpms)
