"""The host side of owners from cycle to cycle, on a /proc and a cgroup tree made of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from exporter.attribution.owner import Owner, Ownership
from exporter.host.model import HostProcess, HostSignals
from exporter.host.process import CLOCK_TICKS
from exporter.sampling.usage.host_reader import CYCLE_PROCESSES, LIMIT_SECONDS, NETWORK_SECONDS, HostReader

JOB, LOOSE = Owner(workload="slurm:1", kind="slurm"), Owner(workload="process:x", kind="process")
STAT = "{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0\n"


def host(pid: int, cpu: float = 0.0) -> HostProcess:
    return HostProcess(pid, "x", "u", start_time=5.0, cpu_seconds=cpu, resident_bytes=100, cgroup="")


def write(root: Path, *, pid: int = 10, ticks: int = 0, cpu: int = 0, stalled: int = 0, read: int = 0) -> None:
    files = {
        f"proc/{pid}/task/{pid}/stat": STAT.format(pid=pid, ticks=ticks),
        f"proc/{pid}/io": f"rchar: 9\nread_bytes: {read}\n",
        "cg/cgroup.controllers": "cpu io memory",
        "cg/job/cpu.stat": f"usage_usec {cpu}",
        "cg/job/cpu.max": "200000 100000",
        "cg/job/io.pressure": f"some avg10=0 avg60=0 avg300=0 total={stalled}",
        "cg/job/memory.current": "4096",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def reader(root: Path) -> HostReader:
    return HostReader(root / "proc", root / "cg", cores=8)


def test_owner_with_a_cgroup(tmp_path: Path) -> None:
    ownership = Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    write(tmp_path)
    subject = reader(tmp_path)
    subject.read(ownership, {10: host(10)}, 100.0)
    write(tmp_path, ticks=CLOCK_TICKS, cpu=1_000_000, stalled=500_000)

    usages, signals = subject.read(ownership, {10: host(10)}, 101.0)

    assert (usages[JOB].cpu_seconds, usages[JOB].cpu_limit_cores, usages[JOB].resident_bytes) == (1.0, 2.0, 4096)
    assert (signals[JOB].io_pressure, signals[JOB].cpu_of_limit, signals[JOB].hottest_thread) == (0.5, 0.5, 1.0)
    assert set(signals[JOB].processes) == {10}


def test_of_many_owners_a_part_is_looked_at_and_the_time_since_then_counts(tmp_path: Path) -> None:
    owners = {pid: Owner(workload=f"process:{pid}", kind="process") for pid in range(10, 10 + 2 * CYCLE_PROCESSES)}
    subject, signals, looked = reader(tmp_path), dict[Owner, HostSignals](), list[int]()
    for second in range(8):
        for pid in owners:
            write(tmp_path, pid=pid, ticks=second * CLOCK_TICKS // 2)
        hosts = {pid: host(pid, second / 2) for pid in owners}
        _, now = subject.read(Ownership(processes=owners), hosts, float(second))
        looked.append(sum(now[owner] is not signals.get(owner) for owner in now))
        signals = dict(now)

    assert max(looked) <= CYCLE_PROCESSES
    assert {signals[owner].hottest_thread for owner in owners.values()} == {0.5}
    assert {signals[owner].cpu_of_limit for owner in owners.values()} == {0.5 / 8}


def test_first_cycle_has_totals_and_no_signals(tmp_path: Path) -> None:
    write(tmp_path)

    usages, signals = reader(tmp_path).read(Ownership(processes={10: JOB}, cgroups={JOB: "/job"}), {}, 0.0)

    assert set(usages) == {JOB}
    assert signals == {}


def test_owner_without_a_cgroup_is_the_sum_of_its_processes_and_never_falls(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    write(tmp_path, pid=10, read=1000)
    write(tmp_path, pid=11, read=50)
    both = {10: host(10, cpu=7.0), 11: host(11, cpu=2.0)}
    first, _ = subject.read(Ownership(processes={10: LOOSE, 11: LOOSE}), both, 0.0)

    write(tmp_path, pid=11, read=80)
    second, _ = subject.read(Ownership(processes={11: LOOSE}), {11: host(11, cpu=2.5)}, 1.0)

    assert (first[LOOSE].cpu_seconds, first[LOOSE].read_bytes, first[LOOSE].resident_bytes) == (9.0, 1050, 200)
    assert (second[LOOSE].cpu_seconds, second[LOOSE].read_bytes, second[LOOSE].resident_bytes) == (9.5, 1080, 100)


def test_holder_with_nothing_running_is_read_too(tmp_path: Path) -> None:
    write(tmp_path, cpu=3_000_000)

    usages, _ = reader(tmp_path).read(Ownership(holders={"GPU-0": (JOB,)}, cgroups={JOB: "/job"}), {}, 0.0)

    assert usages[JOB].cpu_seconds == 3.0


def test_changed_limit_is_seen_in_time(tmp_path: Path) -> None:
    ownership = Ownership(holders={"GPU-0": (JOB,)}, cgroups={JOB: "/job"})
    write(tmp_path)
    subject = reader(tmp_path)
    subject.read(ownership, {}, 0.0)
    (tmp_path / "cg/job/cpu.max").write_text("100000 100000")

    assert subject.read(ownership, {}, 1.0)[0][JOB].cpu_limit_cores == 2.0
    assert subject.read(ownership, {}, LIMIT_SECONDS)[0][JOB].cpu_limit_cores == 1.0


def test_traffic_of_an_owners_own_network_has_a_total_and_a_rate(tmp_path: Path) -> None:
    ownership = Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    write(tmp_path)
    subject, row = reader(tmp_path), "{name}: {received} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n"

    def carry(received: int, sent: int) -> None:
        text = "a\nb\n" + row.format(name="lo", received=7, sent=7) + row.format(name="e", received=received, sent=sent)
        for pid in (1, 10):
            (tmp_path / f"proc/{pid}/net").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"proc/{pid}/net/dev").write_text(text)

    carry(1000, 500)
    first = subject.read(ownership, {10: host(10)}, 100.0)
    carry(4000, 2500)
    second = subject.read(ownership, {10: host(10)}, 100.0 + NETWORK_SECONDS)
    carry(4000, 2800)
    third = subject.read(ownership, {10: host(10)}, 100.0 + 2 * NETWORK_SECONDS)

    assert [usages[JOB].network_bytes for usages, _ in (first, second, third)] == [
        {"receive": 1000, "transmit": 500},
        {"receive": 4000, "transmit": 2500},
        {"receive": 4000, "transmit": 2800},
    ]
    assert second[1][JOB].network_bytes_per_second == 5000 / NETWORK_SECONDS
    assert third[1][JOB].network_bytes_per_second == 300 / NETWORK_SECONDS


def test_tells_what_it_could_tell_of_some_owner(tmp_path: Path) -> None:
    ownership = Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    write(tmp_path)
    subject = reader(tmp_path)
    assert subject.available_signals() == frozenset(), "a /proc that hides the processes of others (hidepid)"
    (tmp_path / "proc/1/task").mkdir(parents=True)
    assert subject.available_signals() == {"hottest_thread", "blocked_threads"}, "nor shows what they wait in"
    (tmp_path / "proc/1/io").write_text("rchar: 9\n")
    assert subject.available_signals() == {"hottest_thread", "blocked_threads", "receiving_threads"}
    (tmp_path / "proc/pressure").mkdir()
    (tmp_path / "proc/pressure/io").touch()
    assert subject.available_signals() == {
        "hottest_thread",
        "blocked_threads",
        "receiving_threads",
        "cpu_pressure",
        "io_pressure",
    }
    (tmp_path / "proc/10/task/10/wchan").write_text("futex_do_wait")

    for now in (0.0, 1.0):
        subject.read(ownership, {10: host(10)}, now)

    assert subject.available_signals() == {
        "hottest_thread",
        "blocked_threads",
        "receiving_threads",
        "io_pressure",
        "cpu_of_limit",
    }


def test_threads_that_are_not_watched_are_in_what_a_process_used(tmp_path: Path) -> None:
    """The kernel reports the same of all that are."""
    write(tmp_path)
    subject = reader(tmp_path)
    ownership = Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    told: list[float | None] = []
    for now, cpu in enumerate((1.0, 1.0, 1.0, 3.0, 5.0, 5.0)):
        _, signals = subject.read(ownership, {10: host(10, cpu=cpu)}, float(now))
        told.append(signals[JOB].processes[10].cpu if signals else None)

    assert told == [None, 0.0, 0.0, 2.0, 2.0, 0.0]


def test_waits_that_are_not_shown_are_not_told_to_be_none(tmp_path: Path) -> None:
    """Of other users' processes /proc/PID/wchan is 0 and /proc/PID/io refused, for who may not trace them."""
    ownership = Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    write(tmp_path)
    (tmp_path / "proc/10/io").unlink()
    (tmp_path / "proc/10/task/10/wchan").write_text("0")
    subject = reader(tmp_path)

    for now in (0.0, 1.0):
        _, signals = subject.read(ownership, {10: host(10)}, now)
        assert "receiving_threads" not in subject.available_signals()

    assert signals[JOB].receiving_threads is None
    assert signals[JOB].blocked_threads == 0.0


def test_ranks_are_told_by_the_launcher_that_started_them(tmp_path: Path) -> None:
    """In the cgroup of their parent, as in a login session: a shell is no launcher."""
    hosts = {pid: replace(host(pid), parent=5 if pid < 12 else 6) for pid in (10, 11, 12)}
    for pid, program in (
        (5, "python3\0/usr/bin/torchrun\0train.py"),
        (6, "-bash"),
        *((pid, "python3") for pid in hosts),
    ):
        write(tmp_path, pid=pid)
        (tmp_path / f"proc/{pid}/cgroup").write_text("0::/user.slice/user-1000.slice/session-3.scope\n")
        (tmp_path / f"proc/{pid}/cmdline").write_text(program)
    subject = reader(tmp_path)
    for second in (0.0, 1.0):
        _, signals = subject.read(Ownership(processes=dict.fromkeys(hosts, LOOSE)), hosts, second)

    assert signals[LOOSE].launchers == {10: 5, 11: 5}
