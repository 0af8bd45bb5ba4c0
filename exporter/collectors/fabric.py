"""State of the GPU in the NVLink fabric (NVSwitch machines, Hopper and newer), and its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.collectors.base import Collector, Pace, Tick
from exporter.core.families import Sample, Shown, Unit, by, gauges, info
from exporter.core.printable import printable
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

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
_SUCCESS, _NOT_SUPPORTED = 0, 3
"""Return codes that say nothing bad of joining."""
_CONFIGURATION, _CONFIGURATION_BITS, _CONFIGURATION_GOOD = 8, 0xF, 1
_LONGEST = 64


@record
class FabricPlace:
    """Place of the GPU as labels; empty where the driver does not report. Read once."""

    chassis: str = ""
    slot: str = ""
    tray: str = ""
    host: str = ""
    module: str = ""


@record
class Fabric:
    """`unhealthy` by check; a check the driver knows nothing of is not in. `state` is empty outside of a fabric."""

    state: str
    unhealthy: Mapping[str, bool]
    cluster: str = ""
    """UUID of the fabric, of several nodes or of one; empty where it has none."""
    clique: str = ""
    """Part of the cluster: GPUs that reach each other over NVLink."""
    place: FabricPlace = FabricPlace()


_UUID_DIGITS = 32


def read_fabric(device: Device, previous: Fabric | None, _tick: Tick) -> Fabric:
    info = device.get("nvmlDeviceGetGpuFabricInfoV")
    seat = previous.place if previous else read_place(device)
    if info is None or not info.state:
        if seat == FabricPlace():
            raise UnsupportedError("not in a fabric")
        return Fabric("", {}, place=seat)
    cluster, failed = "", {}
    if info.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        digits = getattr(info, "clusterUuid", "")
        if len(digits) == _UUID_DIGITS and digits.strip("0"):  # zeros are a fabric within one node
            cluster = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        # Joining also ends when it fails, and then the return code says so: CUDA does not start on such a GPU.
        failed = {"join_failed": getattr(info, "status", _SUCCESS) not in (_SUCCESS, _NOT_SUPPORTED)}
    return Fabric(
        state=_STATES.get(info.state, "unknown"),
        unhealthy={**failed, **decode_health_mask(getattr(info, "healthMask", 0))},
        cluster=cluster,
        clique=str(info.cliqueId) if cluster else "",
        place=seat,
    )


def read_place(device: Device) -> FabricPlace:
    """Return the place by the platform, else the module's number on its baseboard alone.

    Without a chassis (Hopper, virtual machines) the driver fills the rest of its place with numbers that mean nothing.
    """
    info = device.get("nvmlDeviceGetPlatformInfo")
    if info is not None:
        chassis = printable(str(info.chassisSerialNumber)[:_LONGEST])
        if not chassis:
            return FabricPlace(module=str(info.moduleId))
        return FabricPlace(chassis, str(info.slotNumber), str(info.trayIndex), str(info.hostId), str(info.moduleId))
    module = device.get("nvmlDeviceGetModuleId")
    return FabricPlace(module="" if module is None else str(module))


def decode_health_mask(mask: int) -> Mapping[str, bool]:
    found = {check: (mask >> shift) & 3 for check, shift in _CHECKS.items()}
    configuration = (mask >> _CONFIGURATION) & _CONFIGURATION_BITS
    wrong = {"incorrect_configuration": configuration != _CONFIGURATION_GOOD} if configuration else {}
    return {**{check: value == 1 for check, value in found.items() if value in (1, 2)}, **wrong}


def _place_samples(fabric: Fabric) -> Iterable[Sample]:
    seat = fabric.place
    labels = (fabric.cluster, fabric.clique, seat.chassis, seat.slot, seat.tray, seat.host, seat.module)
    return (Sample(1, labels),) if any(labels) else ()


FABRIC: Collector[Fabric] = Collector(
    name="fabric",
    help="State of the NVLink fabric. 1 driver call every 30 s, and 2 once for the GPU's place.",
    pace=Pace.SLOW,
    read=read_fabric,
    families=(
        gauges("gpu_fabric_state", "Where the GPU is in joining the fabric: 1 for the state in the label.", Unit.NONE, by(lambda f: ((f.state, 1.0),) if f.state else ()), ("state",)),
        gauges("gpu_fabric_unhealthy", "Whether the fabric is unwell in this respect.", Unit.NONE, by(lambda f: ((check, float(bad)) for check, bad in f.unhealthy.items())), ("check",), shown=Shown.NONZERO),
        info("gpu_fabric_info", "Place of the GPU: UUID of the NVLink cluster and clique within it, serial number of the chassis, slot, tray, host in the slot and module; a label is empty where the driver does not know it.", _place_samples, ("cluster_uuid", "clique_id", "chassis_serial", "slot", "tray", "host_id", "module")),
    ),
)  # fmt: skip
