"""One look of the check at the driver: what it is asked, and what a child that dies means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.devices import DeviceName
from exporter.config.load import load
from exporter.faults.evaluate import STAGES, Report
from exporter.faults.rule import Facts, Limits, Verdict
from exporter.faults.watch import FaultTracker
from exporter.tools.check import command as command_line
from exporter.tools.check.options import CheckConfig
from exporter.tools.check.reading import ChildError, PciHost
from tests.command import run

GOOD = Report(Verdict.OK, (), 1, ("NVIDIA H200",))
DEVICES = (DeviceName(minor=4), DeviceName(minor=1))


@pytest.mark.parametrize(
    ("stage", "job", "emptied"),
    [("epilog", "7", (DeviceName(minor=1),)), ("prolog", "7", None), ("epilog", "", None)],
)
def test_look_has_the_host_the_deadline_and_the_job_of_its_surroundings(
    stage: str, job: str, emptied: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[Limits] = []
    looks: list[tuple[Any, ...]] = []

    def evaluate(_: Facts, given: Limits, *__: object) -> Report:
        limits.append(given)
        return GOOD

    def read_node(*given: Any) -> str:
        looks.append(given)
        return "{}"

    for name in ("SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_SHARDS_ON_NODE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.setenv("SLURM_JOB_GPUS", "1")
    for name, fake in (("evaluate", evaluate), ("read_node", read_node), ("gres_devices", lambda _: DEVICES)):
        monkeypatch.setattr(command_line, name, fake)
    monkeypatch.setattr(command_line, "in_child_process", lambda work, _: work())
    options = ("--check.stage", stage, "--path.procfs", str(tmp_path / "proc"), "--path.sysfs", str(tmp_path / "sys"))

    assert command_line._check_once(load(CheckConfig, options, {}), STAGES[stage], 12.0) == GOOD
    ((_, host, collectors, kmsg, deadline, faults),) = looks
    assert isinstance(host, PciHost)
    assert (host._procfs, host._sysfs) == (tmp_path / "proc", tmp_path / "sys")
    assert (bool(collectors), kmsg, deadline) == (True, Path("/dev/kmsg"), 12.0)
    assert isinstance(faults, FaultTracker)
    assert [(each.job, each.emptied) for each in limits] == [(job, emptied)]


def test_check_that_fails_itself_is_unknown_and_a_library_that_crashes_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --drain an unknown verdict leaves the node as it is: no GPU of it has been seen to fail."""

    def dies(*, crashed: bool) -> Callable[..., str]:
        def in_child_process(*_: object) -> str:
            raise ChildError("so", crashed=crashed)

        return in_child_process

    monkeypatch.setattr(command_line, "in_child_process", dies(crashed=False))
    failed = run("check", "--simulate", "1xT4")
    monkeypatch.setattr(command_line, "in_child_process", dies(crashed=True))
    crashed = run("check", "--simulate", "1xT4", "--format", "nagios")

    assert (failed.returncode, failed.stdout) == (3, "unknown: so\n")
    assert (crashed.returncode, crashed.stdout.partition(" | ")[0]) == (
        2,
        "GPU CRITICAL - the driver, or one of its GPUs, hangs: so",
    )
