from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.driver.nvml.binding import nvml, plain
from exporter.driver.nvml.devices import compute_slices, sysfs_address
from exporter.driver.nvml.structs import value

_RAW = st.integers(0, 2**64 - 1)
_NOW = 1_795_000_000_000_000


def _raw(form: str, number: float) -> int:
    return int.from_bytes(struct.pack(f"={form}", number).ljust(8, b"\0"), "little")


@pytest.mark.parametrize(
    ("type_", "form", "number"),
    [(0, "d", -1.5), (1, "I", 7), (2, "Q", 2**40), (3, "Q", 2**63), (4, "q", -5), (5, "i", -8), (6, "H", 65535)],
)
def test_field_value_is_read_by_its_type(type_: int, form: str, number: float) -> None:
    assert value(82, _NOW, type_, 0, _raw(form, number)) == number


@pytest.mark.parametrize("answer", ["A\x1b[31m\n1\x00\u202e0", b"A\x1b[31m\n1\x00\xe2\x80\xae0\0\0"])
def test_text_of_the_driver_is_printable(answer: object) -> None:
    assert plain((answer,)) == (r"A\x1b[31m\n1\x00\u202e0",)


def test_odd_bytes_in_a_struct_cost_no_other_field() -> None:
    info = nvml.nvmlPciInfo_t()
    info.busIdLegacy, info.busId = b"\xff", b"00000000:1A:00.0"
    found = plain(info)

    assert (found.busIdLegacy, found.busId) == ("\ufffd", "00000000:1A:00.0")


@given(field=st.integers(1, 31), type_=st.integers(0, 6), raw=_RAW)
def test_ecc_counter_is_64_bits_whatever_its_type(field: int, type_: int, raw: int) -> None:
    assert value(field, _NOW, type_, 0, raw) == raw


@given(code=st.integers(1, 999), time=st.integers(0, _NOW), raw=_RAW)
def test_failed_entry_has_no_value(code: int, time: int, raw: int) -> None:
    assert value(82, time, 3, code, raw) is None


@given(field=st.integers(1, 400), raw=_RAW)
def test_entry_the_driver_left_alone_has_no_value(field: int, raw: int) -> None:
    assert value(field, 0, 0, 0, raw) is None


def test_value_of_an_unknown_type_is_absent() -> None:
    assert value(82, _NOW, 9, 0, 1) is None


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:1A:00.0", "0000:1a:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),  # as behind Intel VMD
        ("strange", "strange"),
    ],
)
def test_pci_address_is_written_as_in_sysfs(bus_id: str, address: str) -> None:
    assert sysfs_address(bus_id) == address


@pytest.mark.parametrize(
    ("profile", "slices"),
    [
        ("1g.10gb", 1),
        ("3g.40gb", 3),
        ("7g.80gb", 7),
        ("1c.3g.40gb", 1),
        ("2c.7g.80gb", 2),
        ("1g.10gb+me", 1),
        ("", None),
    ],
)
def test_compute_slices_of_a_profile(profile: str, slices: int | None) -> None:
    assert compute_slices(profile) == slices


@given(st.text())
def test_any_text_is_a_profile_or_not(text: str) -> None:
    assert compute_slices(text) is None or text[0].isdigit()
