"""Pages of device memory taken out of use after ECC errors (Kepler to Turing; newer GPUs remap rows)."""

from __future__ import annotations

from exporter.collectors.base import Collector, Pace, Tick
from exporter.collectors.fields import Fields, read_fields
from exporter.core.families import Unit, by, counters, gauge
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_SINGLE_BIT, _DOUBLE_BIT, _PENDING = (
    nvml.NVML_FI_DEV_RETIRED_SBE,
    nvml.NVML_FI_DEV_RETIRED_DBE,
    nvml.NVML_FI_DEV_RETIRED_PENDING,
)


@record
class RetiredPages:
    """`pending` is 1 while a page waits for the next reset."""

    single_bit: float | None
    double_bit: float | None
    pending: float | None
    fields: Fields


def read(device: Device, previous: RetiredPages | None, tick: Tick) -> RetiredPages:
    wanted = [(field, 0) for field in (_SINGLE_BIT, _DOUBLE_BIT, _PENDING)]
    fields = read_fields(device, wanted, previous.fields if previous else None, tick)
    if not fields.values:
        raise UnsupportedError("retires no pages")
    return RetiredPages(fields.get(_SINGLE_BIT), fields.get(_DOUBLE_BIT), fields.get(_PENDING), fields)


RETIRED_PAGES: Collector[RetiredPages] = Collector(
    name="retired_pages",
    help="Retired memory pages (before Ampere); 1 driver call every 30 s.",
    pace=Pace.SLOW,
    read=read,
    families=(
        counters("gpu_retired_pages_total", "Memory pages retired in the life of the board, by cause.", Unit.NONE, by(lambda r: (("single_bit", r.single_bit), ("double_bit", r.double_bit))), ("cause",)),
        gauge("gpu_retired_pages_pending", "Whether a page waits to be retired at the next reset.", Unit.NONE, lambda r: r.pending),
    ),
)  # fmt: skip
