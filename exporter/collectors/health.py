"""Action that the driver advises for the GPU (R570 and newer)."""

from __future__ import annotations

from exporter.collectors.base import Collector, Fields, Pace, Tick, read_fields
from exporter.core.families import Unit, by, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_FIELD = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
NO_ACTION = "none"
_ACTIONS = (
    NO_ACTION,
    "gpu_reset",
    "node_reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex",
    "bus_reset",
    "system_reboot",
)


@record
class Health:
    action: str
    fields: Fields


def read_health(device: Device, previous: Health | None, tick: Tick) -> Health:
    fields = read_fields(device, ((_FIELD, 0),), previous.fields if previous else None, tick)
    code = fields.get(_FIELD)
    if code is None:
        raise UnsupportedError("no recovery action")
    return Health(_ACTIONS[int(code)] if 0 <= code < len(_ACTIONS) else "unknown", fields)


HEALTH: Collector[Health] = Collector(
    name="health",
    help="The driver's advice on recovery. 1 driver call every 5 s.",
    pace=Pace.FAST,
    read=read_health,
    families=(
        gauges("gpu_recovery_action", "What the driver advises to do with the GPU: 1 for the action in the label.", Unit.NONE, by(lambda h: ((h.action, 1.0),)), ("action",)),
    ),
)  # fmt: skip
