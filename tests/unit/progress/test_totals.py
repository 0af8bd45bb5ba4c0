"""What reports add up to, whoever writes them and however often their programs start anew."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attribution.owner import Owner, Ownership
from exporter.core.clock import MonotonicTime
from exporter.progress.progress import Totals
from exporter.progress.protocol import Report, parse
from exporter.progress.reader import ProgressReader
from exporter.progress.reporters import Process, Reporter
from tests.unit.progress.test_progress_reader import ALLOCATED, JOB, OTHER, Node

GROUP = "tp0"


def _reporter(process: Process, **fields: Any) -> Reporter:
    return Reporter(process, Report(**fields), MonotonicTime(0.0))


def _size(content: object, seen: set[int]) -> int:
    """How many things hang on it."""
    if id(content) in seen or isinstance(content, str | int | float | type(None)):
        return 0
    seen.add(id(content))
    if isinstance(content, dict):
        return len(content) + sum(_size(each, seen) for each in content.values())
    if isinstance(content, set | list | tuple):
        return len(content)
    slots: Iterable[str] = getattr(type(content), "__slots__", ())
    return sum(_size(getattr(content, name), seen) for name in (*slots, *getattr(content, "__dict__", {})))


def test_names_made_up_for_each_report_do_not_add_up_in_memory() -> None:
    totals, process = Totals(), Process(71, 100, 1000)
    for number in range(5000):
        name = f"n{number}"
        fields = {"group": name, "rank": number, "counters": {"steps": 1.0, "tokens": 1.0}, "phases": {name: 1.0}}
        totals.add([_reporter(process, **fields)], lambda _: False)

    assert _size(totals, set()) < 1000


def test_processes_that_have_ended_do_not_add_up_in_memory() -> None:
    totals = Totals()
    for number in range(1, 5000):
        process = Process(number, 100, 1000)
        totals.add([_reporter(process, counters={"steps": 1.0, "tokens": 1.0})], lambda _: False)
        totals.keep({process})

    assert totals.counters["tokens"] == 4999.0
    assert _size(totals, set()) < 1000


@pytest.mark.parametrize("forgotten_first", [True, False])
def test_group_started_anew_goes_on(tmp_path: Path, *, forgotten_first: bool) -> None:
    node = Node(tmp_path)
    for pid in (71, 72):
        node.report(node.process(pid), group=GROUP, counters={"tokens": 100.0})
    assert node.counters() == {"tokens": 100.0}
    again = [node.process(pid, start=900) for pid in (71, 72)]
    if forgotten_first:
        node.now = 10.0
        node.counters()
    for process in again:
        node.report(process, group=GROUP, counters={"tokens": 20.0})
    for _ in range(3):
        node.now += 10.0
        counters = node.counters()

    assert counters == {"tokens": 120.0}


def test_member_that_comes_later_works_on_what_the_group_does(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.report(node.process(71), group=GROUP, counters={"tokens": 100.0})
    assert node.counters() == {"tokens": 100.0}
    node.report(node.process(72), group=GROUP, counters={"tokens": 110.0})
    assert node.counters() == {"tokens": 110.0}
    (tmp_path / "proc/71/stat").unlink()
    node.now = 10.0
    node.counters()
    node.report(Process(72, 100, 1000), group=GROUP, counters={"tokens": 115.0})

    assert node.counters() == {"tokens": 115.0}


def test_pid_used_again_brings_nobody_what_another_process_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.report(node.process(99, "/user.slice"), counters={"samples": 1e6})
    assert node.counters() == {}
    path = "/system.slice/slurmstepd.scope/job_7"
    node.process(99, path, start=900)

    assert node.counters(processes={99: JOB}, cgroups={JOB: path}) == {}


def test_process_goes_by_the_innermost_of_nested_cgroups(tmp_path: Path) -> None:
    pod = "/kubepods.slice/pod1"
    paths = {OTHER: pod, JOB: f"{pod}/slurmstepd.scope/job_7", Owner("x/y", "pod"): "/kubepods.slice"}
    for number, cgroups in enumerate((paths, dict(reversed(paths.items())))):
        node = Node(tmp_path / str(number))
        node.report(node.process(500, f"{pod}/slurmstepd.scope/job_7/step_0"), counters={"samples": 5.0})

        assert node.counters(cgroups=cgroups) == {"samples": 5.0}


def test_reporter_in_a_pod_is_found_by_its_cgroup_from_within_a_container(tmp_path: Path) -> None:
    """There /proc shows the cgroups of other pods relative to the exporter's own."""
    slice_, scope = "kubepods-burstable-pod1234.slice", "cri-containerd-5678.scope"
    parent = "/kubepods.slice/kubepods-burstable.slice"
    (tmp_path / f"cgroup{parent}/{slice_}/{scope}").mkdir(parents=True)
    (tmp_path / "cgroup/cgroup.controllers").write_text("")
    node = Node(tmp_path)
    node.reader = ProgressReader(None, None, node.procfs, lambda: node.now, cgroupfs=tmp_path / "cgroup")
    node.report(node.process(500, f"/../../{slice_}/{scope}"), counters={"samples": 5.0})

    assert node.counters(cgroups={JOB: f"{parent}/{slice_}/{scope}"}) == {"samples": 5.0}


def test_workload_that_comes_back_is_not_counted_again(tmp_path: Path) -> None:
    """Its GPU process is started anew while its launcher, which reports, goes on."""
    node = Node(tmp_path)
    path = "/system.slice/docker-1.scope"
    launcher, ended = node.process(500, path), node.process(71)
    node.report(launcher, counters={"samples": 1000.0})
    node.report(ended, counters={"samples": 500.0})
    assert node.counters(cgroups={JOB: path}) == {"samples": 1500.0}
    (tmp_path / "proc/71/stat").unlink()
    node.now = 10.0
    node.counters(cgroups={JOB: path})
    node.reader.read(Ownership())
    node.report(launcher, counters={"samples": 1001.0})

    assert node.counters(cgroups={JOB: path}) == {"samples": 1501.0}


def test_process_that_cannot_be_read_for_now_is_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    process = node.process(71)
    node.report(process, counters={"samples": 100.0})
    assert node.counters() == {"samples": 100.0}
    with monkeypatch.context() as broken:
        broken.setattr("exporter.progress.processes.read_text", lambda _: "")
        node.now = 10.0
        node.counters()
    node.report(process, counters={"samples": 101.0})

    assert node.counters() == {"samples": 101.0}


_LARGEST = sys.float_info.max
_NUMBERS = st.one_of(st.floats(0, _LARGEST), st.integers(0, 10**400), st.sampled_from([_LARGEST, 5e-324, 1e-300]))
_REPORTS = st.lists(st.tuples(st.sampled_from([71, 72]), st.sampled_from(["steps", "tokens"]), _NUMBERS, _NUMBERS))


@pytest.fixture(scope="module")
def procfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    node = Node(tmp_path_factory.mktemp("node"))
    for pid in (71, 72):
        node.process(pid)
    return node.procfs


@given(_REPORTS)
@example([(71, "tokens", 1.7e308, 0.0), (72, "tokens", 1.7e308, 0.0)])
@example([(71, "steps", 0.0, 0.0), (71, "steps", 1e-310, 1e300)])
def test_no_number_makes_a_series_infinite(procfs: Path, reports: list[tuple[int, str, float, float]]) -> None:
    reader = ProgressReader(None, None, procfs, lambda: 0.0)
    ownership = Ownership(processes={71: JOB, 72: JOB}, holders=ALLOCATED)
    for number, (pid, name, total, seconds) in enumerate(reports):
        text = json.dumps({name: total, "step_seconds": seconds, "phases": {"data": seconds}})
        report = parse(text.encode())
        if report:
            reader.reporters.add(Process(pid, 100, 1000), report, MonotonicTime(number * 20.0))
            progress = reader.read(ownership).owners[JOB]
            steps = progress.steps
            times = (steps.minimum, steps.median, steps.maximum) if steps else ()
            assert all(map(math.isfinite, (*progress.counters.values(), *progress.phases.values(), *times)))
