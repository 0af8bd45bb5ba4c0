"""Whose children are looked at as the loader workers of a GPU process, on a /proc made of files."""

from __future__ import annotations

from pathlib import Path

from exporter.host.threads import SCAN_TASKS, Workers, task_paths
from tests.unit.host.test_threads import process, reader_of, stat


def test_workers_that_any_thread_a_fork_server_or_a_shell_started_are_looked_at(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1, 11: 2}, children=(20,))
    (tmp_path / "10/task/11/children").write_text("21 ")
    process(tmp_path, 20, {20: 1}, children=(30, 31))
    process(tmp_path, 30, {30: 1}, children=(40,))

    assert set(task_paths(str(tmp_path), 10, Workers())) == {"10/task/10", "10/task/11", "20", "21", "30", "31"}


def test_threads_that_had_no_children_are_asked_again_now_and_then(tmp_path: Path) -> None:
    process(tmp_path, 10, {10: 1, 11: 2, 12: 3})
    (tmp_path / "10/task/11/children").write_text("21")
    workers = Workers()
    found: list[set[str]] = []
    for _ in range(4):
        found.append({place for place in task_paths(str(tmp_path), 10, workers) if "/" not in place})
        if len(found) == 2:
            (tmp_path / "10/task/12/children").write_text("22")
            (tmp_path / "10/task/10/children").write_text("20")

    assert found == [{"21"}, {"21"}, {"20", "21"}, {"20", "21", "22"}]


def test_ranks_on_other_gpus_are_no_workers_of_who_started_them(tmp_path: Path) -> None:
    """A launcher that is on a GPU itself would be short of CPU because a rank of it is."""
    process(tmp_path, 10, {10: 1}, children=(20,))
    process(tmp_path, 20, {20: 1}, children=(30,))
    stat(tmp_path / "30")
    found = reader_of(tmp_path).read({"job": [10, 20]}, 0.0)

    assert {pid: set(tasks) for pid, tasks in found.items()} == {10: {"10/task/10"}, 20: {"20/task/20", "30"}}


def test_hundreds_of_children_hide_no_thread(tmp_path: Path) -> None:
    """Nor hundreds of threads a loader: each have half of the places where there are more than these."""
    threads = {10 + number: 1 for number in range(300)}
    process(tmp_path, 10, threads, children=tuple(range(1000, 1600)))
    process(tmp_path, 9, {9: 1, 11: 1}, children=tuple(range(1000, 1600)))
    process(tmp_path, 8, {8 + number: 1 for number in range(0, 4000, 4)}, children=(1000,))
    found = {pid: task_paths(str(tmp_path), pid, Workers()) for pid in (8, 9, 10)}
    workers = {pid: sum("/" not in place for place in each) for pid, each in found.items()}

    assert workers == {8: 1, 9: SCAN_TASKS - 2, 10: SCAN_TASKS // 2}
    assert {len(each) for each in found.values()} == {SCAN_TASKS}
    assert "9/task/11" in found[9]
