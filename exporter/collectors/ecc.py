"""ECC errors, and the memory that is given up after them: retired pages before Ampere, remapped rows since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from exporter.collectors.base import Collector, Fields, Pace, Tick, read_fields
from exporter.core.clock import EPOCH, UnixTime
from exporter.core.families import Sample, Shown, Unit, by, counters, gauge, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_TOTALS = (
    # type, its code, field since driver load, field over the life of the board
    (
        "corrected",
        nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        nvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
        nvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL,
    ),
    (
        "uncorrected",
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
        nvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL,
    ),
)
_LOCATIONS = (
    # type, location, field since driver load
    ("corrected", "l1_cache", nvml.NVML_FI_DEV_ECC_SBE_VOL_L1),
    ("uncorrected", "l1_cache", nvml.NVML_FI_DEV_ECC_DBE_VOL_L1),
    ("corrected", "l2_cache", nvml.NVML_FI_DEV_ECC_SBE_VOL_L2),
    ("uncorrected", "l2_cache", nvml.NVML_FI_DEV_ECC_DBE_VOL_L2),
    ("corrected", "device_memory", nvml.NVML_FI_DEV_ECC_SBE_VOL_DEV),
    ("uncorrected", "device_memory", nvml.NVML_FI_DEV_ECC_DBE_VOL_DEV),
    ("corrected", "register_file", nvml.NVML_FI_DEV_ECC_SBE_VOL_REG),
    ("uncorrected", "register_file", nvml.NVML_FI_DEV_ECC_DBE_VOL_REG),
    ("corrected", "texture_memory", nvml.NVML_FI_DEV_ECC_SBE_VOL_TEX),
    ("uncorrected", "texture_memory", nvml.NVML_FI_DEV_ECC_DBE_VOL_TEX),
    ("uncorrected", "cbu", nvml.NVML_FI_DEV_ECC_DBE_VOL_CBU),
)


@record
class Ecc:
    """Counts by type, and by (type, location)."""

    since_load: Mapping[str, float]
    lifetime: Mapping[str, float]
    locations: Mapping[tuple[str, str], float]
    sram_threshold_exceeded: bool | None
    fields: Fields
    read_at: UnixTime = field(default=EPOCH, compare=False)
    """Unix seconds of this read: a reading of the same counts says the same."""


def read_ecc(device: Device, previous: Ecc | None, tick: Tick) -> Ecc:
    wanted = [field for _, _, load, lifetime in _TOTALS for field in (load, lifetime)]
    ids = [(field, 0) for field in (*wanted, *(field for _, _, field in _LOCATIONS))]
    fields = read_fields(device, ids, previous.fields if previous else None, tick)
    since_load: dict[str, float | None] = {}
    lifetime: dict[str, float | None] = {}
    for type_, code, load_field, lifetime_field in _TOTALS:
        since_load[type_] = _read_total(device, fields, load_field, code, nvml.NVML_VOLATILE_ECC)
        lifetime[type_] = _read_total(device, fields, lifetime_field, code, nvml.NVML_AGGREGATE_ECC)
    # The driver's verdict that so much SRAM has failed that the board is to be replaced; root may ask it.
    sram = device.get("nvmlDeviceGetSramEccErrorStatus")
    ecc = Ecc(
        since_load={type_: count for type_, count in since_load.items() if count is not None},
        lifetime={type_: count for type_, count in lifetime.items() if count is not None},
        locations=_read_locations(device, fields),
        sram_threshold_exceeded=None if sram is None else bool(sram.bThresholdExceeded),
        fields=fields,
        read_at=tick.time,
    )
    if not ecc.since_load and not ecc.lifetime and not ecc.locations:
        raise UnsupportedError("no ECC, or ECC is off")
    return ecc


def _read_total(device: Device, fields: Fields, field: int, type_: int, counter: int) -> float | None:
    """Return the field where the GPU has it, also when it is refused for a moment: two sources are not to be mixed."""
    if (field, 0) in fields.supported:
        return fields.get(field)
    count: float | None = device.get("nvmlDeviceGetTotalEccErrors", type_, counter)
    return count


def _read_locations(device: Device, fields: Fields) -> Mapping[tuple[str, str], float]:
    """SRAM as a whole (Hopper and newer) has no field."""
    found = {
        (type_, location): count for type_, location, field in _LOCATIONS if (count := fields.get(field)) is not None
    }
    for type_, code, _, _ in _TOTALS:
        sram = device.get(
            "nvmlDeviceGetMemoryErrorCounter", code, nvml.NVML_VOLATILE_ECC, nvml.NVML_MEMORY_LOCATION_SRAM
        )
        found.update({} if sram is None else {(type_, "sram"): sram})
    return found


ECC: Collector[Ecc] = Collector(
    name="ecc",
    help="ECC errors. 4 driver calls every 30 s.",
    pace=Pace.SLOW,
    read=read_ecc,
    families=(
        counters("gpu_ecc_errors_total", "ECC errors since the driver was loaded, carried over resets of the GPU.", Unit.NONE, by(lambda e: e.since_load.items()), ("type",)),
        gauges("gpu_ecc_volatile_errors", "ECC errors as the driver counts them now: back to 0 after a reset of the GPU or a driver reload.", Unit.NONE, by(lambda e: e.since_load.items()), ("type",), shown=Shown.NONZERO),
        counters("gpu_ecc_lifetime_errors_total", "ECC errors in the life of the board.", Unit.NONE, by(lambda e: e.lifetime.items()), ("type",), shown=Shown.NONZERO),
        counters("gpu_ecc_location_errors_total", "ECC errors since the driver was loaded, by the memory they were in.", Unit.NONE, lambda e: (Sample(count, labels) for labels, count in e.locations.items()), ("type", "location"), shown=Shown.NONZERO),
        gauge("gpu_ecc_sram_threshold_exceeded", "Whether on-chip memory has failed so often that the board is to be replaced.", Unit.NONE, lambda e: None if e.sram_threshold_exceeded is None else float(e.sram_threshold_exceeded)),
    ),
)  # fmt: skip


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


def read_retired_pages(device: Device, previous: RetiredPages | None, tick: Tick) -> RetiredPages:
    wanted = [(field, 0) for field in (_SINGLE_BIT, _DOUBLE_BIT, _PENDING)]
    fields = read_fields(device, wanted, previous.fields if previous else None, tick)
    if not fields.values:
        raise UnsupportedError("retires no pages")
    return RetiredPages(fields.get(_SINGLE_BIT), fields.get(_DOUBLE_BIT), fields.get(_PENDING), fields)


RETIRED_PAGES: Collector[RetiredPages] = Collector(
    name="retired_pages",
    help="Retired memory pages (before Ampere). 1 driver call every 30 s.",
    pace=Pace.SLOW,
    read=read_retired_pages,
    families=(
        counters("gpu_retired_pages_total", "Memory pages retired in the life of the board, by cause.", Unit.NONE, by(lambda r: (("single_bit", r.single_bit), ("double_bit", r.double_bit))), ("cause",)),
        gauge("gpu_retired_pages_pending", "Whether a page waits to be retired at the next reset.", Unit.NONE, lambda r: r.pending),
    ),
)  # fmt: skip


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


def read_remapped_rows(device: Device, _previous: RemappedRows | None, _tick: Tick) -> RemappedRows:
    correctable, uncorrectable, pending, failed = device.call("nvmlDeviceGetRemappedRows")
    histogram = device.get("nvmlDeviceGetRowRemapperHistogram")
    banks = {} if histogram is None else {name: getattr(histogram, name) for name in _AVAILABILITY}
    return RemappedRows(correctable, uncorrectable, bool(pending), bool(failed), banks)


REMAPPED_ROWS: Collector[RemappedRows] = Collector(
    name="remapped_rows",
    help="Remapped memory rows (Ampere and newer). 2 driver calls every 30 s.",
    pace=Pace.SLOW,
    read=read_remapped_rows,
    families=(
        counters("gpu_remapped_rows_total", "Memory rows replaced by spare ones in the life of the board, by cause.", Unit.NONE, by(lambda r: (("correctable", r.correctable), ("uncorrectable", r.uncorrectable))), ("cause",)),
        gauge("gpu_row_remap_pending", "Whether a row waits for a reset to be replaced.", Unit.NONE, lambda r: float(r.pending)),
        gauge("gpu_row_remap_failed", "Whether a row could not be replaced: the board is to be exchanged.", Unit.NONE, lambda r: float(r.failed)),
        gauges("gpu_row_remap_banks", "Memory banks by how many spare rows they have left.", Unit.NONE, by(lambda r: ((name, count) for name, count in r.banks.items() if name in _SCARCE)), ("availability",)),
    ),
)  # fmt: skip
