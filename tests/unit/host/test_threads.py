"""Which threads and children are read, on a /proc made of files."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from exporter.host import threads
from exporter.host.threads import SCAN_SECONDS, ThreadReader, parse_run_delay, places, read_task

STAT = "{pid} (py thon) {state} 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0\n"


def stat(path: Path, *, ticks: int = 0, state: str = "S") -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "stat").write_text(STAT.format(pid=path.name, state=state, ticks=ticks))
    (path / "schedstat").write_text("1 2000000000 3\n")


def process(root: Path, pid: int, tasks: dict[int, int], children: tuple[int, ...] = ()) -> None:
    for tid, ticks in tasks.items():
        stat(root / str(pid) / "task" / str(tid), ticks=ticks)
    (root / str(pid) / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))


def test_threads_and_direct_children_are_looked_at(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1, 11: 2}, children=(20,))

    assert set(places(tmp_path, 10)) == {"10/task/10", "10/task/11", "20"}


def test_process_that_has_gone_has_no_tasks(tmp_path: Path) -> None:
    assert ThreadReader(tmp_path).read([10], 0.0) == {}


def test_between_scans_only_the_main_thread_and_the_hot_ones_are_read(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 0, **{10 + number: number for number in range(1, 40)}})
    reader = ThreadReader(tmp_path)
    assert len(reader.read([10], 0.0)[10]) == 40

    assert set(reader.read([10], 1.0)[10]) == {"10/task/10", "10/task/49", "10/task/48", "10/task/47"}


def test_thread_that_turns_hot_is_found_by_the_next_scan(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 0, 11: 900, 12: 800, 13: 700, 14: 5})
    reader = ThreadReader(tmp_path)
    reader.read([10], 0.0)
    stat(tmp_path / "10/task/14", ticks=500)

    reader.read([10], threads.SCAN_SECONDS)

    assert "10/task/14" in reader.read([10], threads.SCAN_SECONDS + 1)[10]


def test_blocked_thread_is_watched_though_it_uses_no_cpu(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 9, 11: 9, 12: 9, 13: 9})
    stat(tmp_path / "10/task/15", state="D")
    reader = ThreadReader(tmp_path)
    reader.read([10], 0.0)

    assert reader.read([10], 1.0)[10]["10/task/15"].blocked


def test_many_processes_cost_no_more_than_the_bounds(tmp_path: Path) -> None:
    for pid in range(1000, 1100):
        process(tmp_path, pid, {pid + 10_000 * number: number for number in range(10)} | {pid: 1})
    reader = ThreadReader(tmp_path)

    sizes = [sum(map(len, reader.read(range(1000, 1100), now).values())) for now in (0.0, 1.0, 2.0, 3.0)]

    assert max(sizes) <= threads.PASS_TASKS + threads.SCAN_TASKS + threads.WATCH_TASKS
    assert set(reader.read(range(1000, 1100), 4.0)) == set(range(1000, 1100))


def test_run_delay_is_nanoseconds(tmp_path: Path) -> None:
    stat(tmp_path / "10")
    found = read_task(tmp_path, "10")

    assert found is not None
    assert found.run_delay == 2.0
    assert parse_run_delay("") is None


def test_a_full_thread_of_this_process_stands_out() -> None:
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1000))

    burner = threading.Thread(target=burn)
    burner.start()
    place = f"{os.getpid()}/task/{burner.native_id}"
    try:
        reader = ThreadReader(Path("/proc"))
        reader.read([os.getpid()], 0.0)  # other threads of a test worker may have used more before
        deadline = time.monotonic() + 60
        while (task := read_task(Path("/proc"), place)) is not None and task.cpu_seconds < 0.2:
            assert time.monotonic() < deadline
        reader.read([os.getpid()], SCAN_SECONDS)
        assert place in reader.read([os.getpid()], SCAN_SECONDS + 1.0)[os.getpid()]
    finally:
        stop.set()
        burner.join()
