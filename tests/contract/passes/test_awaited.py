"""A node on which nothing changes has passes for those who come to see it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import pytest

from tests.contract.passes.rig import Rig
from tests.contract.passes.test_steady import EVERY, SETTLED, SKIPPED, node


@pytest.fixture
def settled() -> Iterator[Rig]:
    found = node()
    assert all(found.ticks(SETTLED))
    assert found.ticks(EVERY) == [*SKIPPED, True]
    yield found
    found.stop()


def test_who_waits_for_a_pass_gets_one_and_nothing_else_changes(settled: Rig) -> None:
    assert settled.ticks(2, awaited=0.0) == [True, True]
    assert settled.ticks(EVERY) == [*SKIPPED, True]


@pytest.mark.parametrize(("seconds", "passes"), [(1.05, [True]), (0.9, [True]), (1.2, [False]), (3.5, [False])])
def test_a_pass_is_made_for_who_comes_before_the_next_tick(settled: Rig, seconds: float, passes: list[bool]) -> None:
    assert settled.ticks(1, awaited=seconds) == passes


def test_who_is_a_little_late_has_no_second_pass(settled: Rig) -> None:
    assert settled.ticks(1, awaited=1.0) == [True]
    assert settled.ticks(1, awaited=0.0) == [False]
    assert settled.ticks(3, awaited=0.0) == [True, True, True]


def test_who_comes_each_second_has_a_pass_each_second(settled: Rig) -> None:
    for awaited in (1.0, 0.97, 0.5, 0.03, 0.0):
        assert settled.ticks(2, awaited=awaited)[1]


def test_a_pass_that_is_due_waits_for_who_comes_shortly(settled: Rig) -> None:
    settled.sampler._pacing = dataclasses.replace(settled.sampler._pacing, steady_interval=12.0)

    assert settled.ticks(11) == [False] * 11
    assert settled.ticks(2, awaited=4.5) == [False, False]
    assert settled.ticks(1, awaited=4.7) == [True]


def test_what_is_read_every_five_seconds_is_read_for_who_comes_and_else_with_every_second_pass(settled: Rig) -> None:
    asked: list[int] = []
    for awaited in (math.inf, math.inf, math.inf, math.inf, 0.0):
        settled.gpus[0].asked.clear()
        settled.ticks(EVERY - 1)
        settled.ticks(1, awaited=awaited)
        functions = settled.gpus[0].functions
        assert functions.count("nvmlDeviceGetTotalEnergyConsumption") == 1
        asked.append(functions.count("nvmlDeviceGetPerformanceState"))

    assert asked in ([1, 0, 1, 0, 1], [0, 1, 0, 1, 1])
