"""A node on which nothing changes has fewer passes, and what happens on it is seen as soon as before."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle

import pytest

from exporter.attribution.ownership import Ownership, WorkloadInfo
from exporter.core.clock import UnixTime
from exporter.driver.interface import DeviceLostError, DriverError, Record, UnsupportedError, XidEvent
from exporter.sampling.steadiness import STEADY_AFTER
from tests.contract.passes.node import ScriptedNode
from tests.contract.passes.parts import JOB, POD, process, runs
from tests.contract.passes.rig import BEGIN, Rig, gpu
from tests.unit.collectors.answers import FakeDevice

EVERY = 4
SETTLED = 1 + STEADY_AFTER + 1
"""The first pass books nothing; in the one after the last of those that found the same the looks begin."""
SKIPPED = [False] * (EVERY - 1)


def node() -> Rig:
    """Two GPUs, one of them a job's that keeps it busy."""
    devices = [gpu(0, ComputeRunningProcesses=runs(10)), gpu(1, UtilizationRates=Record(gpu=0, memory=0))]
    owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo()})
    found = Rig(devices, ScriptedNode(hosts={10: process(10)}, owned=owned), steady_interval=EVERY)
    for device in devices:
        del device.answers["nvmlGpmMetricsGet"]
        keep_samples(found, device)
    return found


def keep_samples(rig: Rig, device: FakeDevice) -> None:
    """The driver's buffer: one sample a second, of what the GPU showed then."""
    kept: list[tuple[int, float]] = []

    def samples(_kind: int, cursor: int) -> Sequence[tuple[int, float]]:
        return [each for each in kept if each[0] > cursor]

    device.answers["nvmlDeviceGetSamples"] = samples
    rig.every_second.append(
        lambda: kept.append(
            (int(BEGIN + rig.seconds) * 1_000_000, getattr(device.answers["nvmlDeviceGetUtilizationRates"], "gpu", 0))
        )
    )


@pytest.fixture
def rig() -> Iterator[Rig]:
    found = node()
    yield found
    found.stop()


@pytest.fixture
def settled(rig: Rig) -> Rig:
    assert all(rig.ticks(SETTLED))
    assert rig.ticks(EVERY) == [*SKIPPED, True]
    return rig


def test_every_tick_is_a_pass_until_nothing_has_changed_for_a_while(rig: Rig) -> None:
    assert rig.ticks(SETTLED + 3 * EVERY) == [True] * SETTLED + [*SKIPPED, True] * 3


@pytest.mark.parametrize("interval", [0.5, 1.0, 1.4])
def test_without_a_longer_interval_every_tick_is_a_pass_and_nobody_looks(
    rig: Rig, interval: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.sampler._gpus, "look", None)
    rig.sampler._pacing = dataclasses.replace(rig.sampler._pacing, steady_interval=interval)

    assert all(rig.ticks(3 * SETTLED))


def busier(rig: Rig) -> None:
    rig.gpus[1].answers["nvmlDeviceGetUtilizationRates"] = Record(gpu=16, memory=0)


def fuller(rig: Rig) -> None:
    rig.gpus[1].answers["nvmlDeviceGetMemoryInfo"] = Record(
        total=1 << 33, reserved=0, free=1 << 32, used=1000 + (64 << 20)
    )


def hotter(rig: Rig) -> None:
    rig.gpus[0].answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x4 | 0x20


def lost(rig: Rig) -> None:
    rig.gpus[1].answers["nvmlDeviceGetMemoryInfo"] = DeviceLostError("fallen off the bus")


def unreadable(rig: Rig) -> None:
    rig.gpus[1].answers["nvmlDeviceGetUtilizationRates"] = DriverError("for a moment")


def gone(rig: Rig) -> None:
    rig.gpus.pop()
    rig.enumerate()


def given(rig: Rig) -> None:
    rig.node.changes += 1


def spins(rig: Rig) -> None:
    """As busy as before, and at half the power."""
    rig.gpus[0].answers["nvmlDeviceGetPowerUsage"] = 325_000


def fails(rig: Rig) -> None:
    rig.sampler.xids.add(XidEvent("GPU-1", 79, UnixTime(BEGIN)), "nvml")


def fails_beside(rig: Rig) -> None:
    rig.sampler.xids.read("4,1,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28", UnixTime(0.0), {})


@pytest.mark.parametrize("happens", [given, spins, fails, fails_beside, busier, fuller, hotter, lost, unreadable, gone])
def test_what_happens_is_seen_at_the_next_tick_and_watched_from_then_on(
    settled: Rig, happens: Callable[[Rig], None]
) -> None:
    assert settled.ticks(1) == [False]
    happens(settled)

    assert all(settled.ticks(STEADY_AFTER))


def test_owner_that_comes_is_seen_by_the_next_pass_and_watched_from_then_on(settled: Rig) -> None:
    settled.node.owned = Ownership({10: POD}, {"GPU-0": (POD,)}, info={POD: WorkloadInfo()})

    assert settled.ticks(EVERY) == [*SKIPPED, True]
    assert all(settled.ticks(STEADY_AFTER))


def test_enumeration_that_finds_the_same_changes_nothing(settled: Rig) -> None:
    settled.enumerate()

    assert settled.ticks(EVERY) == [*SKIPPED, True]


def test_load_that_moves_within_its_bounds_is_the_same(settled: Rig) -> None:
    settled.gpus[0].answers["nvmlDeviceGetUtilizationRates"] = Record(gpu=96, memory=35)

    assert settled.ticks(2 * EVERY) == [*SKIPPED, True] * 2


def test_load_that_comes_and_goes_has_a_pass_each_tick(rig: Rig) -> None:
    for second in range(3 * SETTLED):
        rig.gpus[1].answers["nvmlDeviceGetUtilizationRates"] = Record(gpu=90 * (second // 5 % 2), memory=0)
        assert rig.ticks(1) == [True]


def totals(rig: Rig) -> Mapping[str, float]:
    rows = rig.text("gpu_(time|busy|workload_gpu|workload_used|workload_straggler|workload_energy).*total").splitlines()
    return {name: float(value) for name, value in (row.rsplit(" ", 1) for row in rows if not row.startswith("#"))}


def new_job(rig: Rig) -> None:
    rig.gpus[1].answers["nvmlDeviceGetUtilizationRates"] = Record(gpu=60, memory=0)
    rig.gpus[1].answers["nvmlDeviceGetComputeRunningProcesses"] = runs(11)
    rig.node.hosts = {10: process(10), 11: process(11)}
    rig.node.owned = Ownership(
        {10: JOB, 11: POD}, {"GPU-0": (JOB,), "GPU-1": (POD,)}, info={JOB: WorkloadInfo(), POD: WorkloadInfo()}
    )


def end(rig: Rig) -> None:
    rig.gpus[0].answers["nvmlDeviceGetUtilizationRates"] = Record(gpu=0, memory=0)
    rig.gpus[0].answers["nvmlDeviceGetComputeRunningProcesses"] = ()
    rig.node.hosts = {11: process(11)}
    rig.node.owned = Ownership({11: POD}, {"GPU-1": (POD,)}, info={POD: WorkloadInfo()})


def script(rig: Rig, ticks: Callable[[int], object], calm: int) -> Mapping[str, float]:
    """A job starts on the second GPU, and that on the first one ends; both so many looks after a pass."""

    def power(watts: int, seconds: int) -> None:
        for _ in range(seconds):
            for device in rig.gpus:
                device.answers["nvmlDeviceGetTotalEnergyConsumption"] += watts * 1000
            ticks(1)

    power(300, SETTLED + EVERY + calm)
    new_job(rig)
    power(400, SETTLED + EVERY + calm)
    end(rig)
    power(100, SETTLED + EVERY)
    rig.passes()
    return totals(rig)


@pytest.mark.parametrize("calm", range(EVERY))
def test_every_second_joule_and_owner_is_booked_as_if_each_second_had_its_pass(calm: int) -> None:
    few, every = node(), node()
    found = script(few, few.ticks, calm), script(every, every.passes, calm)
    few.stop()
    every.stop()

    assert few.sampler._passes < every.sampler._passes - 3 * EVERY / 2
    assert found[0] == pytest.approx(found[1])
    assert any("train" in name and value > SETTLED for name, value in found[0].items())


def test_gpu_that_is_looked_at_has_answered(settled: Rig) -> None:
    """One that is late after looks that found it well is as late as after passes, and no more."""
    settled.ticks(EVERY - 1)
    settled.gpus[1].answers["nvmlDeviceGetUtilizationRates"] = DeviceLostError("it fell off the bus")
    assert settled.ticks(1) == [True]

    assert [each.age for each in settled.snapshot.status.gpus] == [0.0, 1.0]


def test_gpu_that_shows_no_utilization_has_a_pass_each_second(rig: Rig) -> None:
    del rig.gpus[1].answers["nvmlDeviceGetSamples"]
    rig.gpus[1].answers["nvmlDeviceGetUtilizationRates"] = UnsupportedError("in MIG mode")

    assert all(rig.ticks(3 * SETTLED))


def test_busy_seconds_of_a_gpu_without_samples_are_those_that_looks_see(rig: Rig) -> None:
    device = rig.gpus[0]
    del device.answers["nvmlDeviceGetSamples"]
    levels = cycle([80, 84, 76, 88])
    rig.every_second.append(
        lambda: device.answers.update(
            nvmlDeviceGetUtilizationRates=Record(gpu=(level := next(levels)), memory=level // 2)
        )
    )
    rig.ticks(SETTLED)
    before = busy_and_memory_busy(rig)
    assert rig.ticks(4 * EVERY) == [*SKIPPED, True] * 4

    assert [now - then for then, now in zip(before, busy_and_memory_busy(rig), strict=True)] == pytest.approx(
        [4 * 3.28, 4 * 1.64]
    )


def busy_and_memory_busy(rig: Rig) -> tuple[float, ...]:
    rows = rig.text("gpu_busy_seconds_total", "gpu_memory_busy_seconds_total").splitlines()
    return tuple(float(row.rpartition(" ")[2]) for row in rows if 'uuid="GPU-0"' in row)


def unobserved(rig: Rig) -> float:
    rows = [row for row in rig.text("gpu_time_seconds_total").splitlines() if 'state="unobserved"' in row]
    return sum(float(re.split(" ", row)[-1]) for row in rows)


def test_machine_that_stood_still_after_a_look_is_a_gap(settled: Rig) -> None:
    settled.ticks(2)
    assert unobserved(settled) == 0.0
    settled.seconds += 20.0
    settled.ticks(1)

    assert unobserved(settled) == 2 * (2 + 20.0 + 1.0)
