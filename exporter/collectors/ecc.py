"""Memory errors that ECC corrected or could only report. Absent where ECC is off or not there."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.collectors.base import Collector, Pace, Tick
from exporter.collectors.fields import Fields, read_fields
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


def read(device: Device, previous: Ecc | None, tick: Tick) -> Ecc:
    wanted = [field for _, _, load, lifetime in _TOTALS for field in (load, lifetime)]
    ids = [(field, 0) for field in (*wanted, *(field for _, _, field in _LOCATIONS))]
    fields = read_fields(device, ids, previous.fields if previous else None, tick)
    since_load: dict[str, float | None] = {}
    lifetime: dict[str, float | None] = {}
    for type_, code, load_field, lifetime_field in _TOTALS:
        since_load[type_] = _total(device, fields, load_field, code, nvml.NVML_VOLATILE_ECC)
        lifetime[type_] = _total(device, fields, lifetime_field, code, nvml.NVML_AGGREGATE_ECC)
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
    """By the field where the GPU has it, also when it is refused for a moment: two sources are not to be mixed."""
    if (field, 0) in fields.supported:
        return fields.get(field)
    count: float | None = device.get("nvmlDeviceGetTotalEccErrors", type_, counter)
    return count


def _locations(device: Device, fields: Fields) -> Mapping[tuple[str, str], float]:
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


def _sram_threshold(device: Device) -> bool | None:
    """The driver's verdict that so much SRAM has failed that the board is to be replaced; root may ask it."""
    status = device.get("nvmlDeviceGetSramEccErrorStatus")
    return None if status is None else bool(status.bThresholdExceeded)


ECC: Collector[Ecc] = Collector(
    name="ecc",
    help="ECC errors; 4 driver calls every 30 s.",
    pace=Pace.SLOW,
    read=read,
    families=(
        counters("gpu_ecc_errors_total", "ECC errors since the driver was loaded, carried over resets of the GPU.", Unit.NONE, by(lambda e: e.since_load.items()), ("type",)),
        gauges("gpu_ecc_volatile_errors", "ECC errors as the driver counts them now: back to 0 after a reset of the GPU or a driver reload.", Unit.NONE, by(lambda e: e.since_load.items()), ("type",), shown=Shown.NONZERO),
        counters("gpu_ecc_lifetime_errors_total", "ECC errors in the life of the board.", Unit.NONE, by(lambda e: e.lifetime.items()), ("type",), shown=Shown.NONZERO),
        counters("gpu_ecc_location_errors_total", "ECC errors since the driver was loaded, by the memory they were in.", Unit.NONE, lambda e: (Sample(count, labels) for labels, count in e.locations.items()), ("type", "location"), shown=Shown.NONZERO),
        gauge("gpu_ecc_sram_threshold_exceeded", "Whether on-chip memory has failed so often that the board is to be replaced.", Unit.NONE, lambda e: None if e.sram_threshold_exceeded is None else float(e.sram_threshold_exceeded)),
    ),
)  # fmt: skip
