"""Jobs that ended and left programs, and two jobs that are allocated one GPU: what a sampling cycle makes of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.join import SETTLE_SECONDS
from exporter.attribution.owner import Owner, Ownership
from exporter.attribution.slurm.job import Job, NodeGres
from exporter.attribution.slurm.reconciliation import Steps
from exporter.core.clock import MonotonicTime, monotonic_time
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of
from tests.attribution_kit.slurm_node import STEP, Node, job

A = gpu(0)
GRES = (NodeGres(frozenset({"n1"}), "gpu", 1, (0,)),)
HOSTS = of([host_process(70, cgroup(STEP.format(7)))])


class _Conflict:
    """Job 8 runs on the GPU that job 7 has, too. Slurmd has a step of job 8."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.controller: dict[str, Job] = {number: _running(number) for number in "78"}
        self.node = Node(root, controller=self.controller)
        for number, pid in (("7", 70), ("8", 80)):
            self.node.cgroup(number, pid)
        self.reconciliation = self.node.slurm._reconciliation
        assert self.reconciliation
        steps = Steps(frozenset({"7", "8"}), visible=True)
        monkeypatch.setattr(self.reconciliation._scontrol, "steps", lambda: steps)
        monkeypatch.setattr(self.reconciliation._scontrol, "settings", dict)
        self.node.read()
        self.node.read()

    def join(self, now: float) -> Ownership:
        return self.node.attribution.join([A], {A.uuid: [70]}, HOSTS, MonotonicTime(now))

    def ask(self) -> None:
        """Run the round of questions that the source's thread runs."""
        assert self.node.slurm._ended
        self.node.slurm._ended.ask_once()


def _running(number: str) -> Job:
    return Job(number, "alice", state="RUNNING", gres=GRES, node_list="n1")


def _steps(ownership: Ownership) -> tuple[int, int | None]:
    return next((each.conflicts, each.stale) for each in ownership.health if each.source == "slurm_steps")


def _answered(ownership: Ownership) -> bool:
    return next(each.success for each in ownership.health if each.source == "slurm_steps")


def _fractions(ownership: Ownership) -> Mapping[Owner, float]:
    return {owner: fraction for (_, owner), fraction in ownership.weights.items()}


def test_two_unshared_owners_are_counted_and_nobody_is_accused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conflict = _Conflict(tmp_path, monkeypatch)
    conflict.join(1.0)
    conflict.ask()
    shown = conflict.join(1.0 + SETTLE_SECONDS)

    assert _steps(shown) == (1, 0)
    assert _fractions(shown) == {job("7", "alice"): 0.5, job("8", "alice"): 0.5}
    assert shown.unallocated == {}


@pytest.mark.parametrize(
    "answer", [Job("7", "alice", state="COMPLETED"), Job("7", "alice", state="RUNNING", node_list="n[2-3]")]
)
def test_two_unshared_owners_are_resolved_by_state_and_node_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Job
) -> None:
    """The node's name is known from the node lists of the jobs that ran here."""
    conflict = _Conflict(tmp_path, monkeypatch)
    conflict.join(1.0)
    conflict.controller["7"] = answer
    conflict.ask()
    shown = conflict.join(2.0)

    left = Owner("process:alice/python3", "process", user="alice")
    assert _steps(shown) == (0, 1)
    assert _fractions(shown) == {job("8", "alice"): 1.0, left: 0.0}
    assert shown.processes == {70: left}


def test_shared_gpu_of_two_jobs_is_no_contradiction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = (NodeGres(frozenset({"n1"}), "shard", 2, (0,)),)
    monkeypatch.setattr(f"{__name__}.GRES", shards)
    conflict = _Conflict(tmp_path, monkeypatch)

    assert _steps(conflict.join(1.0)) == (0, 0)


def test_round_of_questions_shows_in_the_health_once_it_has_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurmd is first asked when its first job appears, or exits; a busy machine's scontrol takes a second."""
    conflict = _Conflict(tmp_path, monkeypatch)
    assert conflict.reconciliation
    assert _answered(conflict.join(1.0))

    meanwhile: list[bool] = []
    scontrol = conflict.reconciliation._scontrol

    def slurmd_runs() -> bool:
        meanwhile.append(_answered(conflict.join(2.0)))
        return True

    monkeypatch.setattr(scontrol, "slurmd_runs", slurmd_runs)
    conflict.ask()
    assert (meanwhile, _answered(conflict.join(3.0))) == ([True], True)

    def refuse() -> Steps:
        raise SourceError("no answer")

    monkeypatch.setattr(scontrol, "steps", refuse)
    later = monotonic_time() - MonotonicTime(0.0) + SETTLE_SECONDS
    monkeypatch.setattr(conflict.reconciliation, "_clock", lambda: MonotonicTime(later))
    conflict.ask()
    assert not _answered(conflict.join(4.0))


def test_job_that_begins_again_on_the_node_that_lost_it_has_its_gpus_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was requeued, and no epilog had removed its file: the prolog has written it again."""
    node = Node(tmp_path, controller={"7": Job("7", "alice", state="PENDING")})
    reconciliation, ended, file = node.slurm._reconciliation, node.slurm._ended, node.mapping / "job_7"
    assert reconciliation
    assert ended
    file.write_text("SLURM_JOB_ID=7\nSLURM_JOB_USER=alice\nSLURM_JOB_GPUS=0\n")
    before = file.stat().st_mtime - 60.0
    os.utime(file, (before, before))
    node.read()
    later = monotonic_time() - MonotonicTime(0.0) + SETTLE_SECONDS
    monkeypatch.setattr(reconciliation, "_clock", lambda: MonotonicTime(later))
    monkeypatch.setattr(reconciliation._scontrol, "steps", lambda: Steps(frozenset(), visible=True))
    monkeypatch.setattr(reconciliation._scontrol, "slurmd_runs", lambda: True)
    monkeypatch.setattr(reconciliation._scontrol, "settings", dict)
    ended.ask_once()
    assert node.slurm.ended() == {"7"}

    os.utime(file, (before, before + 120.0))
    node.read()
    assert node.slurm.ended() == set()
    assert node.slurm.present() == {"7"}
