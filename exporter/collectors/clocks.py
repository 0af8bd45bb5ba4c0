"""Clock frequencies, their maxima, and the performance state."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.collectors.base import Collector, Pace, Paced, Tick, read_when_due
from exporter.core.families import Unit, by, gauge, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_DOMAINS = {
    "graphics": nvml.NVML_CLOCK_GRAPHICS,
    "sm": nvml.NVML_CLOCK_SM,
    "memory": nvml.NVML_CLOCK_MEM,
    "video": nvml.NVML_CLOCK_VIDEO,
}


@record
class Clocks:
    """Hertz by domain; `state` is 0 (P0, fastest) to 15."""

    now: Mapping[str, float]
    maximum: Paced[Mapping[str, float]]
    state: int | None


def read_clocks(device: Device, previous: Clocks | None, tick: Tick) -> Clocks:
    def read_maxima() -> Mapping[str, float]:
        return _read_domains(device, "nvmlDeviceGetMaxClockInfo")

    state = device.get("nvmlDeviceGetPerformanceState")
    clocks = Clocks(
        now=_read_domains(device, "nvmlDeviceGetClockInfo"),
        maximum=read_when_due(previous.maximum if previous else None, Pace.SLOW, tick, read_maxima),
        state=None if state == nvml.NVML_PSTATE_UNKNOWN else state,
    )
    if not clocks.now and not clocks.maximum.value and clocks.state is None:
        raise UnsupportedError("no clocks")
    return clocks


def _read_domains(device: Device, function: str) -> Mapping[str, float]:
    answers = {domain: device.get(function, code) for domain, code in _DOMAINS.items()}
    return {domain: megahertz * 1e6 for domain, megahertz in answers.items() if megahertz is not None}


CLOCKS: Collector[Clocks] = Collector(
    name="clocks",
    help="Clocks and performance state. 5 driver calls every 5 s, 4 more every 30 s.",
    pace=Pace.FAST,
    read=read_clocks,
    families=(
        gauges("gpu_clock_hertz", "Clock frequency now.", Unit.HERTZ, by(lambda c: c.now.items()), ("domain",)),
        gauges("gpu_clock_max_hertz", "Highest clock frequency of the domain.", Unit.HERTZ, by(lambda c: c.maximum.value.items()), ("domain",)),
        gauge("gpu_performance_state", "Performance state: 0 (P0) is the fastest.", Unit.NONE, lambda c: c.state),
    ),
)  # fmt: skip
