"""XIDs as they come: from the driver's events, from the kernel log, and from what the kernel log still has."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.collectors.xid_catalogue import class_of
from exporter.core.clock import MonotonicTime, UnixTime
from exporter.driver.interface import DriverError, UnsupportedError, XidEvent
from exporter.sampling import xids
from exporter.sampling.xids import XidLog, follow_driver, follow_kernel_log, past_xids
from tests.unit.sampling.scripted import ScriptedDriver, until

LINE = "3,{},2000000,-;NVRM: Xid (PCI:0000:1a:00): {}, pid=7, name=x\n"
SWITCH = "3,9,3000000,-;nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 7 egress\n"
UUIDS = {"0000:1a:00.0": "GPU-a"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WAIT_SECONDS", "_RETRY_SECONDS", "_OPEN_POLL_SECONDS"):
        monkeypatch.setattr(xids, name, 0.01)


class Thread:
    """Runs `work` until `stop`."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=work, args=(self.stopped,))
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_new_records_are_counted_and_old_ones_have_their_time_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found, kmsg = XidLog(), tmp_path / "kmsg"
    kmsg.write_text(LINE.format(1, 79))
    thread = Thread(lambda stopped: follow_kernel_log(kmsg, found, lambda: UUIDS, stopped))
    until(lambda: found.sources() == {"kmsg": True})
    with kmsg.open("a") as writer:
        writer.write(LINE.format(2, 31) + SWITCH)
    until(lambda: bool(found.switches.seen))
    thread.stop()

    assert found.counts("GPU-a").counts[31, class_of(31)] == 1
    assert found.counts("GPU-a").counts.get((79, class_of(79)), 0) == 0
    assert set(found.counts("GPU-a").standing) == {31, 79}
    assert {(kind.switch, kind.sxid, kind.kind) for kind in found.switches.seen} == {("2", "12028", "non_fatal")}
    assert found.sources() == {"kmsg": False}
    assert caplog.messages == [
        "XID 79 on GPU-a (kmsg)",
        "XID 31 on GPU-a (kmsg)",
        "SXID 12028 on NVSwitch 2 (non_fatal)",
    ]


def test_driver_that_does_not_return_from_the_wait_for_events_is_followed_no_more() -> None:
    """It hangs as it is asked to tell the XIDs of a GPU that hangs: those of the others are not heard of either."""
    now, gate, rounds = [100.0], threading.Event(), threading.Semaphore(0)

    class Hanging(ScriptedDriver):
        def events(self, timeout: float) -> tuple[XidEvent, ...]:
            del timeout
            rounds.release()
            gate.wait()
            return ()

    found = XidLog(lambda: MonotonicTime(now[0]))
    found.set_source("nvml", up=True)
    thread = Thread(lambda stopped: follow_driver(Hanging(lambda: ()), found, stopped, lambda: True))
    rounds.acquire(timeout=20)
    at_first = found.sources()
    now[0] += 11.0
    hung = found.sources()
    gate.set()
    until(lambda: found.sources() == {"nvml": True})
    thread.stop()

    assert (at_first, hung) == ({"nvml": True}, {"nvml": False})


def test_times_of_xids_move_with_the_clock_and_back() -> None:
    """Else an XID would count as new at the time it was stamped with, a day later and perhaps after its cure."""
    bus, day = "0000:3b:00.0", 86400.0
    found, uuids = XidLog(), {bus: "GPU-a"}

    def line(seconds: int, text: str) -> str:
        return f"4,1,{seconds * 1_000_000},-;NVRM: Xid (PCI:{bus[:-2]}): {text}"

    def times() -> tuple[object, ...]:
        report = found.counts("GPU-a")
        return report.last, report.standing[79].time, found.reset("GPU-a"), found.programs("GPU-a", UnixTime(2000.0))

    booted = UnixTime(1000.0)
    found.read(line(10, "31, pid=7, name=python3"), booted, uuids)
    found.read(line(20, "79, pid=7, name=python3"), booted, uuids)
    found.read(line(30, "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"), booted, uuids)
    found.read(line(5, "48, pid=7, name=python3"), booted, {})
    before = times()

    found.read(line(40, "31, pid=8, name=python3"), booted + day, uuids)  # before the sampler has seen the step
    found.add(XidEvent("GPU-a", 62, booted + day + 50.0), "nvml", booted + day)
    found.set_clock(booted + day)
    assert found.counts("GPU-a").last[31, "restart_app"] == booted + day + 40.0
    assert found.counts("GPU-a").last[62, class_of(62)] == booted + day + 50.0
    assert found.unclaimed[bus][48].time == booted + day + 5.0
    found.set_clock(booted)

    assert times()[1:3] == before[1:3] == (1020.0, 1030.0)
    assert times()[3] == {31: [1010.0, 1040.0]}
    assert found.counts("GPU-a").counts[79, class_of(79)] == 1


def test_kernel_log_that_cannot_be_opened_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = XidLog()

    follow_kernel_log(tmp_path / "none", found, dict, threading.Event())

    assert found.sources() == {"kmsg": False}
    assert caplog.messages == [f"XIDs come from the driver alone: {tmp_path}/none: No such file or directory"]


def test_past_records_wait_for_their_gpu(tmp_path: Path) -> None:
    found, kmsg = XidLog(), tmp_path / "kmsg"
    kmsg.write_text("6,1,1000000,-;systemd: started\n" + LINE.format(2, 79) * 2)

    past_xids(kmsg, found)
    past_xids(tmp_path / "missing", found)
    waiting = found.unclaimed
    found.claim(UUIDS)

    assert set(waiting) == {"0000:1a:00.0"}
    assert set(waiting["0000:1a:00.0"]) == set(found.counts("GPU-a").standing) == {79}
    assert found.unclaimed == {}


@pytest.mark.parametrize("past", [True, False])
def test_storm_of_xids_displaces_no_xid_that_came_before(past: bool) -> None:  # noqa: FBT001 - a parameter
    """A GPU that fails ends all its programs, and may not be shown yet: each of them writes a line of its own."""
    found = XidLog()
    found.read(LINE.format(1, 95), UnixTime(0.0), {}, past=past)
    for sequence in range(300):
        found.read(LINE.format(sequence, 45), UnixTime(0.0), {}, past=past)
    waiting = found.unclaimed
    found.claim(UUIDS)

    assert waiting["0000:1a:00.0"][95].time == UnixTime(2.0)
    assert found.counts("GPU-a").standing[95].time == UnixTime(2.0)
    assert found.counts("GPU-a").counts.get((45, class_of(45)), 0) == (0 if past else 300)


def test_xids_heard_by_bus_id_and_by_uuid_are_of_one_gpu() -> None:
    found, booted = XidLog(), UnixTime(0.0)
    smoothing = "4,1,{}000000,-;NVRM: Xid (PCI:0000:1a:00): {}, Power smoothing\n"
    found.read(smoothing.format(3, 163), booted, UUIDS)
    found.read(smoothing.format(4, 119), booted, UUIDS)
    found.read(smoothing.format(5, 162), booted, {})
    found.read(smoothing.format(6, 119), booted, {})
    found.claim(UUIDS)

    after = found.counts("GPU-a")
    assert after.standing == {119: ("reset_gpu", 6.0), 163: ("ignore", 5.0)}
    assert after.last == {(119, "reset_gpu"): 6.0, (162, class_of(162)): 5.0}
    assert after.counts[119, "reset_gpu"] == 2


def test_programs_that_fail_are_counted_once_each_by_gpu(tmp_path: Path) -> None:
    found, kmsg = XidLog(), tmp_path / "kmsg"
    line = "3,1,2000000,-;NVRM: Xid (PCI:0000:1a:00): 31, pid={}, name=x, MMU Fault\n"
    kmsg.write_text("".join(line.format(pid) for pid in (7, 8, 8, 9)) + line.format("'<unknown>'"))

    past_xids(kmsg, found)
    found.claim(UUIDS)

    (last,) = found.counts("GPU-a").last.values()
    assert {xid: len(times) for xid, times in found.programs("GPU-a", last).items()} == {31: 3}
    assert found.programs("GPU-a", last + 6 * 3600 + 1) == {}


def test_reset_that_the_kernel_log_shows_has_its_time(tmp_path: Path) -> None:
    found, kmsg = XidLog(), tmp_path / "kmsg"
    changed = "3,1,{}000000,-;NVRM: Xid (PCI:0000:1a:00): 154, GPU recovery action changed from {} to {}\n"
    needed, none, drain = "0x1 (GPU Reset Required)", "0x0 (None)", "0x3 (Drain P2P)"
    kmsg.write_text(changed.format(5, none, needed) + changed.format(6, drain, none))
    past_xids(kmsg, found)
    found.claim(UUIDS)
    assert found.reset("GPU-a") == 0

    kmsg.write_text(changed.format(9, needed, none))
    past_xids(kmsg, found)
    found.claim(UUIDS)

    assert found.reset("GPU-a") == max(found.counts("GPU-a").last.values())
    assert found.reset("GPU-b") == 0


class Events(ScriptedDriver):
    """Answers each question for events with the next of `answers`, then with nothing."""

    def __init__(self, *answers: tuple[XidEvent, ...] | DriverError) -> None:
        super().__init__(tuple)
        self.answers = list(answers)
        self.asked: list[float] = []

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        self.asked.append(timeout)
        answer = self.answers.pop(0) if self.answers else ()
        if isinstance(answer, DriverError):
            raise answer
        return answer


def test_events_of_the_driver_are_counted_while_it_is_open(caplog: pytest.LogCaptureFixture) -> None:
    found, opened = XidLog(), threading.Event()
    driver = Events((XidEvent("GPU-a", 48, 5.0), XidEvent("", 62, 6.0)))
    thread = Thread(lambda stopped: follow_driver(driver, found, stopped, opened.is_set))
    assert driver.asked == []
    opened.set()
    until(lambda: len(driver.asked) > 2)
    thread.stop()

    assert found.counts("GPU-a").counts[48, class_of(48)] == 1
    assert found.counts("GPU-a").last[48, "workflow"] == 5.0
    assert found.sources() == {"nvml": True}
    assert set(driver.asked) == {0.01}
    assert caplog.messages == ["XID 48 on GPU-a (nvml)", "XID 62 on an unknown GPU (nvml)"]


def test_failures_of_the_driver_are_told_once_each_and_show(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = XidLog()
    broken, none = DriverError("broken"), UnsupportedError("no events")
    driver = Events(broken, broken, (), broken, none, none)
    thread = Thread(lambda stopped: follow_driver(driver, found, stopped, lambda: True))
    until(lambda: len(driver.asked) >= 7)
    thread.stop()

    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    warned = ("WARNING", "no XID events from the driver: broken")
    assert told == [warned, warned, ("INFO", "no XID events from the driver: no events")]


def test_source_that_fails_is_down_until_it_answers() -> None:
    found, stopped = XidLog(), threading.Event()
    seen: list[bool] = []

    class Watched(Events):
        def events(self, timeout: float) -> tuple[XidEvent, ...]:
            seen.extend(found.sources().values())
            if len(self.asked) >= 2:
                stopped.set()
            return super().events(timeout)

    follow_driver(Watched(DriverError("broken"), ()), found, stopped, lambda: True)

    assert seen == [False, True]


def test_load_of_the_driver_is_a_reset_of_all(tmp_path: Path) -> None:
    kmsg = tmp_path / "kmsg"
    kmsg.write_text(
        "4,1,1000000,-;NVRM: Xid (PCI:0000:18:00): 119, pid=77, name=python3, Timeout\n"
        "4,2,2000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
        "4,3,3000000,-;NVRM: Xid (PCI:0000:18:00): 31, pid=78, name=python3, MMU Fault\n"
    )
    found = XidLog()

    past_xids(kmsg, found)
    found.claim({"0000:18:00.0": "GPU-a"})

    assert list(found.counts("GPU-a").last) == [(31, "restart_app")]
    (last,) = found.counts("GPU-a").last.values()
    assert found.reset("GPU-b") == pytest.approx(last - 1.0, abs=0.1)


def test_line_in_the_kernel_log_decides_where_it_is_followed() -> None:
    """The driver's event states the number alone, and may come first."""
    found = XidLog()
    found.set_source("kmsg", up=True)
    found.add(XidEvent("GPU-a", 149, UnixTime(5.0)), "nvml")
    found.read(
        "4,1,5000000,-;NVRM: Xid (PCI:0000:1a:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 "
        "(0x021425c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        UnixTime(0.0),
        UUIDS,
    )

    assert {key: count for key, count in found.counts("GPU-a").counts.items() if count} == {(149, "reset_gpu"): 1}


def test_event_of_the_driver_counts_where_the_kernel_log_is_not_read() -> None:
    found = XidLog()
    found.set_source("kmsg", up=False)
    found.add(XidEvent("GPU-a", 149, UnixTime(5.0)), "nvml")

    assert found.counts("GPU-a").standing == {149: ("workflow", 5.0)}
