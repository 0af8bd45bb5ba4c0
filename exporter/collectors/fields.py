"""Batches of NVML field values: many readings in one driver call, asked only where the device has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.driver import Device

Field = tuple[int, int]
"""Field id and scope: a link number, ALL_LINKS, or 0 where the id has no scope."""

ALL_LINKS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Fields:
    """What one batch brought, and which of its fields this device has at all."""

    supported: tuple[Field, ...]
    values: Mapping[Field, float]

    def get(self, field: int, scope: int = 0) -> float | None:
        return self.values.get((field, scope))

    def total(self, field: int, scopes: Iterable[int]) -> float | None:
        """Sum over the scopes that answered; None where none did."""
        found = [self.values[field, scope] for scope in scopes if (field, scope) in self.values]
        return sum(found) if found else None


def read_fields(device: Device, wanted: Iterable[Field], previous: Fields | None) -> Fields:
    """Ask `wanted` once, and afterwards only what answered then.

    ECC and NVLink ids belong in batches of their own: mixed, they came back empty on GB200 (NVIDIA/DCGM#265).
    """
    asked = tuple(wanted) if previous is None else previous.supported
    answers = device.get("nvmlDeviceGetFieldValues", asked) if asked else None
    if answers is None:
        return Fields((), {})
    values = {field: value for field, value in zip(asked, answers, strict=True) if value is not None}
    return Fields(tuple(values) if previous is None else asked, values)
