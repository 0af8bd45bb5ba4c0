"""Rows of device memory replaced by spare ones after ECC errors (Ampere and newer)."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.collectors.base import Collector, Pace, Tick
from exporter.core.families import Unit, by, counters, gauge, gauges
from exporter.core.record import record
from exporter.driver.interface import Device

_AVAILABILITY = ("max", "high", "partial", "low", "none")
_SCARCE = ("low", "none")
"""Availabilities that are shown: a bank with spare rows left needs no attention."""


@record
class RemappedRows:
    """`banks` counts memory banks by how many spare rows they have left."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool
    banks: Mapping[str, int]


def read(device: Device, _previous: RemappedRows | None, _tick: Tick) -> RemappedRows:
    correctable, uncorrectable, pending, failed = device.call("nvmlDeviceGetRemappedRows")
    histogram = device.get("nvmlDeviceGetRowRemapperHistogram")
    banks = {} if histogram is None else {name: getattr(histogram, name) for name in _AVAILABILITY}
    return RemappedRows(correctable, uncorrectable, bool(pending), bool(failed), banks)


REMAPPED_ROWS: Collector[RemappedRows] = Collector(
    name="remapped_rows",
    help="Remapped memory rows (Ampere and newer); 2 driver calls every 30 s.",
    pace=Pace.SLOW,
    read=read,
    families=(
        counters("gpu_remapped_rows_total", "Memory rows replaced by spare ones in the life of the board, by cause.", Unit.NONE, by(lambda r: (("correctable", r.correctable), ("uncorrectable", r.uncorrectable))), ("cause",)),
        gauge("gpu_row_remap_pending", "Whether a row waits for a reset to be replaced.", Unit.NONE, lambda r: float(r.pending)),
        gauge("gpu_row_remap_failed", "Whether a row could not be replaced: the board is to be exchanged.", Unit.NONE, lambda r: float(r.failed)),
        gauges("gpu_row_remap_banks", "Memory banks by how many spare rows they have left.", Unit.NONE, by(lambda r: ((name, count) for name, count in r.banks.items() if name in _SCARCE)), ("availability",)),
    ),
)  # fmt: skip
