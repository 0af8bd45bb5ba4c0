"""What owners have used goes on, whatever counts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.owner import Owner, Ownership
from exporter.host.model import HostProcess, HostUsage
from exporter.sampling.usage.host_reader import HostReader
from exporter.sampling.usage.totals import CarriedUsage
from tests.unit.host.test_reader import JOB, LOOSE, host, reader, write

OTHER = Owner(workload="process:y", kind="process")


def cpu(subject: HostReader, ownership: Ownership, *running: HostProcess, now: float) -> float | None:
    usages, _ = subject.read(ownership, {each.pid: each for each in running}, now)
    return usages[JOB if JOB in usages else LOOSE].cpu_seconds


def test_cgroup_that_is_anothers_too_for_a_while_is_not_counted_again(tmp_path: Path) -> None:
    own = Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    shared = Ownership(processes={10: JOB, 12: OTHER})
    subject, used = reader(tmp_path), list[float | None]()
    for now, ownership, seconds in (
        (0, own, 1000),
        (1, shared, 1001),
        (2, shared, 1002),
        (3, own, 1003),
        (4, own, 1004),
    ):
        write(tmp_path, cpu=seconds * 1_000_000)
        used.append(cpu(subject, ownership, host(10, cpu=now / 2), now=float(now)))

    assert used == [1000.0, 1000.0, 1000.5, 1000.5, 1001.5]


def test_container_started_anew_goes_on(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    ownership = Ownership(holders={"GPU-0": (JOB,)}, cgroups={JOB: "/job"})
    used: list[float | None] = []
    for now, seconds in enumerate((100, 101, 1, 3)):
        write(tmp_path, cpu=seconds * 1_000_000)
        used.append(cpu(subject, ownership, now=float(now)))

    assert used == [100.0, 101.0, 101.0, 103.0]


def test_traffic_of_a_container_started_anew_goes_on(tmp_path: Path) -> None:
    """A new start makes a new network namespace, whose interfaces count from 0."""
    subject, ownership = reader(tmp_path), Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    write(tmp_path)
    table = "Inter-| Receive | Transmit\n face |bytes\n  eth0: {} 0 0 0 0 0 0 0 {} 0 0 0 0 0 0 0\n"
    for pid in (1, 10):
        (tmp_path / f"proc/{pid}/net").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/net/dev").write_text(table.format(0, 0))
    moved: list[Mapping[str, int]] = []
    for now, counted in ((0.0, (500, 100)), (10.0, (700, 100)), (20.0, (50, 10)), (30.0, (90, 10))):
        (tmp_path / "proc/10/net/dev").write_text(table.format(*counted))
        usages, _ = subject.read(ownership, {10: host(10)}, now)
        moved.append(usages[JOB].network_bytes)

    assert moved == [
        {"receive": 500, "transmit": 100},
        {"receive": 700, "transmit": 100},
        {"receive": 700, "transmit": 100},
        {"receive": 740, "transmit": 100},
    ]


def test_many_processes_that_leave_the_gpus_for_a_moment_are_counted_once(tmp_path: Path) -> None:
    """The driver was loaded anew, or did not answer: it listed none of them for one cycle."""
    pids = range(10, 210)
    for pid in pids:
        write(tmp_path, pid=pid, read=1000)
    subject, running = reader(tmp_path), [host(pid, cpu=50.0) for pid in pids]
    everyone, nobody = Ownership(processes=dict.fromkeys(pids, LOOSE)), Ownership(holders={"GPU-0": (LOOSE,)})
    used = [
        cpu(subject, everyone, *running, now=0.0),
        cpu(subject, nobody, now=1.0),
        cpu(subject, everyone, *running, now=2.0),
    ]

    assert used == [10000.0] * 3


def test_process_that_leaves_the_gpu_and_comes_back_is_counted_once(tmp_path: Path) -> None:
    write(tmp_path, pid=10, read=1000)
    write(tmp_path, pid=11, read=500)
    subject = reader(tmp_path)
    both = Ownership(processes={10: LOOSE, 11: LOOSE})
    cpu(subject, both, host(10, cpu=7.0), host(11, cpu=200.0), now=0.0)
    cpu(subject, Ownership(processes={10: LOOSE}), host(10, cpu=7.0), now=1.0)

    usages, signals = subject.read(both, {10: host(10, cpu=7.0), 11: host(11, cpu=201.0)}, 2.0)

    assert (usages[LOOSE].cpu_seconds, usages[LOOSE].read_bytes) == (208.0, 1500)
    assert signals[LOOSE].cpu_of_limit == 1.0 / 8


def test_pid_used_again_is_another_process(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    both = Ownership(processes={10: LOOSE, 11: LOOSE})
    cpu(subject, both, host(10), host(11, cpu=200.0), now=0.0)
    cpu(subject, Ownership(processes={10: LOOSE}), host(10), now=1.0)

    assert cpu(subject, both, host(10), replace(host(11, cpu=3.0), start_time=99.0), now=2.0) == 203.0


def test_owner_that_comes_back_goes_on(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    running = Ownership(processes={10: LOOSE, 11: LOOSE})
    cpu(subject, running, host(10, cpu=100.0), host(11, cpu=200.0), now=0.0)
    cpu(subject, Ownership(processes={11: LOOSE}), host(11, cpu=200.0), now=1.0)
    subject.read(Ownership(), {}, 2.0)

    usages, signals = subject.read(Ownership(processes={11: LOOSE}), {11: host(11, cpu=201.0)}, 60.0)

    assert usages[LOOSE].cpu_seconds == 301.0
    assert signals == {}


def test_owners_that_are_away_are_bounded(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    for number in range(500):
        pid = number + 10
        owner = Owner(workload=f"process:{pid}", kind="process")
        subject.read(Ownership(processes={pid: owner}), {pid: host(pid)}, float(number))

    assert len(subject._away) < 100


@pytest.mark.parametrize("written", ["read_bytes: 100\nwrite_bytes: 100\n", ""])
def test_process_that_joins_has_not_used_in_one_cycle_what_it_used_before(tmp_path: Path, written: str) -> None:
    write(tmp_path, pid=10)
    write(tmp_path, pid=11, read=10**9)
    (tmp_path / "proc/10/io").write_text(written)
    subject = reader(tmp_path)
    cpu(subject, Ownership(processes={10: LOOSE}), host(10), now=0.0)
    running = {10: host(10), 11: host(11, cpu=300.0)}

    usages, signals = subject.read(Ownership(processes={10: LOOSE, 11: LOOSE}), running, 1.0)

    assert usages[LOOSE].cpu_seconds == 300.0
    assert (signals[LOOSE].cpu_of_limit, signals[LOOSE].read_bytes_per_second) == (None, None)


def test_process_whose_io_cannot_be_read_for_now_is_counted_once(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    ownership = Ownership(processes={10: LOOSE})
    counted = "read_bytes: {}\nwrite_bytes: {}\n"
    for now, text in enumerate((counted.format(1000, 500), "", counted.format(1001, 502))):
        write(tmp_path)
        (tmp_path / "proc/10/io").write_text(text)
        usages, _ = subject.read(ownership, {10: host(10, cpu=float(now))}, float(now))

    assert (usages[LOOSE].read_bytes, usages[LOOSE].written_bytes) == (1001, 502)


_NUMBER = st.none() | st.integers(0, 1000)
_USAGE = st.builds(
    lambda seconds, read, pressure: HostUsage(
        cpu_seconds=seconds, read_bytes=read, pressure_seconds={} if pressure is None else {"io": float(pressure)}
    ),
    _NUMBER,
    _NUMBER,
    _NUMBER,
)


@given(st.lists(st.tuples(_USAGE, st.sampled_from([None, "/a", "/b"])), max_size=20))
def test_no_total_falls_or_gains_more_than_its_source(looks: list[tuple[HostUsage, str | None]]) -> None:
    carried, shown, last = CarriedUsage(), dict[str, float](), dict[str, float]()
    source: str | None = ""
    for raw, at in looks:
        usage = carried.of(raw, at)
        if at != source:
            last.clear()
        for name, number, counted in (
            ("cpu", usage.cpu_seconds, raw.cpu_seconds),
            ("read", usage.read_bytes, raw.read_bytes),
            ("io", usage.pressure_seconds.get("io"), raw.pressure_seconds.get("io")),
        ):
            assert (number is None) == (counted is None)
            if number is not None and counted is not None:
                gained = number - shown.get(name, number)
                assert 0 <= gained <= max(0.0, counted - last.get(name, counted))
                shown[name], last[name] = number, counted
        source = at
