"""Kinds of sites in docs/slurm-sites, on a real Slurm: configless slurmd, and jobs with a private /tmp."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.slurm import gres
from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import LACKING, ROOT, TRACKING, SlurmCluster
from tests.attribution_kit.slurm_observer import observing

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.skipif(bool(LACKING), reason=LACKING)]


class PrivateFoldersCluster(SlurmCluster):
    """With job_container/tmpfs. /tmp stays shared, for the cluster itself is there."""

    def _configure(self) -> None:
        super()._configure()
        (self.work / "etc/job_container.conf").write_text(
            f"AutoBasePath=true\nBasePath={self.work}/containers\nDirs=/var/tmp\n"
        )
        with (self.work / "etc/slurm.conf").open("a") as conf:
            conf.write("JobContainerType=job_container/tmpfs\n")


class ConfiglessCluster(SlurmCluster):
    """With a slurmd that gets its files from slurmctld. It leaves them in /run/slurm/conf."""

    def _configure(self) -> None:
        super()._configure()
        file = self.work / "etc/slurm.conf"
        self.port = next(line for line in file.read_text().splitlines() if "SlurmctldPort" in line).partition("=")[2]
        with file.open("a") as conf:
            conf.write("SlurmctldParameters=enable_configless\n")

    def start_daemon(self, node: str) -> None:
        """Start slurmd without a slurm.conf of its own."""
        command = ("slurmd", "-c", "-N", node, "-d", f"{ROOT}/usr/sbin/slurmstepd")
        self.run("env", "-u", "SLURM_CONF", *command, "--conf-server", f"127.0.0.1:{self.port}")


@pytest.fixture
def configless() -> Iterator[ConfiglessCluster]:
    if gres.DEFAULT.exists() or gres.CONFIGLESS.parent.exists():
        pytest.skip(f"{gres.DEFAULT} or {gres.CONFIGLESS.parent} of another Slurm is here")
    try:
        with ConfiglessCluster(TRACKING[0]) as started:
            yield started
    finally:
        shutil.rmtree(gres.CONFIGLESS.parent.parent, ignore_errors=True)


def _has_whole_gpus(cluster: SlurmCluster) -> None:
    cluster.run("sbatch", "-Q", "-o", "/dev/null", "--gres=gpu:2", "-J", "whole", "--wrap", f"exec {cluster.hold}")
    until(cluster.holding)
    job = cluster.job("whole")
    with observing(cluster) as observer:
        until(
            lambda: (
                [weight for (_, owner), weight in observer.look().weights.items() if owner.slurm_job == job]
                == [1.0, 1.0]
            )
        )


def test_files_of_a_configless_slurmd_are_found(configless: ConfiglessCluster) -> None:
    until(gres.CONFIGLESS.exists)

    names = frozenset({configless.node})
    shown = gres.read(gres.DEFAULT, Path("/proc"), names)
    assert shown == gres.read(configless.work / "etc/gres.conf", Path("/proc"), names)
    assert len(shown) == 8
    _has_whole_gpus(configless)


def test_job_with_private_folders_has_its_prologs_file_and_whole_gpus() -> None:
    with PrivateFoldersCluster(TRACKING[0]) as cluster:
        _has_whole_gpus(cluster)
        (container,) = (cluster.work / "containers").rglob(".ns")
        assert container.exists()
