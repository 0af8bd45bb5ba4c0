"""GPUs and MIG instances that a real Slurm found by itself: each idle job holds its own, or nobody's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from exporter.attribution.devices import Devices
from exporter.attribution.slurm.local_view import SlurmSite
from exporter.attribution.slurm.scontrol import ShowJob
from exporter.attribution.slurm.source import MAPPING, PROGRAM, SCONTROL, Slurm
from exporter.core.threads import Threads
from tests.attribution_kit.nodes import becomes, gpu, until
from tests.attribution_kit.slurm_cluster import TRACKING
from tests.attribution_kit.slurm_mig import INSTANCES, LACKING, ListedCluster, MigCluster, targets

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[MigCluster]:
    with MigCluster() as started:
        for _ in INSTANCES:
            started.run("salloc", "-Q", "--no-shell", "--gres=gpu:1")
        until(lambda: len(list((started.work / "gpumap").glob("job_*"))) == len(INSTANCES))
        yield started


def test_idle_jobs_hold_the_instances_that_slurm_gives_their_steps(cluster: MigCluster) -> None:
    given = {_visible(cluster, job): job for job in _jobs(cluster)}

    assert given.keys() == {target.uuid for target in targets()}
    with _attribution(cluster, str(cluster.work / "gpumap")) as found:
        becomes(given, lambda: _allocated(found, Devices(targets())))


@pytest.mark.skipif(
    TRACKING[0] != "cgroup", reason="without cgroups nothing tells of an idle job but the prolog's file"
)
def test_without_the_prologs_files_an_index_gives_nobody_a_gpu(cluster: MigCluster) -> None:
    """Slurm counts instances here: its 1 is not GPU 1. Slurm 22.05 takes GPUs by turns, 24.11 one after the other."""
    second = _jobs(cluster)[1]

    assert "gpu:1(IDX:1)" in cluster.run("scontrol", "-o", "-d", "show", "job", second)
    assert _visible(cluster, second) in {targets()[2].uuid, targets()[1].uuid}
    with _attribution(cluster, "") as found:
        until(lambda: {job for job in _jobs(cluster) if _known(found, job)} == set(_jobs(cluster)))
        assert _allocated(found, Devices(targets())) == {}


@pytest.mark.skipif(TRACKING[0] != "cgroup", reason="without cgroups nothing keeps a job from what is not its own")
def test_files_and_kinds_in_gres_conf_number_nothing_where_slurm_detects() -> None:
    """A job is said to hold the GPU that slurmd lets it open."""
    with ListedCluster() as cluster:
        for kind in ("h100", "a100", "h100", "a100"):
            cluster.run("salloc", "-Q", "--no-shell", f"--gres=gpu:{kind}:1")
        until(lambda: len(list((cluster.work / "gpumap").glob("job_*"))) == 4)
        opened = {gpu(index, minor).uuid: job for job in _jobs(cluster) for index, minor in _opens(cluster, job)}
        with _attribution(cluster, str(cluster.work / "gpumap")) as found:
            devices = Devices([gpu(index, 3 - index) for index in range(4)])
            becomes(opened, lambda: _allocated(found, devices))

    assert len(opened) == 4


def _opens(cluster: MigCluster, job: str) -> Iterator[tuple[int, int]]:
    """Index and minor of the GPUs that a step of the job may open."""
    for minor in range(4):
        tried = f"(: </dev/nvidia{minor}) 2>&1 || true"
        if "not permitted" not in cluster.run("srun", "-Q", "--overlap", f"--jobid={job}", "sh", "-c", tried):
            yield 3 - minor, minor


def _jobs(cluster: MigCluster) -> Sequence[str]:
    return sorted(cluster.run("squeue", "-h", "-o", "%A").split(), key=int)


def _visible(cluster: MigCluster, job: str) -> str:
    return cluster.run("srun", "-Q", "--overlap", f"--jobid={job}", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").strip()


@contextlib.contextmanager
def _attribution(cluster: MigCluster, mapping: str) -> Iterator[Slurm]:
    site = SlurmSite(
        gres_conf=cluster.work / "etc/gres.conf",
        mapping=Path(mapping) if mapping else None,
        scontrol=str(cluster.scontrol),
        names=frozenset({cluster.node}),
        required=True,
    )
    show_job = ShowJob(site.scontrol)
    slurm = Slurm(site, show_job, show_job.with_gpus)
    readers = [reader for source in (MAPPING, PROGRAM, SCONTROL) for reader in slurm.readers(source)]
    for reader in readers:
        reader.start(Threads())
    try:
        yield slurm
    finally:
        for reader in readers:
            reader.stop()


def _known(slurm: Slurm, job: str) -> bool:
    """Whether slurmctld has told what the job holds."""
    found = slurm.job(job)
    return bool(found and found.gres)


def _allocated(slurm: Slurm, devices: Devices) -> Mapping[str, str]:
    """Device to job, by all that any source says."""
    return {
        target.uuid: job
        for job in slurm.present()
        for names in slurm.allocations(job).values()
        for name in names
        for target in devices.find(name)
    }
