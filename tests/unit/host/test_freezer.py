"""Paused containers: their programs show as asleep, or in D state, and wait for nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.host.cgroup import READ_INTERVAL_SECONDS, Cgroups
from exporter.host.model import HostProcess, ProcessSignals
from exporter.sampling.usage.host_reader import HostReader

JOB = Owner(workload="pod:a", kind="pod")
STAT = "10 (x) {state} 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0\n"
V2, V1 = "0::/pod\n", "6:freezer:/pod\n1:name=systemd:/pod\n0::/\n"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tree(root: Path, *, v2: bool, frozen: bool) -> None:
    if v2:
        put(root / "cgroup.controllers", "cpu")
        put(root / "pod/cgroup.events", f"populated 1\nfrozen {int(frozen)}\n")
    else:
        put(root / "unified/cgroup.controllers", "")
        put(root / "freezer/pod/freezer.state", "FROZEN\n" if frozen else "THAWED\n")


@pytest.mark.parametrize("v2", [True, False])
def test_frozen_is_told_by_the_cgroup_in_both_versions(tmp_path: Path, *, v2: bool) -> None:
    tree(tmp_path, v2=v2, frozen=True)
    subject = Cgroups(tmp_path)
    text = V2 if v2 else V1

    assert subject.frozen(text, 0.0)
    tree(tmp_path, v2=v2, frozen=False)
    assert not subject.frozen(text, READ_INTERVAL_SECONDS)
    assert not subject.frozen("0::/../elsewhere\nodd", 0.0)


def test_what_is_remembered_of_cgroups_is_bounded(tmp_path: Path) -> None:
    subject = Cgroups(tmp_path)
    for number in range(1000):
        subject.frozen(f"0::/{number}\n", 0.0)

    assert len(subject._frozen) <= 256


@pytest.mark.parametrize(("v2", "state"), [(True, "S"), (False, "D")])
def test_process_of_a_paused_container_is_stopped_until_it_goes_on(tmp_path: Path, state: str, *, v2: bool) -> None:
    groups, proc = tmp_path / "cg", tmp_path / "proc"
    shown = replace(
        HostProcess(10, "x", "u", start_time=5.0, cpu_seconds=0.0, resident_bytes=100, cgroup=""),
        cgroup=V2 if v2 else V1,
    )
    ownership = Ownership(processes={10: JOB}, cgroups={JOB: "/pod"})
    tree(groups, v2=v2, frozen=False)
    subject = HostReader(proc, groups, cores=8)

    def at(second: float, state: str, ticks: int = 0) -> ProcessSignals | None:
        put(proc / "10/task/10/stat", STAT.format(state=state, ticks=ticks))
        _, found = subject.read(ownership, {10: shown}, second)
        return found[JOB].processes[10] if JOB in found else None

    assert at(0.0, "R") is None
    runs = at(1.0, "R", 100)
    tree(groups, v2=v2, frozen=True)
    paused = [at(10.0 + second, state, 100) for second in range(30)][3:]
    tree(groups, v2=v2, frozen=False)
    on = at(50.0, "R", 150)

    assert runs is not None
    assert on is not None
    assert not runs.stopped
    assert not on.stopped
    assert all(each is not None and each.stopped and not each.blocked for each in paused)
