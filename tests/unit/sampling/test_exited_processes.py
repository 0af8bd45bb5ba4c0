"""Who is still on a GPU, by the driver's list of some seconds ago and by /proc of now."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.collectors.base import Paced
from exporter.collectors.processes import GpuProcess, Processes
from exporter.sampling.host_view import ExitedProcesses


def listed(at: float, *pids: int) -> Processes:
    running = tuple(GpuProcess(pid, "GPU-a", 1, {}) for pid in pids)
    return Processes(running, Paced(running, at), None, 0)


def pids(left: Iterable[GpuProcess]) -> list[int]:
    return [process.pid for process in left]


def test_process_leaves_with_proc_and_not_with_the_next_list() -> None:
    leavers = ExitedProcesses()
    assert pids(leavers.remaining({"GPU-a": listed(0.0, 7, 8)}, {7, 8})["GPU-a"]) == [7, 8]
    assert pids(leavers.remaining({"GPU-a": listed(0.0, 7, 8)}, {8})["GPU-a"]) == [8]
    assert pids(leavers.remaining({"GPU-a": listed(0.0, 7, 8)}, {8})["GPU-a"]) == [8]
    assert pids(leavers.remaining({"GPU-a": listed(5.0, 8)}, {8})["GPU-a"]) == [8]


def test_driver_that_holds_on_to_a_dead_process_has_the_last_word() -> None:
    leavers = ExitedProcesses()
    leavers.remaining({"GPU-a": listed(0.0, 7)}, {7})
    leavers.remaining({"GPU-a": listed(0.0, 7)}, ())

    assert pids(leavers.remaining({"GPU-a": listed(5.0, 7)}, ())["GPU-a"]) == [7]
    assert pids(leavers.remaining({"GPU-a": listed(5.0, 7)}, ())["GPU-a"]) == [7]


def test_process_that_proc_failed_to_show_once_is_back() -> None:
    leavers = ExitedProcesses()
    leavers.remaining({"GPU-a": listed(0.0, 7)}, {7})
    leavers.remaining({"GPU-a": listed(0.0, 7)}, ())

    assert pids(leavers.remaining({"GPU-a": listed(0.0, 7)}, {7})["GPU-a"]) == [7]


def test_process_of_another_pid_namespace_stays() -> None:
    leavers = ExitedProcesses()
    leavers.remaining({"GPU-a": listed(0.0, 7)}, ())

    assert pids(leavers.remaining({"GPU-a": listed(0.0, 7)}, ())["GPU-a"]) == [7]


def test_lists_of_two_gpus_are_of_their_own_time() -> None:
    leavers = ExitedProcesses()
    leavers.remaining({"GPU-a": listed(0.0, 7), "GPU-b": listed(3.0, 7)}, {7})
    gone = leavers.remaining({"GPU-a": listed(0.0, 7), "GPU-b": listed(3.0, 7)}, ())
    later = leavers.remaining({"GPU-a": listed(5.0, 7), "GPU-b": listed(3.0, 7)}, ())

    assert [pids(gone[uuid]) for uuid in ("GPU-a", "GPU-b")] == [[], []]
    assert [pids(later[uuid]) for uuid in ("GPU-a", "GPU-b")] == [[7], []]
