"""Attribution of a real Slurm's jobs as a cycle uses it, and what Slurm itself says of them."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from exporter.attribution.assembly.config import OFF, ON, AttributionConfig, KubernetesConfig, SlurmConfig
from exporter.attribution.assembly.factory import attribution
from exporter.attribution.owner import Owner, Ownership
from exporter.attribution.slurm.jobs import Controller
from exporter.host.process import ProcessReader
from tests.attribution_kit.nodes import gpu
from tests.attribution_kit.slurm_cluster import INDEX_TO_MINOR, SlurmCluster
from tests.attribution_kit.slurm_pair import PairCluster

GPUS = tuple(gpu(number) for number in range(8))


class Observer:
    """Attribution as a cycle uses it: the jobs' real pids on the GPUs that they may open."""

    def __init__(self, cluster: SlurmCluster, mapping: str, scontrol: str, node: str = "") -> None:
        self._cluster = cluster
        self._node = node or cluster.node
        self.also: dict[int, int] = {}
        """Pid to the minor of the GPU it is on, of programs that Slurm did not start."""
        self._attribution = attribution(
            AttributionConfig(
                kubernetes=KubernetesConfig(mode=OFF),
                slurm=SlurmConfig(
                    mode=ON,
                    mapping_dir=Path(mapping) if mapping else None,
                    scontrol=scontrol,
                    gres_conf=cluster.work / "etc/gres.conf",
                ),
            ),
            environment={"SLURMD_NODENAME": self._node},
        )
        self._attribution.start()
        self._reader = ProcessReader()

    def observe(self) -> Ownership:
        processes: dict[str, list[int]] = defaultdict(list)
        for pid, (_, minors) in self._cluster.allocated_to().items():
            if isinstance(self._cluster, PairCluster) and self._cluster.node_of(pid) != self._node:
                continue
            for minor in minors:
                processes[GPUS[minor].uuid].append(pid)
        for pid, minor in self.also.items():
            processes[GPUS[minor].uuid].append(pid)
        pids = {pid for each in processes.values() for pid in each}
        hosts = {pid: host for pid in pids if (host := self._reader.read(pid))}
        return self._attribution.join(GPUS, processes, hosts, time.monotonic())

    @property
    def slurmd_was_seen(self) -> bool:
        """Whether the exporter has found slurmd alive: before that, it does not call it lost."""
        jobs = next(source._jobs for source in self._attribution._sources if isinstance(source, Controller))
        reconciliation = jobs.slurm._reconciliation
        return bool(reconciliation and reconciliation._slurmd_seen)

    def stop(self) -> None:
        self._attribution.stop()


@contextlib.contextmanager
def observing(
    cluster: SlurmCluster, *, mapping: bool = True, scontrol: bool = True, as_nobody: bool = False
) -> Iterator[Observer]:
    command = cluster.scontrol
    if as_nobody:
        command = cluster.work / "as-nobody"
        command.write_text(f'#!/bin/sh\nexec setpriv --reuid nobody --clear-groups {cluster.scontrol} "$@"\n')
        command.chmod(0o755)
    observer = Observer(cluster, str(cluster.work / "gpumap") if mapping else "", str(command) if scontrol else "")
    try:
        yield observer
    finally:
        observer.stop()


@contextlib.contextmanager
def observing_node(cluster: PairCluster, node: str) -> Iterator[Observer]:
    """One node of a pair, which sees its own processes and files only."""
    observer = Observer(cluster, str(cluster.mapping(node)), str(cluster.scontrol_of(node)), node)
    try:
        yield observer
    finally:
        observer.stop()


def owner(job: str, user: str = "root", account: str = "", partition: str = "gpu") -> Owner:
    return Owner(f"slurm:{job}", "slurm", slurm_job=job, user=user, account=account, partition=partition)


def truth(cluster: SlurmCluster) -> dict[str, frozenset[Owner]]:
    """Who holds each GPU, by what Slurm let the programs open and by where it put the idle allocation."""
    train, idle = cluster.job("train"), cluster.job("idle")
    found: dict[str, set[Owner]] = defaultdict(set)
    for job, minors in cluster.allocated_to().values():
        for minor in minors:
            found[GPUS[minor].uuid].add(owner(job, "games", "physics") if job == train else owner(job))
    line = cluster.run("scontrol", "-o", "-d", "show", "job", idle)
    index = int(line.partition("(IDX:")[2].partition(")")[0])
    found[GPUS[INDEX_TO_MINOR[index]].uuid].add(owner(idle))
    return {uuid: frozenset(owners) for uuid, owners in found.items()}


def holders(ownership: Ownership) -> dict[str, frozenset[Owner]]:
    return {uuid: frozenset(owners) for uuid, owners in ownership.holders.items()}


def of_jobs(ownership: Ownership) -> dict[int, str]:
    return {pid: each.slurm_job for pid, each in ownership.processes.items()}


def jobs_of(cluster: SlurmCluster) -> dict[int, str]:
    return {pid: job for pid, (job, _) in cluster.allocated_to().items()}
