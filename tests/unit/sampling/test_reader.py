"""One read of one GPU: what fails costs its own reading, and each collector has its pace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.collectors import COLLECTORS
from exporter.collectors.base import Pace, Scope, Tick
from exporter.driver.interface import (
    Device,
    DeviceLostError,
    DriverError,
    Mig,
    UnsupportedError,
)
from exporter.sampling.reader import CollectorResult, LastAnswers, read_gpu
from tests.unit.collectors.answers import hopper
from tests.unit.sampling.scripted import Scripted, Value, answers, collector


def test_failures_stay_where_they_happen() -> None:
    device = Scripted(0, answers(good=1.0, none=UnsupportedError("no"), bad=DriverError("no"), bug=KeyError("bug")))
    collectors = [collector(name) for name in ("bug", "bad", "none", "good")]

    result = read_gpu(device, {}, collectors, 0.0, 0.0, {})

    assert {outcome.collector: bool(outcome.error) for outcome in result.outcomes} == {
        "bug": True,
        "bad": True,
        "none": False,
        "good": False,
    }
    assert set(result.states["GPU-0"].readings) == {"good"}
    assert result.answered
    assert result.device_error is None


def test_lost_device_is_asked_no_more_in_that_cycle() -> None:
    asked: list[str] = []

    def answer(function: str) -> Any:
        asked.append(function)
        raise DeviceLostError("fell off the bus")

    result = read_gpu(Scripted(0, answer), {}, [collector("one"), collector("two")], 0.0, 0.0, {})

    assert asked == ["one"]
    assert isinstance(result.device_error, DeviceLostError)
    assert not result.answered


def test_paces() -> None:
    calls: list[str] = []
    device = Scripted(0, lambda function: calls.append(function) or 1.0)
    collectors = [collector("each"), collector("slow", Pace.SLOW), collector("once", Pace.ONCE)]
    states: Any = {}
    for second in range(61):
        states = read_gpu(device, states, collectors, 0.0, float(second), {}).states

    assert {name: calls.count(name) for name in ("each", "slow", "once")} == {"each": 61, "slow": 3, "once": 1}


def test_collector_a_device_has_nothing_of_is_not_asked_at_every_cycle() -> None:
    calls: list[str] = []

    def answer(function: str) -> Any:
        calls.append(function)
        raise UnsupportedError("no")

    states: Any = {}
    for second in range(100):
        states = read_gpu(Scripted(0, answer), states, [collector("gpm")], 0.0, float(second), {}).states

    assert len(calls) == 5  # after 5, 10, 20 and 40 s, and so on up to 300


@pytest.mark.parametrize(
    ("pace", "asked"),
    [
        (Pace.CYCLE, [0, 5, 15, 35, 75]),
        (Pace.SLOW, [0, 30, 60, 90]),  # its pace is longer than the first pauses, but for the one of 40 s
        (Pace.ONCE, [0, 5, 15, 35, 75]),
    ],
)
def test_collector_a_device_has_nothing_of_is_asked_no_more_often_than_its_pace(pace: Pace, asked: list[int]) -> None:
    seconds: list[int] = []
    states: Any = {}
    for second in range(100):

        def answer(_: str, second: int = second) -> Any:
            seconds.append(second)
            raise UnsupportedError("no")

        states = read_gpu(Scripted(0, answer), states, [collector("gpm", pace)], 0.0, float(second), {}).states

    assert seconds == asked


def test_instances_are_read_by_their_own_collectors() -> None:
    parent = Scripted(0, answers(whole=1.0))
    instance = Scripted(1, answers(part=2.0), Mig(1, 0, "1g.10gb", 1 / 7))
    parent.instances = (instance,)

    states = read_gpu(parent, {}, [collector("whole"), collector("part", scope=Scope.INSTANCE)], 0.0, 0.0, {}).states

    assert {uuid: set(state.readings) for uuid, state in states.items()} == {"GPU-0": {"whole"}, "GPU-1": {"part"}}


def test_collector_all_of_whose_calls_fail_is_asked_again_at_once() -> None:
    """And after seconds at most, not after minutes as one that the device has nothing of."""
    device = hopper()
    device.answers |= dict.fromkeys((each for each in device.answers if "Utilization" in each), DriverError("no", "X"))
    engines = [each for each in COLLECTORS if each.name == "engines"]
    states: Any = {}
    memories: LastAnswers = {}
    found: list[tuple[str, bool]] = []
    for second in (0.0, 1.0, 3.0, 9.0, 19.0):
        result = read_gpu(device, states, engines, 0.0, second, memories)
        states = result.states
        found += [(outcome.error, outcome.answered) for outcome in result.outcomes]

    assert found == [("no; no; no", False)] * 5


ON_HOPPER = [
    each.name for each in COLLECTORS if each.scope is Scope.GPU and each.families and each.name != "retired_pages"
]


@pytest.mark.parametrize("blip", [UnsupportedError("no", "NO_PERMISSION"), DriverError("no", "UNKNOWN")])
@pytest.mark.parametrize("name", ON_HOPPER)
def test_moment_of_refusal_blinds_no_collector_and_is_seen(name: str, blip: DriverError) -> None:
    """Four seconds of refusals of everything: shown as a failure while they last, and all is back soon after."""
    by_name = {each.name: each for each in COLLECTORS}
    device, memories, states = hopper(), {}, {}
    good = dict(device.answers)

    def second(at: float) -> tuple[CollectorResult, ...]:
        nonlocal states
        result = read_gpu(device, states, [by_name[name]], 1000.0 + at, at, memories)
        states = result.states
        return result.outcomes

    def published() -> set[str]:
        cached = states[device.uuid].readings.get(name)
        return {block.family.name for block in cached.blocks(())} if cached else set()

    for at in range(3):
        second(at)
    before = published()
    assert before
    refuse = dict.fromkeys((*good, "nvmlDeviceGetFieldValues"), blip)
    device.answers = {**good, **refuse}
    errors = [outcome.error for at in range(40, 45) for outcome in second(at)]
    device.answers = good
    for at in range(45, 90):
        second(at)

    assert any(errors), "the refusals are not to be seen"
    assert published() == before
    assert not [outcome.error for outcome in second(121.0) if outcome.error]


@pytest.mark.parametrize(("hangs", "late"), [(0.4, 0.0), (12.0, 12.0)])
def test_collector_hears_how_late_its_answer_is(hangs: float, late: float) -> None:
    """Where a call before it hung as well: all of it is of one read."""
    now, heard = [100.0], list[float]()

    def answer(function: str) -> Any:
        now[0] += hangs if function == "hangs" else 0.0
        return 1.0

    def read(device: Device, previous: Value | None, tick: Tick) -> Value:
        del previous
        value = Value(device.call("asked"))
        heard.append(tick.late())
        return value

    asks = replace(collector("asks"), read=read)
    read_gpu(Scripted(0, answer), {}, [collector("hangs"), asks], 0.0, 100.0, {}, clock=lambda: now[0])
    read_gpu(Scripted(0, answer), {}, [collector("hangs"), asks], 0.0, 100.0, {})

    assert heard == [late, 0.0]
