"""How the GPU stands in the NVLink fabric (NVSwitch machines, Hopper and newer)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.collectors.base import Collector, Pace, Tick
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError
from exporter.metrics.family import Family, Type, Unit, by

_STATES = {
    nvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "not_started",
    nvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "in_progress",
    nvml.NVML_GPU_FABRIC_STATE_COMPLETED: "completed",
}
_CHECKS = {
    # check: shift of its two bits in the health mask, 0 not known, 1 true, 2 false
    "degraded_bandwidth": 0,
    "route_recovery": 2,
    "route_unhealthy": 4,
    "access_timeout_recovery": 6,
}
_CONFIGURATION, _CONFIGURATION_BITS, _CONFIGURATION_GOOD = 8, 0xF, 1


@dataclass(frozen=True, slots=True)
class Fabric:
    """`unhealthy` by check; a check the driver knows nothing of is not in."""

    state: str
    unhealthy: Mapping[str, bool]


def read(device: Device, _previous: Fabric | None, _tick: Tick) -> Fabric:
    info = device.get("nvmlDeviceGetGpuFabricInfoV")
    if info is None or not info.state:
        raise UnsupportedError("not in a fabric")
    return Fabric(_STATES.get(info.state, "unknown"), unhealthy(getattr(info, "healthMask", 0)))


def unhealthy(mask: int) -> Mapping[str, bool]:
    found = {check: (mask >> shift) & 3 for check, shift in _CHECKS.items()}
    configuration = (mask >> _CONFIGURATION) & _CONFIGURATION_BITS
    wrong = {"incorrect_configuration": configuration != _CONFIGURATION_GOOD} if configuration else {}
    return {**{check: value == 1 for check, value in found.items() if value in (1, 2)}, **wrong}


def _state(fabric: Fabric) -> Iterable[tuple[str, float]]:
    return ((fabric.state, 1.0),)


def _unhealthy(fabric: Fabric) -> Iterable[tuple[str, float]]:
    return ((check, float(bad)) for check, bad in fabric.unhealthy.items())


FABRIC = Collector(
    name="fabric",
    help="State of the NVLink fabric; 1 driver call every 30 s.",
    pace=Pace.SLOW,
    read=read,
    families=(
        Family(
            name="gpu_fabric_state",
            help="Where the GPU is in joining the fabric: 1 for the state in the label.",
            type=Type.GAUGE,
            unit=Unit.NONE,
            labels=("state",),
            samples=by(_state),
        ),
        Family(
            name="gpu_fabric_unhealthy",
            help="Whether the fabric is unwell in this respect.",
            type=Type.GAUGE,
            unit=Unit.NONE,
            labels=("check",),
            samples=by(_unhealthy),
        ),
    ),
)
