"""A real Slurm whose slurmstepds or slurmd are killed with -9, as the OOM killer does, and leave the job's programs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.owner import Ownership
from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import LACKING, TRACKING, SlurmCluster
from tests.attribution_kit.slurm_observer import Observer, observing, observing_node
from tests.attribution_kit.slurm_pair import PairCluster

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.skipif(bool(LACKING), reason=LACKING)]

BATCH = ("sbatch", "-Q", "-o", "/dev/null", "--gres=gpu:8")


@pytest.fixture(params=TRACKING)
def cluster(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    with SlurmCluster(request.param) as started:
        yield started


def _kill_stepds(job: str) -> None:
    title = f"slurmstepd: [{job}.".encode()
    stepds = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _command_line(folder).startswith(title)]
    assert stepds, f"no slurmstepd of job {job}"
    for pid in stepds:
        os.kill(pid, signal.SIGKILL)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def _fractions(ownership: Ownership) -> dict[str, list[float]]:
    """Fractions of GPUs by job, without those that are zero."""
    found: dict[str, list[float]] = {}
    for (_, owner), fraction in sorted(ownership.weights.items()):
        if owner.slurm_job and fraction:
            found.setdefault(owner.slurm_job, []).append(fraction)
    return found


@pytest.mark.parametrize("program", ["running", "ended"])
def test_cancelled_job_with_killed_stepds_has_no_allocation_and_the_next_job_gets_whole_gpus(
    cluster: SlurmCluster, program: str
) -> None:
    cluster.run(*BATCH, "-J", "first", "--wrap", f"srun -Q {cluster.hold}")
    until(cluster.allocated_to)
    first = cluster.job("first")
    (pid,) = cluster.allocated_to()
    with observing(cluster) as observer:
        until(lambda: _fractions(observer.observe()) == {first: [1.0] * 8})
        _kill_stepds(first)
        if program == "ended":
            os.kill(pid, signal.SIGKILL)
        cluster.run("scancel", first)
        until(lambda: not cluster.run("squeue", "-h"))
        until(lambda: first not in _fractions(observer.observe()))

        cluster.run(*BATCH, "-J", "second", "--wrap", f"exec {cluster.hold}")
        until(lambda: cluster.jobs("second"))
        second = cluster.job("second")
        until(lambda: _fractions(observer.observe()) == {second: [1.0] * 8})


def test_next_job_beside_the_programs_of_an_ended_one_gets_whole_gpus(cluster: SlurmCluster) -> None:
    """It starts at once, while the ended job still seems to have its GPUs; nobody is accused before that is cleared."""
    cluster.run(*BATCH, "-J", "first", "--wrap", f"exec {cluster.hold}")
    until(cluster.allocated_to)
    first = cluster.job("first")
    with observing(cluster) as observer:
        until(lambda: _fractions(observer.observe()) == {first: [1.0] * 8})
        _kill_stepds(first)
        cluster.run(*BATCH, "-J", "second", "--wrap", f"exec {cluster.hold}")
        cluster.run("scancel", first)
        until(lambda: cluster.jobs("second"))
        second = cluster.job("second")

        until(lambda: _resolved(observer.observe(), second))


def test_job_of_a_killed_slurmd_has_no_allocation_here_once_slurm_gives_the_node_up(cluster: SlurmCluster) -> None:
    """Its slurmstepds and programs go on: slurmd alone was lost, without a reboot. The job waits for another node."""
    cluster.run(*BATCH, "-J", "lost", "--requeue", "--wrap", f"exec {cluster.hold}")
    until(cluster.allocated_to)
    job = cluster.job("lost")
    with observing(cluster) as observer:
        until(lambda: _fractions(observer.observe()) == {job: [1.0] * 8})
        until(lambda: observer.slurmd_was_seen)
        cluster.stop_daemon(f"slurmd-{cluster.node}", signal.SIGKILL)
        cluster.run("scontrol", "update", f"NodeName={cluster.node}", "State=DOWN", "Reason=lost")
        until(lambda: cluster.run("squeue", "-h", "-j", job, "-o", "%T").strip() in ("PENDING", ""))

        until(lambda: job not in _fractions(observer.observe()), 90)


@pytest.fixture
def pair() -> Iterator[PairCluster]:
    with PairCluster() as started:
        yield started


@pytest.mark.parametrize("killed", ["slurmstepd", "slurmd"])
def test_requeued_job_is_allocated_on_its_new_node_only_and_the_next_job_gets_whole_gpus(
    pair: PairCluster, killed: str
) -> None:
    first, second = pair.nodes
    pair.run(*BATCH, "-J", "moved", "--requeue", "-w", first, "--wrap", f"exec {pair.hold}")
    until(pair.allocated_to)
    moved = pair.job("moved")
    with observing_node(pair, first) as old, observing_node(pair, second) as new:
        until(lambda: _fractions(old.observe()) == {moved: [1.0] * 8})
        assert _fractions(new.observe()) == {}
        _lose(pair, old, moved, killed)
        until(lambda: _state(pair, moved) == "PENDING", 60)
        pair.run("scontrol", "update", f"JobId={moved}", f"ReqNodeList={second}", "StartTime=now")

        until(lambda: _fractions(new.observe()) == {moved: [1.0] * 8}, 60)
        until(lambda: _fractions(old.observe()) == {}, 75)  # 60 s since the node list says so, and one question

        if killed == "slurmd":
            pair.start_daemon(first)
            until(lambda: _resumed(pair, first))
        pair.run(*BATCH, "-J", "next", "-w", first, "--wrap", f"exec {pair.hold}")
        until(lambda: pair.jobs("next"), 60)
        following = pair.job("next")
        until(lambda: _fractions(old.observe()) == {following: [1.0] * 8})
        assert _fractions(new.observe()) == {moved: [1.0] * 8}


def _lose(pair: PairCluster, old: Observer, job: str, killed: str) -> None:
    """Kill slurmd or the job's slurmstepds of the first node, so that Slurm requeues the job."""
    first = pair.nodes[0]
    if killed == "slurmstepd":
        _kill_stepds(job)
        pair.run("scontrol", "requeue", job)
        return
    until(lambda: old.slurmd_was_seen)
    pair.stop_daemon(f"slurmd-{first}", signal.SIGKILL)
    pair.run("scontrol", "update", f"NodeName={first}", "State=DOWN", "Reason=lost")


def _resumed(cluster: SlurmCluster, node: str) -> bool:
    """Whether the node is in service; one that has registered already may not be resumed."""
    cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
    return cluster.run("sinfo", "-h", "-n", node, "-o", "%t").strip() == "idle"


def _state(cluster: SlurmCluster, job: str) -> str:
    return cluster.run("squeue", "-h", "-j", job, "-o", "%T").strip()


def _resolved(ownership: Ownership, job: str) -> bool:
    """Whether `job` alone has the GPUs; fails where a job is accused meanwhile."""
    assert not any(owner.slurm_job for owners in ownership.unallocated.values() for owner in owners)
    return _fractions(ownership) == {job: [1.0] * 8}
