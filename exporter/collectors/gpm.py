"""Activity of the GPU's units (GPM, Hopper and newer) and the bytes over its PCIe and NVLink.

Bytes come from the driver's field counters; where it has none, from GPM's rates, which the same call brings.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.clock import UnixTime
from exporter.collectors.activity import UNIT_IDS, UNITS, Activity, activity, finite, silent
from exporter.collectors.base import Collector, Pace, Tick
from exporter.collectors.fields import ALL_LINKS, Field, Fields, read_fields
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError
from exporter.metrics.family import Family, Unit, counter, counters_by, summed
from exporter.record import record

_MIB = 1024 * 1024
_ASK_AGAIN = 300.0
"""Seconds until a GPU without GPM is asked again: leaving MIG mode brings it back."""


@record
class Path:
    """Where one direction of one bus is counted: fields by preference (id, scope, bytes per unit), else GPM (MiB/s)."""

    bus: str
    direction: str
    fields: tuple[tuple[Field, int], ...]
    gpm: int


PATHS = (
    Path("pcie", "transmit", (((nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0), 1),), nvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    Path("pcie", "receive", (((nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0), 1),), nvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC),
    Path(
        "nvlink",
        "transmit",
        (
            ((nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS), 1024),
            ((nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, ALL_LINKS), 1),
        ),
        nvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    ),
    Path(
        "nvlink",
        "receive",
        (
            ((nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS), 1024),
            ((nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, ALL_LINKS), 1),
        ),
        nvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    ),
)
_PCIE_FIELDS = tuple(field for path in PATHS if path.bus == "pcie" for field, _ in path.fields)
_NVLINK_FIELDS = tuple(field for path in PATHS if path.bus == "nvlink" for field, _ in path.fields)
_GPM_IDS = (*UNIT_IDS, *(path.gpm for path in PATHS))


@record
class Gpm:
    """`activity` is None on a GPU without GPM. Bytes are totals by (bus, direction)."""

    activity: Activity | None
    bytes: Mapping[tuple[str, str], float]
    rates: Mapping[tuple[str, str], float]
    """Bytes per second in the last pass."""
    pcie_fields: Fields
    nvlink_fields: Fields
    tried_at: UnixTime
    """When GPM was last asked."""

    @property
    def ratios(self) -> Mapping[str, float]:
        """Activity in the last pass by unit (`sm`, `tensor`, `dram`, …), 0 to 1; a unit that is not known is not in."""
        return self.activity.ratios if self.activity else {}

    @property
    def pcie_bytes_per_second(self) -> float | None:
        return self._both_ways("pcie")

    @property
    def nvlink_bytes_per_second(self) -> float | None:
        return self._both_ways("nvlink")

    def _both_ways(self, bus: str) -> float | None:
        found = [rate for (on, _), rate in self.rates.items() if on == bus]
        return sum(found) if found else None


def read(device: Device, previous: Gpm | None, tick: Tick) -> Gpm:
    values, tried_at = _ask(device, previous, tick)
    before = (previous.activity if previous else None) or Activity()
    pcie = read_fields(device, _PCIE_FIELDS, previous.pcie_fields if previous else None, tick)
    nvlink = read_fields(device, _NVLINK_FIELDS, previous.nvlink_fields if previous else None, tick)
    totals: dict[tuple[str, str], float] = dict(previous.bytes) if previous else {}
    rates: dict[tuple[str, str], float] = {}
    for path in PATHS:
        key = (path.bus, path.direction)
        fields = pcie if path.bus == "pcie" else nvlink
        total, rate = _moved(path, fields, values or {}, totals.get(key), tick.seconds)
        if total is not None:
            totals[key] = total
        if rate is not None:
            rates[key] = rate
    if values is None and not totals:
        raise UnsupportedError("neither GPM nor byte counters")
    units = (
        activity(before, values, tick.seconds)
        if values is not None
        else silent(previous.activity if previous else None)
    )
    return Gpm(units, totals, rates, pcie, nvlink, tried_at)


def _ask(device: Device, previous: Gpm | None, tick: Tick) -> tuple[Mapping[int, float] | None, UnixTime]:
    """GPM's answer and when it was asked; None where the GPU has no GPM."""
    if previous and previous.activity is None and 0 <= tick.time - previous.tried_at < _ASK_AGAIN:
        return None, previous.tried_at
    return device.get("nvmlGpmMetricsGet", _GPM_IDS), tick.time


def _moved(
    path: Path, fields: Fields, values: Mapping[int, float], before: float | None, seconds: float
) -> tuple[float | None, float | None]:
    """Total bytes and bytes per second of one path.

    A field that does not answer for once is waited for: GPM's rates and the field's count are not to be mixed.
    """
    for field, scale in path.fields:
        count = fields.values.get(field)
        if count is not None:
            total = count * scale
            known = before is not None and seconds > 0 and total >= before
            return total, (total - before) / seconds if known and before is not None else None
        if field in fields.supported:
            return before, None
    mebibytes = finite(values.get(path.gpm))
    if mebibytes is None:
        return before, None
    rate = max(mebibytes, 0.0) * _MIB
    return (0.0 if before is None else before + rate * seconds), rate


def _seconds_of(unit: str, what: str) -> Family[Gpm]:
    def total(reading: Gpm) -> float | None:
        return reading.activity.seconds.get(unit) if reading.activity else None

    name = "gpu_sm_occupancy_seconds_total" if unit == "sm_occupancy" else f"gpu_{unit}_active_seconds_total"
    text = f"Seconds, weighted by the share in which {what}."
    return summed(counter(name, text, Unit.SECONDS, total))


def _bytes_of(bus: str, name: str, text: str) -> Family[Gpm]:
    def numbers(reading: Gpm) -> Mapping[str, float]:
        return {direction: total for (on, direction), total in reading.bytes.items() if on == bus}

    return counters_by(name, text, Unit.BYTES, numbers, "direction")


GPM = Collector(
    name="gpm",
    help="Activity of SMs, tensor cores, memory and pipes, bytes over PCIe and NVLink; up to 3 driver calls a pass.",
    pace=Pace.PASS,
    read=read,
    families=(
        *(_seconds_of(unit, what) for unit, _, what in UNITS),
        _bytes_of("pcie", "gpu_pcie_bytes_total", "Bytes over PCIe, seen from the GPU."),
        _bytes_of("nvlink", "gpu_nvlink_bytes_total", "Bytes of data over all NVLinks, seen from the GPU."),
    ),
)
