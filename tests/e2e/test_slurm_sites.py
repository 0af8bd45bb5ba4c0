"""Sites of docs/slurm-sites on a real Slurm: configless, private /tmp, MPS, and job ids that are used again."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.attribution.slurm.scontrol import RETURN_SECONDS
from tests.attribution_kit.nodes import becomes, until
from tests.attribution_kit.slurm_cluster import LACKING, LIBRARIES, ROOT, TRACKING, SlurmCluster
from tests.attribution_kit.slurm_observer import Observer, observing, of_jobs, owner

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

BATCH = ("sbatch", "--parsable", "-o", "/dev/null")


def _weights(ownership: Ownership) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for (_, each), fraction in sorted(ownership.weights.items()):
        if each.slurm_job and fraction:
            found.setdefault(each.slurm_job, []).append(round(fraction, 6))
    return found


def _info(observer: Observer) -> dict[Owner, str]:
    return {each: info.job_name for each, info in observer.observe().info.items() if each.slurm_job}


class ConfiglessCluster(SlurmCluster):
    """slurmd has its files from slurmctld; the exporter reads gres.conf where slurmd keeps it."""

    def _configure(self) -> None:
        super()._configure()
        with (self.work / "etc/slurm.conf").open("a") as conf:
            conf.write("SlurmctldParameters=enable_configless\n")

    def start_daemon(self, node: str) -> None:
        port = (self.work / "etc/slurm.conf").read_text().partition("SlurmctldPort=")[2].split()[0]
        # slurmd links /run/slurm/conf, which other programs of this machine may use: it gets a /run of its own.
        daemon = f"exec slurmd -c -N {node} -d {ROOT}/usr/sbin/slurmstepd --conf-server 127.0.0.1:{port}"
        script = self.work / "configless"
        munge = f"ln -s {self.work}/run/munge.sock /run/munge/munge.socket.2"
        # Before it has its files, it looks for plugins where Debian's package has them.
        system = Path("/usr/lib") / LIBRARIES.name
        plugins = f"mount -t overlay overlay -o lowerdir={system}:{LIBRARIES} {system}"
        own_run = f"mount -t tmpfs none /run && mkdir -p /run/slurm /run/munge && {munge}"
        script.write_text(f"#!/bin/sh\nunset SLURM_CONF\n{plugins} && {own_run} && {daemon}\n")
        script.chmod(0o755)
        self.run("unshare", "-m", str(script))

    @property
    def kept(self) -> Path:
        return self.work / f"spool/{self.node}/conf-cache/gres.conf"


def test_configless_slurmd_keeps_the_gres_conf_that_the_exporter_reads() -> None:
    cluster = ConfiglessCluster(TRACKING[0])
    with cluster:
        job = cluster.run(*BATCH, "--gres=gpu:2", "--wrap", f"exec {cluster.hold}").strip()
        until(cluster.holding)
        own = cluster.work / "etc/gres.conf"
        own.unlink()
        own.symlink_to(cluster.kept)
        with observing(cluster) as observer:
            until(lambda: _weights(observer.observe()) == {job: [1.0, 1.0]})
            assert of_jobs(observer.observe()) == dict.fromkeys(cluster.holding(), job)


class PrivateTmpCluster(SlurmCluster):
    """Each job has its own /tmp, so the files of the cluster are elsewhere."""

    def __init__(self, tracking: str) -> None:
        before, tempfile.tempdir = tempfile.tempdir, "/var/tmp"  # noqa: S108 - no file of ours
        try:
            super().__init__(tracking)
        finally:
            tempfile.tempdir = before

    def _configure(self) -> None:
        super()._configure()
        (self.work / "private").mkdir()
        (self.work / "etc/job_container.conf").write_text(f"AutoBasePath=true\nBasePath={self.work}/private\n")
        conf = self.work / "etc/slurm.conf"
        flags = conf.read_text().replace("PrologFlags=Alloc\n", "PrologFlags=Alloc,Contain\n")
        conf.write_text(f"{flags}JobContainerType=job_container/tmpfs\n")


def _in_chroot() -> bool:
    with contextlib.suppress(PermissionError):  # only root may ask
        return not Path("/proc/1/root").samefile("/")
    return False


@pytest.mark.skipif(_in_chroot(), reason="Slurm enters a namespace, and leaves a chroot")
def test_job_with_a_private_tmp_has_its_gpus_and_its_programs() -> None:
    mark = Path("/tmp/of-a-job-with-a-private-tmp")  # noqa: S108 - it must not be there
    with PrivateTmpCluster(TRACKING[0]) as cluster:
        job = cluster.run(*BATCH, "--gres=gpu:2", "--wrap", f"touch {mark}; exec {cluster.hold}").strip()
        until(cluster.holding)
        with observing(cluster) as observer:
            until(lambda: _weights(observer.observe()) == {job: [1.0, 1.0]})
            assert of_jobs(observer.observe()) == dict.fromkeys(cluster.holding(), job)
        assert not mark.exists()


class MpsCluster(SlurmCluster):
    """GPUs are shared by MPS: 100 parts of each."""

    def _configure(self) -> None:
        super()._configure()
        for name in ("slurm.conf", "gres.conf"):
            file = self.work / "etc" / name
            text = file.read_text().replace("shard:32", "mps:800").replace("gpu,shard", "gpu,mps")
            file.write_text(text.replace("Name=shard Count=32", "Name=mps Count=800"))


def test_jobs_on_mps_have_their_percentage_of_the_gpu() -> None:
    with MpsCluster(TRACKING[0]) as cluster:
        quarter, most = (
            cluster.run(*BATCH, f"--gres=mps:{parts}", "--wrap", f"exec {cluster.hold}").strip() for parts in (25, 75)
        )
        until(lambda: len(cluster.holding()) == 2)
        with observing(cluster) as observer:
            becomes({quarter: [0.25], most: [0.75]}, lambda: _weights(observer.observe()))


@pytest.fixture
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster(TRACKING[0]) as started:
        yield started


def test_id_that_slurm_uses_again_belongs_to_the_new_job(cluster: SlurmCluster) -> None:
    """The controller lost its state, so it counts from 1 again."""
    first = cluster.run(*BATCH, "-J", "first", "--gres=gpu:1", "--wrap", f"exec {cluster.hold}").strip()
    with observing(cluster) as observer:
        until(lambda: _info(observer) == {owner(first): "first"})
        cluster.run("scancel", first)
        ended = time.monotonic()
        until(lambda: not cluster.run("squeue", "-h") and not list((cluster.work / "gpumap").glob("job_*")))
        cluster.stop_daemon("slurmctld", signal.SIGTERM)
        shutil.rmtree(cluster.work / "state")
        (cluster.work / "state").mkdir()
        cluster.run("slurmctld", "-c")
        cluster.stop_daemon(f"slurmd-{cluster.node}")  # it knows the credentials of ended jobs for two minutes
        cluster.start_daemon(cluster.node)
        until(lambda: cluster.run("sinfo", "-h", "-o", "%t", check=False).strip() == "idle")
        until(lambda: time.monotonic() - ended > RETURN_SECONDS)  # ids come back after days, not seconds
        again = cluster.run(
            *BATCH, "-J", "second", "--uid=nobody", "--gres=gpu:1", "--wrap", f"exec {cluster.hold}"
        ).strip()

        assert again == first
        becomes({owner(again, "nobody"): "second"}, lambda: _info(observer))
