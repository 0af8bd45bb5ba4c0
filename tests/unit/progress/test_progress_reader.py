"""Whose a report is, and what it adds to a workload's totals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.progress.progress import MAX_RANK_NAMES
from exporter.progress.protocol import Report
from exporter.progress.reader import ProgressReader
from exporter.progress.reporters import Process
from tests.growth import grown

JOB, OTHER = Owner(workload="slurm:7", kind="slurm"), Owner(workload="slurm:8", kind="slurm")
ALLOCATED = {"GPU-0": (JOB,), "GPU-1": (OTHER,)}


class Node:
    """A /proc of a few processes, and a clock."""

    def __init__(self, tmp_path: Path) -> None:
        self.procfs = tmp_path / "proc"
        self.now = 0.0
        self.reader = ProgressReader(None, None, self.procfs, lambda: self.now)

    def process(self, pid: int, cgroup: str = "/", start: int = 100) -> Process:
        folder = self.procfs / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{pid} (python3) S 1 {' '.join(['0'] * 17)} {start} 0 0 0")
        (folder / "status").write_text(f"Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t{pid}\n")
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        return Process(pid, start, 1000)

    def report(self, process: Process, **fields: Any) -> None:
        self.reader.reporters.add(process, Report(**fields), self.now)

    def counters(self, **ownership: Any) -> dict[str, float]:
        found = self.reader.read(Ownership(**{"processes": {71: JOB, 72: JOB}, "holders": ALLOCATED, **ownership}))
        return dict(found.owners[JOB].counters) if JOB in found.owners else {}


def test_samples_add_up_and_steps_are_taken_together(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first, second = node.process(71), node.process(72)
    node.report(first, rank=0, counters={"samples": 100.0, "steps": 10.0})
    node.report(second, rank=1, counters={"samples": 90.0, "steps": 9.0})

    assert node.counters() == {"samples": 190.0, "steps": 10.0}


def test_ranks_of_one_group_count_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for pid, group in ((71, "dp0"), (72, "dp0")):
        node.report(node.process(pid), group=group, counters={"tokens": 4096.0})

    assert node.counters() == {"tokens": 4096.0}


def test_a_rank_that_ends_takes_nothing_back(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first, second = node.process(71), node.process(72)
    for process in (first, second):
        node.report(process, counters={"samples": 100.0})
    assert node.counters() == {"samples": 200.0}
    (tmp_path / "proc/72/stat").unlink()
    node.now = 10.0
    node.counters()
    node.report(first, counters={"samples": 150.0})

    assert node.counters() == {"samples": 250.0}


def test_a_rank_started_anew_goes_on(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.report(node.process(71), rank=0, counters={"samples": 100.0, "steps": 10.0})
    assert node.counters() == {"samples": 100.0, "steps": 10.0}
    again = node.process(71, start=900)
    node.now = 10.0
    node.counters()
    node.report(again, rank=0, counters={"samples": 20.0, "steps": 2.0})

    assert node.counters() == {"samples": 120.0, "steps": 12.0}


def test_programs_of_one_rank_at_once_take_their_steps_together(tmp_path: Path) -> None:
    """Several programs in one batch script do so: to Slurm they all are rank 0."""
    node = Node(tmp_path)
    first, second = node.process(71), node.process(72)
    for steps in (10.0, 20.0):
        node.report(first, rank=0, counters={"steps": steps})
        node.report(second, rank=0, counters={"steps": steps - 1.0})
        assert node.counters() == {"steps": steps}


def test_process_that_is_not_on_a_gpu_is_its_jobs_by_the_cgroup(tmp_path: Path) -> None:
    node = Node(tmp_path)
    cgroups = {JOB: "/system.slice/slurmstepd.scope/job_7", OTHER: "/system.slice/slurmstepd.scope/job_70"}
    node.report(node.process(500, f"{cgroups[JOB]}/step_0/user/task_0"), counters={"samples": 5.0})
    node.report(node.process(501, "/user.slice"), counters={"samples": 7.0})

    assert node.counters(cgroups=cgroups) == {"samples": 5.0}


def test_report_from_a_unit_of_many_users_is_its_own_users(tmp_path: Path) -> None:
    node = Node(tmp_path)
    unit = Owner(workload="unit:jupyterhub.service", kind="unit", user="ada")
    path = "/system.slice/jupyterhub.service"
    node.process(71, path)
    for pid, user in ((500, 1000), (501, 1001)):
        node.process(pid, path)
        node.report(Process(pid, 100, user), counters={"samples": float(pid)})
    found = node.reader.read(Ownership(processes={71: unit}, holders={"GPU-0": (unit,)}, cgroups={unit: path}))

    assert {owner: each.counters for owner, each in found.owners.items()} == {unit: {"samples": 500.0}}


def test_slow_rank_is_the_one_that_waits_least_for_the_others(tmp_path: Path) -> None:
    node = Node(tmp_path)
    ranks = {0: node.process(71), 1: node.process(72)}
    for second in range(0, 30, 5):
        node.now = float(second)
        for rank, process in ranks.items():
            work = (0.9 if rank == 1 else 0.4) * second
            phases = {"forward": work, "communication": second - work}
            node.report(process, rank=rank, counters={"steps": float(second)}, phases=phases)
    steps = node.reader.read(Ownership(processes={71: JOB, 72: JOB}, holders=ALLOCATED)).owners[JOB].steps

    assert steps
    assert steps.slowest == "1"
    assert (round(steps.minimum, 6), round(steps.maximum, 6)) == (0.4, 0.9)


def test_workload_that_has_gone_is_forgotten(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.report(node.process(71), counters={"samples": 100.0})
    node.counters()
    (tmp_path / "proc/71/stat").unlink()
    node.now = 10.0
    node.reader.read(Ownership())
    node.now = 20.0
    node.reader.read(Ownership())

    assert not node.reader._totals


def test_what_a_process_said_last_counts_after_it_has_ended(tmp_path: Path) -> None:
    """A program that ends sends its last totals; by the time they are read it may be gone, and its job with it."""
    node = Node(tmp_path)
    process = node.process(71)
    node.report(process, counters={"samples": 100.0})
    node.counters()
    (tmp_path / "proc/71/stat").unlink()
    node.report(process, counters={"samples": 128.0})
    node.now = 10.0

    assert node.counters(processes={}, holders={}) == {"samples": 128.0}
    node.now = 20.0
    assert node.counters(processes={}, holders={}) == {}
    assert not node.reader._owners


def test_report_that_comes_between_counting_and_forgetting_is_kept(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = node.process(71)
    node.report(process, counters={"samples": 100.0})
    counted = node.reader.reporters.all()
    node.report(process, counters={"samples": 128.0})
    node.reader.reporters.forget(counted)

    assert [each.report.counters["samples"] for each in node.reader.reporters.all()] == [128.0]


def test_ranks_that_work_on_the_same_data_count_once_wherever_they_are(tmp_path: Path) -> None:
    """Two nodes hold two ranks each of one tensor parallel group: every node counts its half."""
    total = 0.0
    for name in ("first", "second"):
        node = Node(tmp_path / name)
        for pid in (71, 72):
            node.report(node.process(pid), group_size=4, counters={"tokens": 4096.0, "steps": 8.0})
        counters = node.counters()
        total += counters["tokens"]
        assert counters["steps"] == 8.0

    assert total == 4096.0


def test_phases_of_now_are_told_while_reports_come(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = node.process(71)
    ownership = Ownership(processes={71: JOB}, holders=ALLOCATED)
    node.report(process, rank=5, phases={"data": 10.0, "forward": 50.0})
    assert node.reader.read(ownership).ranks[JOB][0].phases == {}
    node.now = 1.0
    node.report(process, rank=5, phases={"data": 10.75, "forward": 50.25})
    (rank,) = node.reader.read(ownership).ranks[JOB]
    assert (rank.pid, rank.name, rank.phases) == (71, "5", {"data": 0.75, "forward": 0.25})
    node.now = 2.5
    assert node.reader.read(ownership).ranks[JOB][0].phases == {"data": 0.75, "forward": 0.25}
    node.now = 4.5
    assert node.reader.read(ownership).ranks[JOB][0].phases == {}


def test_step_time_is_by_the_programs_own_clock_and_long_steps_are_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = node.process(71)
    for second in range(90):
        node.now = float(second)
        steps = second // 30
        fields = {"counters": {"steps": float(steps)}, "step_seconds": 28.5 * steps}
        node.report(process, rank=0, phases={"communication": 1.0}, **fields)
        found = node.reader.read(Ownership(processes={71: JOB}, holders=ALLOCATED))
        if second >= 30:
            assert found.ranks[JOB][0].step_seconds == 28.5


def test_phases_are_of_now_until_the_next_report_is_overdue(tmp_path: Path) -> None:
    """Files are read every 5 s, and a program chooses how often it reports."""
    node = Node(tmp_path)
    process = node.process(71)
    found: list[float | None] = []
    for second in range(30):
        node.now = float(second)
        if second % 5 == 0 and second <= 15:
            node.report(process, rank=0, counters={"steps": 1.0 + second}, phases={"data": second / 2})
        (rank,) = node.reader.read(Ownership(processes={71: JOB}, holders=ALLOCATED)).ranks[JOB]
        found.append(rank.phases.get("data") if rank.advances else None)

    assert set(found[5:23]) == {0.5}
    assert set(found[23:]) == {None}


@pytest.mark.parametrize(("duration", "over"), [(5, 41), (20, 101)])
def test_rank_that_takes_no_more_steps_neither_advances_nor_has_a_pace(
    tmp_path: Path, duration: int, over: int
) -> None:
    """The client sends the same totals on for as long as the program lives: in a hang, or between two cells."""
    node = Node(tmp_path)
    process = node.process(71)
    found: list[tuple[bool, float | None]] = []
    for second in range(120):
        node.now = float(second)
        steps = float(min(second // duration, 2))
        fields = {"counters": {"steps": steps}, "step_seconds": 4.5 * steps}
        node.report(process, rank=0, phases={"communication": 0.0}, **fields)
        (rank,) = node.reader.read(Ownership(processes={71: JOB}, holders=ALLOCATED)).ranks[JOB]
        found.append((rank.advances, rank.step_seconds))

    assert set(found[duration:over]) == {(True, 4.5)}
    assert set(found[over:]) == {(False, None)}


def test_rank_that_does_not_tell_its_waits_names_no_straggler(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = node.process(71)
    for second in range(30):
        node.now = float(second)
        node.report(process, rank=0, counters={"steps": float(second)}, phases={"data": second / 2})
    reported = node.reader.read(Ownership(processes={71: JOB}, holders=ALLOCATED))

    assert reported.ranks[JOB][0].step_seconds is None
    steps = reported.owners[JOB].steps
    assert steps
    assert steps.maximum == 1.0


def test_pace_is_told_from_the_first_steps_on_whatever_came_before_them(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = node.process(71)
    for second, steps in enumerate((None, None, 5.0, 10.0, 10.0)):
        node.now = float(second)
        counters = {} if steps is None else {"steps": steps}
        node.report(process, rank=0, counters=counters, phases={"communication": 0.0}, step_seconds=steps and steps / 5)
    reported = node.reader.read(Ownership(processes={71: JOB}, holders=ALLOCATED))

    assert reported.ranks[JOB][0].step_seconds == 0.2


def test_workload_is_as_far_as_its_last_rank_and_needs_as_long_as_its_slowest(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.report(node.process(71), ratio=0.5, remaining=60.0, time_to_target=600.0)
    node.report(node.process(72), ratio=0.25, remaining=90.0, time_to_target=500.0)
    node.report(node.process(73), counters={"samples": 1.0})

    found = node.reader.read(Ownership(processes={71: JOB, 72: JOB, 73: JOB}, holders=ALLOCATED)).owners[JOB]

    assert (found.ratio, found.remaining, found.time_to_target) == (0.25, 90.0, 600.0)


def test_each_of_a_group_over_several_nodes_counts_for_its_part(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for pid in (71, 72):
        node.report(node.process(pid), group="dp0", group_size=2, counters={"tokens": 4096.0})

    assert node.counters() == {"tokens": 4096.0}


def slowest_ranks(node: Node, reports: list[tuple[Process, int]]) -> list[str]:
    """Return the distinct names of the slowest rank, after each report."""
    found: dict[str, None] = {}
    for number, (process, rank) in enumerate(reports):
        for step in range(3):
            node.now += 5.0
            node.report(process, rank=rank, counters={"steps": 10.0 * number + step}, step_seconds=float(number + step))
        steps = node.reader.read(Ownership(processes={process.pid: JOB}, holders=ALLOCATED)).owners[JOB].steps
        if steps:
            found[steps.slowest] = None
    return list(found)


def test_rank_of_a_process_is_the_first_that_it_reports(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = node.process(71)

    assert slowest_ranks(node, [(process, rank) for rank in range(40)]) == ["0"]


def test_ranks_of_a_workload_beyond_the_limit_have_one_name(tmp_path: Path) -> None:
    node = Node(tmp_path)
    processes = [node.process(pid) for pid in range(100, 100 + 2 * MAX_RANK_NAMES)]
    names = slowest_ranks(node, [(process, 1000 + process.pid) for process in processes])

    assert len(names) == MAX_RANK_NAMES + 1
    assert names[-1] == "other"


def test_reader_does_not_grow_with_processes_that_have_ended(tmp_path: Path) -> None:
    node = Node(tmp_path)

    def next_round(number: int) -> None:
        node.now += 10.0
        node.report(node.process(100 + number, "/a.slice"), counters={"samples": 1.0})
        node.counters(cgroups={JOB: "/a.slice"})
        (node.procfs / f"{100 + number}/stat").unlink()
        node.now += 10.0
        node.counters(cgroups={JOB: "/a.slice"})

    assert grown(node.reader, next_round) == {}
