"""Which threads and children are read, on a /proc made of files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.host import threads
from exporter.host.process import CLOCK_TICKS, parse_stat
from exporter.host.task import SchedStat, parse_schedstat
from exporter.host.text import read_text
from exporter.host.threads import SCAN_SECONDS, ThreadReader, Workers, task_paths

STAT = "{pid} (py thon) {state} 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0\n"


def stat(path: Path, *, ticks: int = 0, state: str = "S") -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "stat").write_text(STAT.format(pid=path.name, state=state, ticks=ticks))
    (path / "schedstat").write_text("1 2000000000 3\n")


def reader_of(root: Path) -> ThreadReader:
    return ThreadReader(root)


def process(root: Path, pid: int, tasks: dict[int, int], children: tuple[int, ...] = ()) -> None:
    for tid, ticks in tasks.items():
        stat(root / str(pid) / "task" / str(tid), ticks=ticks)
    (root / str(pid) / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))


def test_threads_and_direct_children_are_looked_at(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1, 11: 2}, children=(20,))

    assert set(task_paths(str(tmp_path), 10, Workers())) == {"10/task/10", "10/task/11", "20"}


def test_process_that_has_gone_has_no_tasks(tmp_path: Path) -> None:
    assert reader_of(tmp_path).read({"job": [10]}, 0.0) == {}


def test_between_scans_only_the_main_thread_and_the_hot_ones_are_read(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 0, **{10 + number: number for number in range(1, 40)}})
    reader = reader_of(tmp_path)
    assert len(reader.read({"job": [10]}, 0.0)[10]) == 40

    assert set(reader.read({"job": [10]}, 1.0)[10]) == {"10/task/10", "10/task/49", "10/task/48", "10/task/47"}


def test_thread_that_turns_hot_is_found_by_the_next_scan(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 0, 11: 900, 12: 800, 13: 700, 14: 5})
    reader = reader_of(tmp_path)
    reader.read({"job": [10]}, 0.0)
    stat(tmp_path / "10/task/14", ticks=500)

    reader.read({"job": [10]}, threads.SCAN_SECONDS)

    assert "10/task/14" in reader.read({"job": [10]}, threads.SCAN_SECONDS + 1)[10]


def test_blocked_thread_is_watched_though_it_uses_no_cpu(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 9, 11: 9, 12: 9, 13: 9})
    stat(tmp_path / "10/task/15", state="D")
    reader = reader_of(tmp_path)
    reader.read({"job": [10]}, 0.0)

    assert reader.read({"job": [10]}, 1.0)[10]["10/task/15"].blocked


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", True), ("S", False), ("Z", False)])
def test_who_was_stopped_is_told_by_its_state(tmp_path: Path, state: str, *, stopped: bool) -> None:
    process(tmp_path, 10, {10: 9})
    stat(tmp_path / "10/task/10", state=state)

    assert reader_of(tmp_path).read({"job": [10]}, 0.0)[10]["10/task/10"].stopped is stopped


@pytest.mark.parametrize("workloads", [1, 25, 100])
def test_a_thousand_processes_cost_no_more_than_the_bounds(tmp_path: Path, workloads: int) -> None:
    for pid in range(1000, 2000):
        process(tmp_path, pid, {pid + 10_000 * number: number for number in range(3)} | {pid: 1})
    reader = reader_of(tmp_path)
    shares = {f"job {number}": range(1000 + number, 2000, workloads) for number in range(workloads)}

    reads = [reader.read(shares, float(now)) for now in range(12)]

    sizes = [sum(map(len, found.values())) for found in reads]
    assert max(sizes) <= threads.CYCLE_TASKS + threads.SCAN_TASKS + workloads * threads.WORKLOAD_TASKS
    assert set().union(*reads) == set(range(1000, 2000))
    assert reader.skipped > 0


def test_a_full_loader_is_seen_whatever_else_runs_on_the_node(tmp_path: Path) -> None:
    """41 GPU processes of one workload and as many of others; the loader is a child of one of them."""
    pids = range(1000, 1082)
    for pid in pids:
        process(tmp_path, pid, {pid: 100, pid + 10_000: 50}, children=(5000,) if pid == 1040 else ())
    shares: dict[str, Sequence[int]] = {"job": range(1000, 1041), **{str(pid): [pid] for pid in range(1041, 1082)}}
    reader = reader_of(tmp_path)
    seen = 0
    for second in range(30):
        stat(tmp_path / "5000", ticks=100 * second)
        seen += "5000" in reader.read(shares, float(second)).get(1040, {})

    assert seen >= 26


def test_main_threads_and_children_tell_what_they_wait_in_and_read(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1, 11: 2}, children=(20,))
    stat(tmp_path / "20")
    (tmp_path / "10/task/10/wchan").write_text("futex_do_wait")
    (tmp_path / "20/wchan").write_text("wait_woken")
    reader = reader_of(tmp_path)
    for second, total in ((0.0, 0), (3.0, 6_000_000)):
        (tmp_path / "20/io").write_text(f"rchar: {total}\nwchar: 5\nread_bytes: 0\nwrite_bytes: 0\n")
        found = reader.read({"job": [10]}, second)[10]

    assert (found["10/task/10"].receiving, found["20"].receiving, found["10/task/11"].receiving) == (False, True, None)
    assert found["10/task/10"].io is None
    assert found["20"].io == (pytest.approx(2e6 * 0.139, rel=0.01), 0.0, 2e6, 0.0)

    fades = reader.read({"job": [10]}, 6.0)[10]["20"].io

    assert fades == (pytest.approx(2e6 * 0.139 * 0.861, rel=0.01), 0.0, 0.0, 0.0)


def test_of_a_process_that_writes_much_the_main_thread_tells_what_it_writes_itself(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1, 11: 2})
    reader = reader_of(tmp_path)
    own: list[float | None] = []
    for looks in range(5):
        for place, rate in (("10/io", 9_000_000), ("10/task/10/io", 3_000_000)):
            content = f"rchar: 0\nwchar: {looks * rate}\nread_bytes: 0\nwrite_bytes: 0\n"
            (tmp_path / place).write_text(content)
        main = reader.read({"job": [10]}, 3.0 * looks)[10]["10/task/10"]
        own.append(main.own_io.writing if main.own_io else None)

    assert own == [None, None, 1e6, 1e6, 1e6]


def test_run_delay_is_nanoseconds(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1})
    found = reader_of(tmp_path).read({"job": [10]}, 0.0)[10]["10/task/10"]

    assert found.run_delay == 2.0
    assert parse_schedstat("") is None


@pytest.mark.parametrize(
    ("state", "schedstat", "ready"),
    [
        ("R", "1 2000000000 3", SchedStat(1, 2_000_000_000, 3)),
        ("S", "1 2000000000 3", None),
        ("D", "1 2000000000 3", None),
        ("R", "0 0 0", None),  # what a kernel without these figures says of everybody
        ("R", "1 2 x", None),
        ("R", "1 2", None),
    ],
)
def test_who_stands_ready_is_told_by_state_and_figures(
    tmp_path: Path, state: str, schedstat: str, ready: SchedStat | None
) -> None:
    process(tmp_path, 10, {10: 1})
    stat(tmp_path / "10/task/10", ticks=1, state=state)
    (tmp_path / "10/task/10/schedstat").write_text(f"{schedstat}\n")

    assert reader_of(tmp_path).read({"job": [10]}, 0.0)[10]["10/task/10"].ready == ready


def test_a_full_thread_of_this_process_stands_out() -> None:
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1000))

    burner = threading.Thread(target=burn)
    burner.start()
    place = f"{os.getpid()}/task/{burner.native_id}"
    try:
        reader = reader_of(Path("/proc"))
        reader.read({"job": [os.getpid()]}, 0.0)  # other threads of a test worker may have used more before
        begun, deadline = (
            ticks(place),
            time.monotonic() + 60,
        )  # the first read of many threads lasts, and it burns meanwhile
        while ticks(place) < begun + CLOCK_TICKS / 5:
            assert time.monotonic() < deadline
        reader.read({"job": [os.getpid()]}, SCAN_SECONDS)
        assert place in reader.read({"job": [os.getpid()]}, SCAN_SECONDS + 1.0)[os.getpid()]
    finally:
        stop.set()
        burner.join()


def ticks(place: str) -> int:
    stat = parse_stat(read_text(f"/proc/{place}/stat"))
    assert stat is not None
    return stat.cpu_ticks


def test_what_a_task_sleeps_in_is_looked_at_now_and_then(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1})
    wchan, queue = tmp_path / "10/task/10/wchan", tmp_path / "10/task/10/schedstat"
    wchan.write_text("wait_woken")
    reader = reader_of(tmp_path)

    def receives(second: float) -> bool | None:
        return reader.read({"job": [10]}, second)[10]["10/task/10"].receiving

    assert receives(0.0)
    queue.write_text("2 2000000000 4\n")
    wchan.write_text("futex_do_wait")
    assert receives(1.0)
    assert not receives(3.0)


def test_task_that_never_had_a_cpu_since_sleeps_where_it_slept(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1})
    wchan = tmp_path / "10/task/10/wchan"
    wchan.write_text("wait_woken")
    reader = reader_of(tmp_path)
    reader.read({"job": [10]}, 0.0)
    wchan.unlink()

    assert reader.read({"job": [10]}, 3.0)[10]["10/task/10"].receiving
    (tmp_path / "10/task/10/schedstat").write_text("0 0 0\n")  # a kernel without these figures
    assert not reader.read({"job": [10]}, 6.0)[10]["10/task/10"].receiving
