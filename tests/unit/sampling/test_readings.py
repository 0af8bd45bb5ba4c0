"""What of a GPU's readings belongs to a cycle."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.collectors.base import Fields, Paced
from exporter.collectors.clocks import Clocks
from exporter.collectors.gpm import Activity, Gpm, Traffic
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.pcie import Pcie, Slower
from exporter.collectors.power import Power, PowerLimits
from exporter.collectors.processes import NO_PROCESSES
from exporter.collectors.sample_integral import Integral
from exporter.collectors.throttle import Plan, Throttle
from exporter.collectors.utilization import Utilization
from exporter.core.clock import NEVER, MonotonicTime, UnixTime
from exporter.core.counters import NO_COUNTS
from exporter.core.units import Watts
from exporter.ledger.states.state import Signals
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import CachedReading, TargetState
from exporter.sampling.readings import Throttled, busy_integral, instance_signals, is_stuck, signals, throttled
from tests.unit.sampling.scripted import Scripted


def gpu(read_at: float) -> SimpleNamespace:
    reading = Utilization(0.5, 0.1, Integral(total=7.0), None)
    state = SimpleNamespace(readings={"utilization": SimpleNamespace(monotonic=read_at, reading=reading)})
    return SimpleNamespace(reading=True, device=SimpleNamespace(uuid="GPU-a"), states={"GPU-a": state})


def test_reading_of_an_earlier_cycle_is_none_of_this_one() -> None:
    now = MonotonicTime(10.0)

    assert busy_integral(gpu(10.0), now) == Integral(total=7.0)  # type: ignore[arg-type]
    assert busy_integral(gpu(9.0), now) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("thermal", "share"),
    [(101.0, 0.25), (104.0, 1.0), (104.5, 1.0), (100.0, 0.0), (3.0, 0.0), (None, None)],
    ids=["a part", "all of it", "no more than all", "none", "a driver that was reloaded", "not counted"],
)
def test_time_held_back_by_heat_is_a_share_of_the_seconds_since_the_cycle_before(
    thermal: float | None, share: float | None
) -> None:
    before, now = (
        Throttled(seconds, 7.0, MonotonicTime(moment)) for seconds, moment in ((100.0, 10.0), (thermal, 14.0))
    )
    found = signals(gpu(14.0), before, now, MonotonicTime(14.0))  # type: ignore[arg-type]

    assert found is not None
    assert (found.throttled_thermal, found.throttled_power_brake) == (share, 0.0)


NONE = Fields((), {}, 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("active", "throttled_at", "capped_at"),
    [
        ({"sw_power_cap": True, "hw_thermal": False}, None, 1.5e9),
        ({"sw_power_cap": True, "hw_thermal": True}, 1.5e9, None),
        ({"sw_power_cap": False, "hw_power_brake": True}, 1.5e9, None),
    ],
    ids=["power limit", "power limit and heat", "power brake"],
)
def test_lowered_clock_is_of_heat_before_it_is_of_the_power_limit(
    active: Mapping[str, bool], throttled_at: float | None, capped_at: float | None
) -> None:
    device, now = Scripted(0, lambda _: None), MonotonicTime(14.0)
    read = Throttle(active, {"sw_power_cap": 9.0, "hw_thermal": 3.0}, Plan(0, {}, {}), NONE, 1.5e9)
    state = SimpleNamespace(readings={"throttle": SimpleNamespace(monotonic=now, reading=read)})

    found = throttled(Gpu(device, {device.uuid: state}, reading=True), now)  # type: ignore[dict-item]

    assert found == Throttled(3.0, None, now, throttled_at, 9.0, capped_at)


LANE = 7.563e9
"""Bytes per second of one PCIe lane of generation 6, one way."""


@pytest.mark.parametrize(
    ("nvlink", "pcie", "share"),
    [
        (40e9, None, 0.2),
        (None, 8 * LANE, 0.25),
        (20e9, 16 * LANE, 0.5),
        (900e9, None, 1.0),
        (None, None, None),
    ],
    ids=["NVLink", "PCIe", "the busier one", "no more than all", "neither"],
)
def test_link_activity_is_of_what_the_links_that_are_up_carry_both_ways(
    nvlink: float | None, pcie: float | None, share: float | None
) -> None:
    device = Scripted(0, lambda _: None)
    now = MonotonicTime(14.0)
    readings: dict[str, Any] = {
        "gpm": Gpm(Activity(), Traffic({}, pcie, NONE), Traffic({}, nvlink, NONE), 0.0),  # type: ignore[arg-type]
        "power": Power(Watts(350.0), None, Paced(PowerLimits(Watts(700.0), None, None, None), 0.0)),  # type: ignore[arg-type]
        "nvlink": Nvlink({0: True, 1: True, 2: False}, {}, NO_COUNTS, 50e9, 3, NONE, NONE, ()),
        "pcie": Pcie(6, 16, Paced(Slower(6, 16, None, {}, NONE), 0.0)),  # type: ignore[arg-type]
    }
    state = SimpleNamespace(
        readings={name: SimpleNamespace(monotonic=now, reading=each) for name, each in readings.items()}
    )

    found = signals(Gpu(device, {device.uuid: state}, reading=True), None, None, now)  # type: ignore[dict-item]

    assert found is not None
    assert found.power_of_limit == 0.5
    assert found.link_activity == (None if share is None else pytest.approx(share))


def test_instance_is_held_back_with_its_gpu() -> None:
    """Heat and the power brake are the GPU's as a whole."""
    device = Scripted(0, lambda _: None)
    whole = Signals(busy=0.9, throttled_thermal=0.25, throttled_power_brake=0.5, sm_clock=1.2e9, sm_clock_max=1.9e9)

    found = instance_signals(Gpu(device), "MIG-1", whole, MonotonicTime(14.0))

    assert found == Signals(throttled_thermal=0.25, throttled_power_brake=0.5, sm_clock=1.2e9, sm_clock_max=1.9e9)
    assert instance_signals(Gpu(device), "MIG-1", None, MonotonicTime(14.0)) is None


@pytest.mark.parametrize(
    ("use", "state", "running", "holders", "stuck"),
    [
        (1.0, 8, (), (), True),
        (0.5, 8, (), (), False),
        (1.0, 0, (), (), False),  # a kernel that runs raises the clocks
        (1.0, None, (), (), False),
        (1.0, 8, ("a process",), (), False),
        (1.0, 8, (), (Owner("slurm:7", "slurm"),), False),
    ],
)
def test_full_use_at_idle_clocks_of_a_gpu_that_nobody_has_is_stuck(
    use: float, state: int | None, running: tuple[Any, ...], holders: tuple[Owner, ...], *, stuck: bool
) -> None:
    found = {
        "utilization": Utilization(use, 0.0, None, None),
        "clocks": Clocks({}, Paced({}, UnixTime(0.0)), state),
        "processes": NO_PROCESSES,
    }
    device = SimpleNamespace(uuid="GPU-a")
    states = {"GPU-a": TargetState({name: CachedReading(None, each, NEVER) for name, each in found.items()})}  # type: ignore[arg-type]
    join = SimpleNamespace(running={"GPU-a": running}, ownership=Ownership(holders={"GPU-a": holders}))

    assert is_stuck(SimpleNamespace(device=device, states=states), join) is stuck  # type: ignore[arg-type]
