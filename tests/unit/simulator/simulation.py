"""A simulation with a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.driver.interface import Device
from exporter.tools.simulator import SimulatedDriver, parse

EPOCH = 1_800_000_000.0
ALL_LINKS = 0xFFFFFFFF
"""The scope of a field value that is summed over the links."""


@dataclass
class Clock:
    time: float = EPOCH

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def started(spec: str, seconds: float = 0.0) -> tuple[SimulatedDriver, Clock]:
    """An open driver, `seconds` after its start."""
    clock = Clock()
    driver = SimulatedDriver(parse(spec), clock, clock.sleep)
    driver.open()
    clock.time += seconds
    return driver, clock


def gpu(spec: str, seconds: float = 300.0) -> Device:
    """The first GPU of a simulation."""
    driver, _ = started(spec, seconds)
    return driver.devices()[0]
