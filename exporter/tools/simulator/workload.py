"""Simulated workloads: who they belong to, what they do, when they run and on which GPUs of the node."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from exporter.attribution.owner import Owner, WorkloadInfo
from exporter.core.clock import UnixTime
from exporter.tools.simulator.patterns import Pattern

SCHEDULERS = ("kubernetes", "slurm", "mixed")


class Place(NamedTuple):
    """A GPU, or one MIG instance of it by its number in the layout."""

    gpu: int
    slot: int | None = None


_BLOCK = 200
"""Job ids that a node has to itself: more than it has places for workloads."""


def job_block(name: str) -> int:
    """The first job id of a block of this name, and by rare chance of another. Slurm ends at 67 million."""
    return 10_000 + _BLOCK * (crc32(name.encode()) % 300_000)


def job_of_run(job: int, run: int) -> int:
    """Every run has an id of its own, in a block that no other workload's runs share but by rare chance."""
    return job_block(f"{job};{run}") + job % _BLOCK if run else job


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Runs from `start` for `duration` seconds, again every `every` seconds; `every` 0 is once.

    Each run is an owner of its own: the next Slurm job, the next job's pods.
    `rank` is this node's among the `nodes` it is on.
    """

    name: str
    pattern: Pattern
    places: tuple[Place, ...]
    slurm: bool = False
    user: str = ""
    account: str = ""
    partition: str = "gpu"
    namespace: str = ""
    job: int = 1000
    rank: int = 0
    nodes: int = 1
    start: float = 0.0
    duration: float = math.inf
    every: float = 0.0

    def run(self, time: float) -> int | None:
        """The number of the run at this time; None between runs."""
        since = time - self.start
        if since < 0:
            return None
        number = int(since // self.every) if self.every else 0
        return number if since - number * self.every < self.duration else None

    def began(self, run: int) -> float:
        return self.start + run * self.every

    def change(self, time: float) -> float:
        """The next time after `time` at which a run begins or ends."""
        since = time - self.start
        if since < 0:
            return self.start
        began = self.began(int(since // self.every) if self.every else 0)
        ahead = [began + self.duration, began + self.every if self.every else math.inf]
        return min((moment for moment in ahead if moment > time), default=math.inf)

    def job_id(self, run: int) -> str:
        return str(job_of_run(self.job, run))

    def owner(self, run: int) -> Owner:
        if self.slurm:
            job = self.job_id(run)
            return Owner(
                f"slurm:{job}", "slurm", slurm_job=job, user=self.user, account=self.account, partition=self.partition
            )
        kind = "Job" if self.every else "Deployment" if self.pattern.host.serves else "StatefulSet"
        name = f"{self.namespace}/{kind}/{self._made(run)}"
        return Owner(name, "pod", namespace=self.namespace, pod=self._pod_name(run), container="main")

    def info(self, run: int, epoch: float) -> WorkloadInfo:
        """`epoch` is the start of the simulation in Unix seconds."""
        began = epoch + self.began(run)
        if self.slurm:
            limit = self.duration * 1.25 if math.isfinite(self.duration) else 7 * 86400.0
            return WorkloadInfo(
                slurm_step="0",
                job_name=self.name,
                qos="normal",
                time_limit_seconds=limit,
                start_time=UnixTime(began),
                nodes=self.nodes,
            )
        return WorkloadInfo(
            job_name=self.name,
            pod_uid=self._pod_uid(run),
            image=f"registry.example/{self.name}:1.{self.job % 10}",
            start_time=UnixTime(began),
            owner_kind=self.owner(run).workload.split("/")[1],
            owner_name=self._made(run),
            pod_labels=(("app", self.name),),
            pods=self.nodes,
        )

    def cgroup(self, run: int) -> str:
        """Text of /proc/PID/cgroup of its processes."""
        if self.slurm:
            return f"0::/system.slice/slurmstepd.scope/job_{self.job_id(run)}/step_0/user/task_0\n"
        uid = self._pod_uid(run).replace("-", "_")
        container = hashlib.sha256(uid.encode()).hexdigest()
        parent = "/kubepods.slice/kubepods-burstable.slice"
        return f"0::{parent}/kubepods-burstable-pod{uid}.slice/cri-containerd-{container}.scope\n"

    def cgroup_path(self, run: int) -> str:
        """Its own cgroup under the cgroup mount."""
        text = self.cgroup(run).removeprefix("0::").strip()
        return text.partition("/step_")[0] if self.slurm else text.rpartition("/")[0]

    def _pod_name(self, run: int) -> str:
        return f"{self._made(run)}-{self.rank}"

    def _made(self, run: int) -> str:
        """Return the name of the job its pods are made for: each run is another one."""
        return f"{self.name}-{run}" if self.every else self.name

    def _pod_uid(self, run: int) -> str:
        digest = hashlib.sha256(f"{self.namespace}/{self._pod_name(run)}/{self.job}".encode()).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
