"""Memory errors that ECC corrected or could only report. Absent where ECC is off or not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.collectors.base import Collector, Pace, Tick
from exporter.collectors.fields import Fields, read_fields
from exporter.driver.interface import Device, UnsupportedError
from exporter.metrics.family import Family, Sample, Type, Unit, by, gauge

_TOTALS = (
    # type             code  since load  lifetime
    ("corrected",         0,          3,        5),
    ("uncorrected",       1,          4,        6),
)  # fmt: skip
_LOCATIONS = (
    # type           location        field (since driver load)
    ("corrected",   "l1_cache",          7),
    ("uncorrected", "l1_cache",          8),
    ("corrected",   "l2_cache",          9),
    ("uncorrected", "l2_cache",         10),
    ("corrected",   "device_memory",    11),
    ("uncorrected", "device_memory",    12),
    ("corrected",   "register_file",    13),
    ("uncorrected", "register_file",    14),
    ("corrected",   "texture_memory",   15),
    ("uncorrected", "texture_memory",   16),
    ("uncorrected", "cbu",              17),
)  # fmt: skip
_SINCE_LOAD, _LIFETIME = 0, 1
_SRAM = 7


@dataclass(frozen=True, slots=True)
class Ecc:
    """Counts by type, and by (type, location)."""

    since_load: Mapping[str, float]
    lifetime: Mapping[str, float]
    locations: Mapping[tuple[str, str], float]
    sram_threshold_exceeded: bool | None
    fields: Fields


def read(device: Device, previous: Ecc | None, tick: Tick) -> Ecc:
    wanted = [field for _, _, load, lifetime in _TOTALS for field in (load, lifetime)]
    ids = [(field, 0) for field in (*wanted, *(field for _, _, field in _LOCATIONS))]
    fields = read_fields(device, ids, previous.fields if previous else None, tick)
    since_load: dict[str, float | None] = {}
    lifetime: dict[str, float | None] = {}
    for type_, code, load_field, lifetime_field in _TOTALS:
        since_load[type_] = _total(device, fields, load_field, code, _SINCE_LOAD)
        lifetime[type_] = _total(device, fields, lifetime_field, code, _LIFETIME)
    ecc = Ecc(
        since_load={type_: count for type_, count in since_load.items() if count is not None},
        lifetime={type_: count for type_, count in lifetime.items() if count is not None},
        locations=_locations(device, fields),
        sram_threshold_exceeded=_sram_threshold(device),
        fields=fields,
    )
    if not ecc.since_load and not ecc.lifetime and not ecc.locations:
        raise UnsupportedError("no ECC, or ECC is off")
    return ecc


def _total(device: Device, fields: Fields, field: int, type_: int, counter: int) -> float | None:
    count = fields.get(field)
    return count if count is not None else device.get("nvmlDeviceGetTotalEccErrors", type_, counter)


def _locations(device: Device, fields: Fields) -> Mapping[tuple[str, str], float]:
    """SRAM as a whole (Hopper and newer) has no field."""
    found = {
        (type_, location): count for type_, location, field in _LOCATIONS if (count := fields.get(field)) is not None
    }
    for type_, code, _, _ in _TOTALS:
        sram = device.get("nvmlDeviceGetMemoryErrorCounter", code, _SINCE_LOAD, _SRAM)
        found.update({} if sram is None else {(type_, "sram"): sram})
    return found


def _sram_threshold(device: Device) -> bool | None:
    """The driver's verdict that so much SRAM has failed that the board is to be replaced; root may ask it."""
    status = device.get("nvmlDeviceGetSramEccErrorStatus")
    return None if status is None else bool(status.bThresholdExceeded)


def _since_load(ecc: Ecc) -> Iterable[tuple[str, float]]:
    return ecc.since_load.items()


def _lifetime(ecc: Ecc) -> Iterable[tuple[str, float]]:
    return ecc.lifetime.items()


def _by_location(ecc: Ecc) -> Iterable[Sample]:
    return (Sample(count, labels) for labels, count in ecc.locations.items())


def _exceeded(ecc: Ecc) -> float | None:
    return None if ecc.sram_threshold_exceeded is None else float(ecc.sram_threshold_exceeded)


ECC = Collector(
    name="ecc",
    help="ECC errors; 4 driver calls every 30 s.",
    pace=Pace.SLOW,
    read=read,
    families=(
        Family(
            name="gpu_ecc_errors_total",
            help="ECC errors since the driver was loaded.",
            type=Type.COUNTER,
            unit=Unit.NONE,
            labels=("type",),
            samples=by(_since_load),
        ),
        Family(
            name="gpu_ecc_lifetime_errors_total",
            help="ECC errors in the life of the board.",
            type=Type.COUNTER,
            unit=Unit.NONE,
            labels=("type",),
            samples=by(_lifetime),
        ),
        Family(
            name="gpu_ecc_location_errors_total",
            help="ECC errors since the driver was loaded, by the memory they were in.",
            type=Type.COUNTER,
            unit=Unit.NONE,
            labels=("type", "location"),
            samples=_by_location,
        ),
        gauge(
            "gpu_ecc_sram_threshold_exceeded",
            "Whether on-chip memory has failed so often that the board is to be replaced.",
            Unit.NONE,
            _exceeded,
        ),
    ),
)
