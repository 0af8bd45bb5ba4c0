"""XIDs: NVIDIA's classes, counts over two sources, and the kernel log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.xid import CATALOGUE, HARDWARE, XID_FAMILIES, XidCounts, class_of, counted, parse, pci_bus_id
from exporter.driver.interface import XidEvent

UUIDS = {"0000:3b:00.0": "GPU-3b"}
CLASSES = {"reset_gpu", "restart_bm", "workflow", "restart_app", "ignore", "contact_support"}


@pytest.mark.parametrize(
    ("xid", "class_"),
    [
        (8, "restart_app"),
        (13, "restart_app"),
        (31, "restart_app"),
        (43, "ignore"),
        (45, "workflow"),
        (48, "workflow"),
        (61, "contact_support"),
        (63, "ignore"),
        (64, "reset_gpu"),
        (74, "workflow"),
        (79, "restart_bm"),
        (94, "restart_app"),
        (95, "reset_gpu"),
        (105, "restart_app"),
        (119, "reset_gpu"),
        (137, "ignore"),
        (140, "reset_gpu"),
        (149, "workflow"),
        (151, "workflow"),
        (158, "reset_gpu"),
        (165, "unknown"),
        (999, "unknown"),
        (0, "unknown"),
    ],
)
def test_class_of_an_xid(xid: int, class_: str) -> None:
    assert class_of(xid) == class_


def test_catalogue_covers_every_code_once_up_to_161() -> None:
    assert sorted(CATALOGUE) == list(range(1, 162))
    assert set(CATALOGUE.values()) == CLASSES


def test_every_hardware_code_is_in_a_class_that_needs_hands() -> None:
    assert {class_of(xid) for xid in HARDWARE} == {"reset_gpu", "restart_bm", "workflow"}
    assert {xid for xid, class_ in CATALOGUE.items() if class_ in {"reset_gpu", "restart_bm"}} <= set(HARDWARE)


def test_hardware_codes_exist_before_the_first_event() -> None:
    errors, last = XID_FAMILIES
    published = {sample.labels: sample.value for sample in errors.collect(XidCounts())}
    assert published[("79", "restart_bm")] == 0
    assert len(published) == len(HARDWARE)
    assert last.collect(XidCounts()) == ()


def test_an_event_counts_and_dates() -> None:
    xids = counted(XidCounts(), XidEvent("GPU-1", 170, 100.0), "nvml")
    xids = counted(xids, XidEvent("GPU-1", 170, 90.0), "nvml")
    errors, last = XID_FAMILIES
    assert {sample.labels: sample.value for sample in errors.collect(xids)}[("170", "unknown")] == 2
    assert [(s.labels, s.value) for s in last.collect(xids)] == [(("170", "unknown"), 100.0)]


def test_the_same_xid_from_events_and_kernel_log_counts_once() -> None:
    xids = XidCounts()
    for xid, source in ((13, "nvml"), (13, "kmsg"), (13, "nvml"), (79, "kmsg")):
        xids = counted(xids, XidEvent("GPU-1", xid, 100.0), source)
    assert (xids.counts[13], xids.counts[79]) == (2, 1)


@given(st.lists(st.tuples(st.sampled_from([13, 79, 200]), st.sampled_from(["nvml", "kmsg"]), st.floats(0, 1e9))))
def test_counts_never_fall(events: list[tuple[int, str, float]]) -> None:
    xids = XidCounts()
    for xid, source, time in events:
        after = counted(xids, XidEvent("", xid, time), source)
        assert all(after.counts[code] >= count for code, count in xids.counts.items())
        assert all(after.last[code] >= when for code, when in xids.last.items())
        xids = after


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (0000:3b:00): 79, Channel 00000001",
        "NVRM: Xid (PCI:00000000:3B:00.0): 79, pid=1",
        "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 79, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
        "NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 79, pid=9",
        "NVRM: Xid (PCI:0000:3b:00): 79",
    ],
)
def test_kernel_log_tells_of_an_xid(text: str) -> None:
    event = parse(f"4,1234,5000000,-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n", 1000.0, UUIDS)
    assert event == XidEvent("GPU-3b", 79, 1005.0)


def test_kernel_log_of_an_unknown_gpu_carries_its_bus_id() -> None:
    event = parse("4,1,0,-;NVRM: Xid (PCI:0000:ff:00): 79, x", 0.0, UUIDS)
    assert event == XidEvent("0000:ff:00.0", 79, 0.0)


@pytest.mark.parametrize(
    "record",
    [
        "",
        "6,339,5140900,-;NET: Registered protocol family 10",
        "4,1,0,-;user wrote NVRM: Xid (PCI:0000:3b:00): 79, x",
        "4,1,0,-;NVRM: Xid (PCI:0000:3b:00): none",
        "NVRM: Xid (PCI:0000:3b:00): 79, x",
        "4,1,0,-;NVRM: SXid (PCI:0000:3b:00): 11012, x",
        " SUBSYSTEM=pci",
    ],
)
def test_other_records_tell_of_none(record: str) -> None:
    assert parse(record, 0.0, UUIDS) is None


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=2))
def test_no_record_breaks_the_parser(record: str, uuids: dict[str, str]) -> None:
    parse(record, 0.0, uuids)
    parse(f"4,1,0,-;NVRM: Xid (PCI:{record}): 79, x", 0.0, uuids)
    pci_bus_id(record)


@given(
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    st.integers(1, 999),
    st.integers(0, 10**15),
    st.sampled_from(["{:04x}:{:02x}:{:02x}", "{:08X}:{:02X}:{:02X}.0", "{:04x}:{:02x}:{:02x}.0"]),
)
def test_every_way_to_write_an_address_finds_the_gpu(
    domain: int, bus: int, device: int, xid: int, time: int, form: str
) -> None:
    address = form.format(domain, bus, device)
    uuids = {f"{domain:04x}:{bus:02x}:{device:02x}.0": "GPU-x"}
    event = parse(f"4,1,{time},-;NVRM: Xid (PCI:{address}): {xid}, pid=7", 0.0, uuids)
    assert event == XidEvent("GPU-x", xid, time / 1e6)
