"""Batches of NVML field values: many readings in one driver call, asked only where the device has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from exporter.collectors.base import Tick
from exporter.core.clock import UnixTime
from exporter.core.record import record
from exporter.driver.interface import Device

Field = tuple[int, int]
"""Field id and scope: a link number, ALL_LINKS, or 0 where the id has no scope."""

ALL_LINKS = 0xFFFFFFFF

_PROBE_AGAIN = 300.0
"""Seconds until everything is asked again: what a GPU still starting up refused, it may have by then."""


@record
class Fields:
    """What one batch brought, and which of its fields this device has at all."""

    supported: tuple[Field, ...]
    values: Mapping[Field, float]
    probed: UnixTime
    """When all were asked."""
    answers: Sequence[float | None] = ()
    """As they came, for what is supported: the same answers make the same values."""

    def get(self, field: int, scope: int = 0) -> float | None:
        return self.values.get((field, scope))


def read_fields(device: Device, wanted: Iterable[Field], previous: Fields | None, tick: Tick) -> Fields:
    """Ask `wanted` now and then, and in between only what answered.

    ECC and NVLink ids belong in batches of their own: mixed, they came back empty on GB200 (NVIDIA/DCGM#265).
    """
    known = previous if previous and 0.0 <= tick.time - previous.probed < _PROBE_AGAIN else None
    listed = known.supported if known else tuple(wanted)
    answers = (device.get("nvmlDeviceGetFieldValues", listed) if listed else None) or (None,) * len(listed)
    if known and answers == known.answers:
        return known
    values = {field: value for field, value in zip(listed, answers, strict=True) if value is not None}
    if known:
        return Fields(listed, values, known.probed, answers)
    # What answered before is asked on although this probe did not bring it: a driver refuses for a moment at times.
    before = previous.supported if previous else ()
    supported = tuple(
        field for field in listed if field in values or (field in before and previous and previous.values)
    )
    return Fields(supported, values, tick.time)
