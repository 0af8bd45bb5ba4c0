"""XIDs: NVIDIA's classes, counts over two sources, and the kernel log."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.xid import XID_FAMILIES, XidCounts, XidReport, count_xid, parse_xid, pci_bus_id, shift_xids
from exporter.collectors.xid_catalogue import CATALOGUE, HARDWARE, SITE, class_of
from exporter.core.clock import UnixTime
from exporter.driver.interface import XidEvent

UUIDS = {"0000:3b:00.0": "GPU-3b"}
CLASSES = {
    *("reset_gpu", "reset_when_idle", "restart_bm", "workflow", "restart_app", "ignore", "contact_support"),
    *("injected", "unknown"),
}


@pytest.mark.parametrize(
    ("xid", "class_"),
    [
        (8, "restart_app"),
        (13, "restart_app"),
        (31, "restart_app"),
        (43, "ignore"),
        (45, "ignore"),
        (48, "workflow"),
        (61, "contact_support"),
        (63, "ignore"),
        (64, "reset_gpu"),
        (74, "workflow"),
        (79, "restart_bm"),
        (14, "injected"),
        (94, "reset_when_idle"),
        (95, "reset_gpu"),
        (105, "restart_app"),
        (119, "reset_gpu"),
        (137, "ignore"),
        (140, "reset_gpu"),
        (149, "workflow"),
        (151, "workflow"),
        (158, "reset_gpu"),
        (162, "ignore"),
        (163, "workflow"),
        (169, "unknown"),
        (999, "unknown"),
        (0, "unknown"),
    ],
)
def test_class_of_an_xid(xid: int, class_: str) -> None:
    assert class_of(xid) == class_


def test_catalogue_covers_every_code_once_up_to_172() -> None:
    assert sorted(CATALOGUE) == list(range(1, 173))
    assert {entry.class_ for entry in CATALOGUE.values()} == CLASSES


BY_ACTION = {
    "RESET_GPU": {"reset_gpu"},
    "RESTART_BM": {"restart_bm"},
    "RESTART_APP": {"restart_app", "reset_when_idle"},
    "IGNORE": {"ignore", "injected"},
    "CONTACT_SUPPORT": {"contact_support"},
    "": {"ignore", "workflow", "unknown"},
}
"""Every other action is a procedure of its own."""


@pytest.mark.parametrize("xid", sorted(CATALOGUE))
def test_class_of_each_row_follows_nvidias_action(xid: int) -> None:
    entry = CATALOGUE[xid]
    assert entry.class_ in BY_ACTION.get(entry.action, {"workflow"} if xid != 45 else {"ignore"})
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", entry.name)
    assert re.fullmatch(r"|always|R\d{3}", entry.recovery)


def rows() -> list[dict[str, str]]:
    with Path(__file__).with_name("nvlink5_rows.tsv").open() as table:
        return list(csv.DictReader(table, delimiter="\t"))


def line_of(row: dict[str, str], branch: str, *, second: bool = False) -> str:
    """The line of a row as the driver writes it. `second`: with the bit of the second action."""
    info = int(row[branch].replace("-", "0"), 2) | (second and {"before_r575": 1 << 10, "since_r575": 1 << 7}[branch])
    severity = "Nonfatal" if row["severity"].startswith("Non-fatal") else "Fatal"
    return (
        f"NVRM: Xid (PCI:0000:3b:00): {row['xid']}, pid=7, name=a b, {row['unit']}  {severity}   XC0 i0 Link 03 "
        f"(0x{info:08x} {row['status']} 0x00000000 0x00000000 0x00000000 0x00000000)"
    )


def class_in(line: str, priority: int = 4) -> str:
    event = parse_xid(f"{priority},1,0,-;{line}\n SUBSYSTEM=pci\n", UnixTime(0.0), UUIDS)
    assert event
    return event.class_


@pytest.mark.parametrize("branch", ["before_r575", "since_r575"])
@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['xid']} {row['unit']} {row['status']}")
def test_link_errors_are_decoded_as_nvidias_table_has_them(row: dict[str, str], branch: str) -> None:
    """XID_154_EVAL: XID 154 states the action, if there is one."""
    assert class_in(line_of(row, branch)) == ("reset_gpu" if row["action"] == "RESET_GPU" else "ignore")
    if row["action2"] != "-":
        assert class_in(line_of(row, branch, second=True)) == "reset_gpu"


@pytest.mark.parametrize(
    ("text", "class_"),
    [
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", "reset_gpu"),
        ("from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)", "reset_gpu"),
        ("from 0x0 (None) to 0x2 (Node Reboot Required)", "restart_bm"),
        ("from 0x0 (None) to 0x2 (OS Reboot)", "restart_bm"),
        ("from 0x0 (None) to 0x4 (Drain and Reset)", "reset_when_idle"),
        ("from 0x0 (None) to 0x3 (Drain P2P)", ""),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", "ignore"),
        ("from 0x0 (None) to 0xffffffffff (?)", ""),
    ],
)
def test_recovery_is_the_one_that_the_line_names(text: str, class_: str) -> None:
    assert class_in(f"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed {text}") == class_


def test_name_of_a_process_states_nothing() -> None:
    forged = "RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000040)"
    assert class_in(f"NVRM: Xid (PCI:0000:3b:00): 145, pid=1, name={forged}, something else") == ""


def test_line_that_a_program_wrote_into_the_kernel_log_is_injected() -> None:
    """The kernel's own records have facility 0, which it gives to no program."""
    line = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert [class_in(line, priority) for priority in (0, 3, 7, 8, 11, 12)] == ["", "", "", *["injected"] * 3]


def after(*events: XidEvent, site: dict[int, str] | None = None) -> XidCounts:
    xids = XidCounts()
    for event in events:
        xids = count_xid(xids, event, "kmsg", site)
    return xids


def event(xid: int, time: float, class_: str = "") -> XidEvent:
    return XidEvent("GPU-1", xid, UnixTime(time), class_)


@pytest.mark.parametrize(
    ("events", "standing"),
    [
        ([event(149, 1.0, "reset_gpu"), event(149, 2.0, "ignore")], {149: ("reset_gpu", 1.0)}),
        ([event(145, 1.0, "ignore")], {}),
        ([event(163, 1.0), event(162, 2.0)], {163: ("ignore", 2.0)}),
        ([event(162, 1.0)], {163: ("ignore", 1.0)}),
        ([event(162, 1.0), event(163, 2.0)], {163: ("workflow", 2.0)}),
        ([event(154, 1.0, "reset_gpu"), event(154, 2.0, "ignore")], {154: ("ignore", 2.0)}),
        ([event(79, 1.0, "injected")], {}),
        ([event(300, 1.0)], {300: ("unknown", 1.0)}),
    ],
)
def test_what_stands_after_these_events(events: list[XidEvent], standing: dict[int, tuple[str, float]]) -> None:
    xids = after(*events)
    assert xids.standing == standing
    ended = {xid for xid, (class_, _) in standing.items() if class_ == "ignore"}
    assert not ended & {xid for xid, class_ in xids.last if class_ != "ignore"}


def test_list_of_the_site_wins_over_the_catalogue() -> None:
    xids = after(event(79, 1.0), event(43, 2.0), event(79, 3.0, "injected"), site=dict(SITE("79=ignore, 43=page")))
    assert xids.standing == {43: XidReport("page", UnixTime(2.0))}
    assert {key: count for key, count in xids.counts.items() if count} == {
        (43, "page"): 1,
        (79, "ignore"): 1,
        (79, "injected"): 1,
    }


@pytest.mark.parametrize("text", ["79", "x=ignore", "79=mend", "79=ignore,79=page", "-1=page"])
def test_list_of_the_site_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"NAME=VALUE|one of"):
        SITE(text)


def test_every_hardware_code_is_in_a_class_that_needs_hands() -> None:
    assert {class_of(xid) for xid in HARDWARE} == {"reset_gpu", "restart_bm", "workflow"}
    assert {xid for xid, each in CATALOGUE.items() if each.class_ in {"reset_gpu", "restart_bm"}} <= set(HARDWARE)


def test_hardware_codes_exist_before_the_first_event() -> None:
    errors, last = XID_FAMILIES
    published = {sample.labels: sample.value for sample in errors.collect(XidCounts())}
    assert published[("79", "restart_bm")] == 0
    assert len(published) == len(HARDWARE)
    assert last.collect(XidCounts()) == ()


def test_an_event_counts_and_dates() -> None:
    xids = count_xid(XidCounts(), XidEvent("GPU-1", 170, 100.0), "nvml")
    xids = count_xid(xids, XidEvent("GPU-1", 170, 90.0), "nvml")
    errors, last = XID_FAMILIES
    assert {sample.labels: sample.value for sample in errors.collect(xids)}[("170", "unknown")] == 2
    assert [(s.labels, s.value) for s in last.collect(xids)] == [(("170", "unknown"), 100.0)]


def test_the_same_xid_from_events_and_kernel_log_counts_once() -> None:
    xids = XidCounts()
    for xid, source in ((13, "nvml"), (13, "kmsg"), (13, "nvml"), (79, "kmsg")):
        xids = count_xid(xids, XidEvent("GPU-1", xid, 100.0), source)
    assert (xids.counts[13, "restart_app"], xids.counts[79, "restart_bm"]) == (2, 1)


@given(st.lists(st.tuples(st.sampled_from([13, 79, 200]), st.sampled_from(["nvml", "kmsg"]), st.floats(0, 1e9))))
def test_counts_never_fall(events: list[tuple[int, str, float]]) -> None:
    xids = XidCounts()
    for xid, source, time in events:
        after = count_xid(xids, XidEvent("", xid, time), source)
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
    event = parse_xid(f"4,1234,5000000,-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n", 1000.0, UUIDS)
    assert event == XidEvent("GPU-3b", 79, 1005.0)


def test_kernel_log_of_an_unknown_gpu_carries_its_bus_id() -> None:
    event = parse_xid("4,1,0,-;NVRM: Xid (PCI:0000:ff:00): 79, x", 0.0, UUIDS)
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
    assert parse_xid(record, 0.0, UUIDS) is None


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=2))
def test_no_record_breaks_the_parser(record: str, uuids: dict[str, str]) -> None:
    parse_xid(record, 0.0, uuids)
    parse_xid(f"4,1,0,-;NVRM: Xid (PCI:{record}): 79, x", 0.0, uuids)
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
    event = parse_xid(f"4,1,{time},-;NVRM: Xid (PCI:{address}): {xid}, pid=7", 0.0, uuids)
    assert event == XidEvent("GPU-x", xid, time / 1e6)


def test_clock_that_was_set_moves_every_time() -> None:
    before = count_xid(XidCounts(), XidEvent("GPU-1", 79, UnixTime(100.0)), "nvml")
    after = shift_xids(before, 60.0)

    assert [*after.last.values(), *(each.time for each in after.standing.values())] == [160.0, 160.0]
    assert after.counts == before.counts
