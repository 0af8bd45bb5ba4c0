"""A cycle goes on whatever its parts do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from exporter.collectors.base import Tick
from exporter.core.clock import Moment
from exporter.driver.interface import Device, DriverError
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import Host
from exporter.sampling.sampler import Pacing, Sampler
from tests.unit.sampling.scripted import Scripted, ScriptedDriver, Value, answers, collector, until

DEADLINE = 60.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_driver_whose_opening_hangs_holds_up_no_cycle(gate: threading.Event) -> None:
    driver = ScriptedDriver(tuple, lambda: (gate.wait(DEADLINE), None)[1])
    sampler = Sampler(driver, Host(), (), Pacing(deadline=0.01), Accounting(AccountingOptions(), ()))
    sampler.start()

    status = sampler.run_cycle().status

    assert (status.cycles, status.driver_error, status.driver_gpus) == (1, "NOT_OPENED", None)
    sampler.stop()


def test_xids_of_an_address_belong_to_the_gpu_that_is_there() -> None:
    """A card that took the place of another has its address; a GPU that tells no address has none."""
    cards = [Scripted(2, answers()), Scripted(1, answers()), Scripted(0, answers())]
    cards[0].pci_bus_id = cards[1].pci_bus_id = "0000:1a:00.0"
    shown: list[Scripted] = [cards[0], cards[2]]
    driver = ScriptedDriver(lambda: tuple(shown))
    sampler = Sampler(driver, Host(), (), Pacing(), Accounting(AccountingOptions(), ()))
    sampler.start()
    sampler.run_cycle()
    shown[0] = cards[1]
    sampler.connection.refresh(DriverError("", "GPU_IS_LOST"))
    until(lambda: cards[1] in sampler.connection.state.devices)

    sampler.run_cycle()

    assert sampler.uuids() == {"0000:1a:00.0": "GPU-1"}
    sampler.stop()


def test_answers_are_late_by_the_machines_own_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours pass in seconds where the moments of cycles are given."""
    late = list[float]()
    now = [1000.0]

    def read(device: Device, previous: Value | None, tick: Tick) -> Value:
        del device, previous
        now[0] += 5.0
        late.append(tick.late())
        return Value(1.0)

    monkeypatch.setattr("exporter.sampling.sampler.monotonic_time", lambda: now[0])
    devices = (Scripted(0, answers()),)
    hangs = replace(collector("hangs"), read=read)
    accounting = Accounting(AccountingOptions(), ())
    sampler = Sampler(ScriptedDriver(lambda: devices), Host(), [hangs], Pacing(1.0, 1e6), accounting)
    sampler.start()
    until(lambda: sampler.connection.state.devices != ())

    sampler.run_cycle(Moment(0.0, 7.0))
    sampler.run_cycle()

    assert late == [0.0, 5.0]
    sampler.stop()
