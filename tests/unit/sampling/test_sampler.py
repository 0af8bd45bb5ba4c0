"""A pass goes on whatever its parts do."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from exporter.node.unknown_node import UnknownNode
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.sampler import Pacing, Sampler
from tests.unit.sampling.scripted import ScriptedDriver

PATIENCE = 60.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_driver_whose_opening_hangs_holds_up_no_pass(gate: threading.Event) -> None:
    driver = ScriptedDriver(tuple, lambda: (gate.wait(PATIENCE), None)[1])
    sampler = Sampler(driver, UnknownNode(), (), Pacing(deadline=0.01), Accounting(AccountingOptions(), ()))
    sampler.start()

    status = sampler.run_pass().status

    assert (status.passes, status.driver_error, status.driver_gpus) == (1, "NOT_OPENED", None)
    sampler.stop()
