"""SXIDs of NVSwitches in the kernel log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.sxid import SXID_FAMILIES, Sxid, SxidCounts, count_sxid, last_fatal, parse_sxid
from exporter.core.clock import EPOCH, UnixTime

FATAL = "4,880,2000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
NON_FATAL = "4,881,2500000,-;nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress"
NO_LINK = "4,882,3000000,-;nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 10003, Fatal, Host"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (FATAL, Sxid("3", "0000:c1:00.0", "20034", "fatal", "30")),
        (NON_FATAL, Sxid("0", "0000:05:00.0", "12028", "non_fatal", "32")),
        (NO_LINK, Sxid("1", "0000:06:00.0", "10003", "fatal", "")),
    ],
)
def test_first_line_of_an_sxid(record: str, kind: Sxid) -> None:
    found = parse_sxid(record, UnixTime(1000.0))

    assert found is not None
    assert found[0] == kind
    assert found[1] == 1000.0 + int(record.split(",")[2]) / 1e6


@pytest.mark.parametrize("priority", [8, 12, 190])
def test_line_that_a_program_wrote_is_a_test_and_no_fault(priority: int) -> None:
    """The kernel lets no program write as itself."""
    found = parse_sxid(FATAL.replace("4,", f"{priority},", 1), UnixTime(1000.0))

    assert found is not None
    assert found[0] == Sxid("3", "0000:c1:00.0", "20034", "injected", "30")
    assert last_fatal(count_sxid(SxidCounts(), *found)) == {}


@pytest.mark.parametrize(
    "record",
    [
        "4,883,1,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Severity 0 Engine instance 30",
        "4,884,1,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Data {0x00000001, 0x00000001}",
        "4,885,1,-;NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.",
        "4,886,1,-;a user writes: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30",
        "",
    ],
)
def test_lines_that_follow_and_lines_of_others_count_nothing(record: str) -> None:
    assert parse_sxid(record, UnixTime(1000.0)) is None


@given(st.text())
def test_whatever_the_log_says_is_survived(text: str) -> None:
    parse_sxid(f"4,1,1,-;nvidia-nvswitch0: SXid ({text}", EPOCH)
    parse_sxid(text, EPOCH)


def test_counts_and_the_latest_time_by_kind() -> None:
    found = SxidCounts()
    for record in (FATAL, NON_FATAL, FATAL):
        told = parse_sxid(record, UnixTime(1000.0))
        assert told is not None
        found = count_sxid(found, *told)
    shown = {family.name: {s.labels: s.value for s in family.collect(found)} for family in SXID_FAMILIES}

    fatal = ("3", "0000:c1:00.0", "20034", "fatal", "30")
    assert shown["gpu_nvswitch_sxid_errors_total"][fatal] == 2
    assert shown["gpu_nvswitch_sxid_last_timestamp_seconds"][fatal] == 1002.0


def test_kinds_without_end_are_cut() -> None:
    found = SxidCounts()
    for number in range(2000):
        found = count_sxid(found, Sxid("0", "0000:05:00.0", str(number), "fatal", "1"), UnixTime(1.0))

    assert len(found.seen) <= 512
