"""A node on which nothing changes has fewer passes, and what happens on it is seen as soon as before."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

import pytest

from exporter.attribution.ownership import Ownership, WorkloadInfo
from exporter.driver.interface import DeviceLostError, Record
from exporter.sampling.steadiness import STEADY_AFTER
from tests.contract.passes.node import ScriptedNode
from tests.contract.passes.parts import JOB, POD, process, runs
from tests.contract.passes.rig import Rig, gpu

EVERY = 4
SETTLED = 1 + STEADY_AFTER + 1
"""The first pass books nothing; in the one after the last of those that found the same the looks begin."""
SKIPPED = [False] * (EVERY - 1)


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Two GPUs, one of them a job's that keeps it busy."""
    devices = [gpu(0, ComputeRunningProcesses=runs(10)), gpu(1, UtilizationRates=Record(gpu=0, memory=0))]
    for device in devices:
        del device.answers["nvmlDeviceGetSamples"], device.answers["nvmlGpmMetricsGet"]
    owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo()})
    found = Rig(devices, ScriptedNode(hosts={10: process(10)}, owned=owned), steady_interval=EVERY)
    yield found
    found.stop()


@pytest.fixture
def settled(rig: Rig) -> Rig:
    assert all(rig.ticks(SETTLED))
    assert rig.ticks(EVERY) == [*SKIPPED, True]
    return rig


def test_every_tick_is_a_pass_until_nothing_has_changed_for_a_while(rig: Rig) -> None:
    assert rig.ticks(SETTLED + 3 * EVERY) == [True] * SETTLED + [*SKIPPED, True] * 3


def test_without_a_longer_interval_every_tick_is_a_pass(rig: Rig) -> None:
    rig.sampler._pacing = dataclasses.replace(rig.sampler._pacing, steady_interval=1.0)

    assert all(rig.ticks(3 * SETTLED))


def test_who_waits_for_a_pass_gets_one_and_nothing_else_changes(settled: Rig) -> None:
    assert settled.ticks(2, awaited=True) == [True, True]
    assert settled.ticks(EVERY) == [*SKIPPED, True]


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
    del rig.gpus[1].answers["nvmlDeviceGetUtilizationRates"]


def gone(rig: Rig) -> None:
    rig.gpus.pop()
    rig.enumerate()


def given(rig: Rig) -> None:
    rig.node.changes += 1


@pytest.mark.parametrize("happens", [given, busier, fuller, hotter, lost, unreadable, gone])
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


def seconds(rig: Rig) -> Sequence[tuple[str, float]]:
    rows = rig.text("gpu_(time|busy|energy|workload_gpu)_.*total").splitlines()
    return [(name, float(value)) for name, value in (row.rsplit(" ", 1) for row in rows if not row.startswith("#"))]


def test_every_second_is_booked_as_if_each_had_its_pass(rig: Rig) -> None:
    rig.ticks(SETTLED + 5 * EVERY)
    few = seconds(rig)
    other = Rig(rig.gpus, rig.node)
    other.passes(SETTLED + 5 * EVERY)

    assert [name for name, _ in few] == [name for name, _ in seconds(other)]
    assert [value for _, value in few] == pytest.approx([value for _, value in seconds(other)])
    other.stop()


def unobserved(rig: Rig) -> float:
    rows = [row for row in rig.text("gpu_time_seconds_total").splitlines() if 'state="unobserved"' in row]
    return sum(float(re.split(" ", row)[-1]) for row in rows)


def test_machine_that_stood_still_after_a_look_is_a_gap(settled: Rig) -> None:
    settled.ticks(2)
    assert unobserved(settled) == 0.0
    settled.seconds += 20.0
    settled.ticks(1)

    assert unobserved(settled) == 2 * (2 + 20.0 + 1.0)
