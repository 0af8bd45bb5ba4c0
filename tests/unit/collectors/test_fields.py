"""Which fields of a batch are asked when: what a device has not is asked for now and then, what it has always."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter.collectors.base import Field, Fields, Tick, read_fields
from exporter.core.clock import UnixTime
from tests.unit.collectors.answers import FakeDevice

BEGIN = 1000.0
BOTH: Sequence[Field] = ((1, 0), (2, 0))


def ask(device: FakeDevice, previous: Fields | None, seconds: float) -> tuple[Fields, Sequence[Field]]:
    """What is known then, and the fields that were asked for."""
    device.asked.clear()
    found = read_fields(device, BOTH, previous, Tick(UnixTime(BEGIN + seconds), 0.0))
    return found, [field for _, batch in device.asked for field in batch]


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [(0.0, [(1, 0)]), (0.5, [(1, 0)]), (299.0, [(1, 0)]), (300.0, [*BOTH]), (-1.0, [*BOTH])],
    ids=["at once", "soon", "just before", "after five minutes", "clock set back"],
)
def test_field_that_a_device_has_not_is_asked_for_every_five_minutes(seconds: float, asked: Sequence[Field]) -> None:
    device = FakeDevice(fields={(1, 0): 7.0})
    known, _ = ask(device, None, 0.0)

    again, batch = ask(device, known, seconds)

    assert batch == asked
    assert again.values == {(1, 0): 7.0}


def test_device_that_has_none_of_them_is_left_alone_in_between() -> None:
    device = FakeDevice()
    known, first = ask(device, None, 0.0)

    assert (known.values, first) == ({}, [*BOTH])
    assert ask(device, known, 10.0)[1] == []
    assert device.asked == []


def test_field_that_a_probe_did_not_bring_is_asked_for_on_where_it_answered_before() -> None:
    device = FakeDevice(fields={(1, 0): 7.0, (2, 0): 8.0})
    known, _ = ask(device, None, 0.0)
    answer = device.fields.pop((2, 0))
    known, _ = ask(device, known, 300.0)
    device.fields[2, 0] = answer

    known, batch = ask(device, known, 301.0)

    assert batch == [*BOTH]
    assert (known.get(1), known.get(2)) == (7.0, 8.0)
