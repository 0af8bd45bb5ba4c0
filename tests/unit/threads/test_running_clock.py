"""Silence of a thread, and a process that was stopped as a whole."""

from __future__ import annotations

import pytest

from exporter.core.clock import EPOCH, RunningClock, UnixTime, clock_step


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_silence_of_a_running_process_grows() -> None:
    clock = Clock()
    running = RunningClock(5.0, clock)  # type: ignore[arg-type]

    found = []
    for _ in range(4):
        clock.now += 2.0
        found.append(running.seconds_since(100.0))  # type: ignore[arg-type]

    assert found == [2.0, 4.0, 6.0, 8.0]


def test_time_in_which_the_process_was_stopped_is_no_silence() -> None:
    clock = Clock()
    running = RunningClock(5.0, clock)  # type: ignore[arg-type]
    clock.now += 2.0
    running.seconds_since(100.0)  # type: ignore[arg-type]

    clock.now += 300.0
    assert running.seconds_since(102.0) == 0.0  # type: ignore[arg-type]
    clock.now += 2.0
    assert running.seconds_since(102.0) == 2.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "booted", "step"),
    [(100.0, 102.0, 2.0), (102.0, 100.0, -2.0), (100.0, 101.9, 0.0), (EPOCH, 100.0, 0.0), (100.0, EPOCH, 0.0)],
)
def test_clock_step_is_known_from_two_seconds_between_two_known_boot_times(
    before: float, booted: float, step: float
) -> None:
    assert clock_step(UnixTime(before), UnixTime(booted)) == step
