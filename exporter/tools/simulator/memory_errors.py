"""Errors of a GPU's memory: ECC counters, remapped rows, retired pages."""

from __future__ import annotations

from exporter.driver.interface import Record
from exporter.tools.simulator.fields import field_value
from exporter.tools.simulator.gpu import Gpu
from exporter.tools.simulator.models import AMPERE
from exporter.tools.simulator.refusal import refuse, unsupported


def ecc_total(gpu: Gpu, time: float, type_: int, counter: int) -> int:
    return _ecc_fields(gpu, time, {(0, 0): 3, (1, 0): 4, (0, 1): 5, (1, 1): 6}.get((type_, counter)))


def ecc_location(gpu: Gpu, time: float, type_: int, counter: int, location: int) -> int:
    """Device memory (2) has the errors; other locations have none."""
    if location == 2:  # noqa: PLR2004 - NVML_MEMORY_LOCATION_DRAM
        return ecc_total(gpu, time, type_, counter)
    return 0 if gpu.model.ecc else refuse("ECC")


def _ecc_fields(gpu: Gpu, time: float, field: int | None) -> int:
    value = None if field is None else field_value(gpu, field, 0, time)
    return refuse("ECC") if value is None else int(value)


def ecc_mode(gpu: Gpu, time: float) -> tuple[int, int]:
    del time
    return (1, 1) if gpu.model.ecc else refuse("ECC")


def sram(gpu: Gpu, time: float) -> Record:
    del time
    if gpu.model.architecture < AMPERE or not gpu.model.ecc:
        raise unsupported("SRAM ECC status")
    names = ("aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed",
             "volatileCor", "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie",
             "aggregateUncBucketMcu", "aggregateUncBucketOther", "bThresholdExceeded")  # fmt: skip
    return Record(**dict.fromkeys(names, 0))


def remapped(gpu: Gpu, time: float) -> tuple[int, ...]:
    values = [field_value(gpu, field, 0, time) for field in (142, 143, 144, 145)]
    return tuple(int(value) if value is not None else refuse("remapped rows") for value in values)


def histogram(gpu: Gpu, time: float) -> Record:
    _, _, _, failed = remapped(gpu, time)
    return Record(max=639 if failed else 640, high=0, partial=0, low=0, none=1 if failed else 0)


def retired(gpu: Gpu, time: float, cause: int) -> tuple[int, ...]:
    """One page retired in each board's life, for single bit errors (cause 0)."""
    if field_value(gpu, 29, 0, time) is None:
        raise unsupported("retired pages")
    return (0x1A2B3000,) if cause == 0 else ()


def retired_pending(gpu: Gpu, time: float) -> int:
    return 0 if field_value(gpu, 31, 0, time) is not None else refuse("retired pages")
