"""Reads between two cycles: when, of which GPUs, and that none of them hides or delays a cycle's own read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from exporter.driver.interface import Device, DriverError
from exporter.sampling import sampler as module
from exporter.sampling.gpus import Gpus, reading
from exporter.sampling.sampler import GOLDEN_RATIO, Loop, read_times
from exporter.sampling.snapshot import Snapshot
from tests.unit.sampling.scripted import DEADLINE, Scripted, Value, collector, until


def adds(device: Device, before: Value) -> Value:
    return Value((before.value or 0.0) + device.call("extra"))


WANTING = replace(collector("value"), extra_reads=lambda value, _: 0 if value.value == 0.0 else 2, read_again=adds)


def answers(cycle: float, extra: float) -> Scripted:
    return Scripted(0, lambda function: extra if function == "extra" else cycle)


def values(gpus: Gpus) -> list[float | None]:
    found = [reading(gpu, "value", Value) for gpu in gpus.all]
    return [each.value if each else None for each in found]


def test_only_gpus_whose_reading_wants_it_are_read_again() -> None:
    gpus = Gpus([WANTING])
    idle = Scripted(1, lambda _: 0.0)
    gpus.read((answers(1.0, 0.25), idle), 0.0, time.monotonic() + DEADLINE)  # type: ignore[arg-type]

    assert gpus.extra_reads(1.0) == 2
    gpus.read_again(time.monotonic() + DEADLINE, 1.0)  # type: ignore[arg-type]
    gpus.read_again(time.monotonic() + DEADLINE, 1.0)  # type: ignore[arg-type]
    assert values(gpus) == [1.5, 0.0]
    gpus.stop()


def test_extra_read_that_fails_leaves_the_reading_as_it_was() -> None:
    def fails(function: str) -> float:
        if function == "extra":
            raise DriverError("broken")
        return 1.0

    gpus = Gpus([WANTING])
    gpus.read((Scripted(0, fails),), 0.0, time.monotonic() + DEADLINE)  # type: ignore[arg-type]
    gpus.read_again(time.monotonic() + DEADLINE, 1.0)  # type: ignore[arg-type]

    assert values(gpus) == [1.0]
    gpus.stop()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_extra_read_that_ends_late_is_dropped(gate: threading.Event) -> None:
    def hangs(function: str) -> float:
        return float(gate.wait(DEADLINE)) if function == "extra" else 1.0

    gpus, device = Gpus([WANTING]), Scripted(0, hangs)
    gpus.read((device,), 0.0, time.monotonic() + DEADLINE)  # type: ignore[arg-type]
    gpus.read_again(time.monotonic() + 0.01, 1.0)  # type: ignore[arg-type]
    gate.set()
    until(lambda: gpus.hung_seconds("GPU-0") == 0)
    gpus.read((device,), 0.0, time.monotonic() + DEADLINE)  # type: ignore[arg-type]

    assert values(gpus) == [1.0]
    assert gpus.all[0].reading
    gpus.stop()


def times_of(monkeypatch: pytest.MonkeyPatch, wanted: Sequence[int]) -> list[list[float]]:
    """Run a cycle for each number of reads; return the times of the reads after its begin."""
    now, begun, reads = [100.0], [0.0], list[list[float]]()
    left = list(wanted)
    monkeypatch.setattr(module, "monotonic_time", lambda: now[0])

    def run_cycle() -> Snapshot:
        begun[0] = now[0]
        reads.append([])
        now[0] += 0.125
        return Snapshot()

    loop = Loop(
        run_cycle, 1.0, lambda _: None, lambda: left.pop(0), lambda: reads[-1].append(round(now[0] - begun[0], 6))
    )
    loop._phase = 0.0

    def wait(seconds: float) -> bool:
        now[0] += seconds
        if not left and now[0] >= begun[0] + 1.0:
            loop.stop()
        return False

    monkeypatch.setattr(loop._stopped, "wait", wait)
    loop._run()
    return reads


def test_reads_are_spread_over_the_cycle_and_move_from_cycle_to_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    first, none, third = times_of(monkeypatch, [2, 0, 4])

    assert first == [pytest.approx(0.309017), pytest.approx(0.809017)]
    assert none == []
    assert third == [pytest.approx(0.213526 + place / 4) for place in range(4)]


def test_time_that_has_passed_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle of 0.125 s; the first of four times would be after 0.0902 s."""
    assert times_of(monkeypatch, [0, 0, 0, 0, 4])[4][0] == 0.125


def test_times_fill_each_part_of_the_cycle_evenly() -> None:
    phases = [number * GOLDEN_RATIO % 1.0 for number in range(200)]
    times = sorted(time for phase in phases for time in read_times(4, phase))

    assert max(later - earlier for earlier, later in pairwise(times)) < 0.005
