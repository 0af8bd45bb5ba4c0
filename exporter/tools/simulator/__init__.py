"""A driver for machines without a GPU: simulated GPUs, workloads and faults behind the seam of the real driver."""

from __future__ import annotations

import time
from collections.abc import Callable

from exporter.tools.simulator.driver import SimulatedDriver
from exporter.tools.simulator.spec import parse

__all__ = ["SimulatedDriver", "parse", "simulate"]


def simulate(spec: str, clock: Callable[[], float] = time.time) -> SimulatedDriver:
    """The driver of a specification (grammar in `spec`). Raises ValueError, one line that reports what was expected."""
    return SimulatedDriver(parse(spec), clock)
