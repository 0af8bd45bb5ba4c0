"""Owners from what is known of a process or an allocation; pure, so that a workload always gets the same name."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.attribution.cgroup import Cgroup
from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.root import Root
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.slurm.environ import JobEnviron
from exporter.attribution.slurm.job import Job
from exporter.host.text import bounded

EXACT, INFERRED, LOW = "exact", "inferred", "low"
"""Trust: by kernel or scheduler; by elimination; by what the user can write."""

_RUNTIMES = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
    "crio": "cri-o",
    "cri-o": "cri-o",
    "containerd": "containerd",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
}
_SHORT_ID = 12


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Pod and container that something runs in; the container is empty where it is not known."""

    namespace: str
    pod: str
    container: str = ""


NO_POD = PodPlace("", "")


def job_owner(job: str, known: Job | None, job_environ: JobEnviron | None, user: str, pod: PodPlace = NO_POD) -> Owner:
    """A Slurm job: slurmctld's word first, then the kernel's about the `user`, then the job's own."""
    return Owner(
        workload=f"slurm:{job}",
        kind="slurm",
        namespace=pod.namespace,
        pod=pod.pod,
        container=pod.container,
        slurm_job=job,
        user=known.user if known else user or (job_environ.user if job_environ else ""),
        account=known.account if known else job_environ.account if job_environ else "",
        partition=known.partition if known else job_environ.partition if job_environ else "",
    )


def job_info(known: Job | None, job_environ: JobEnviron | None, step: str, trust: str) -> WorkloadInfo:
    own = job_environ or JobEnviron()
    if known is None:
        return WorkloadInfo(job_name=own.name, slurm_step=step, trust=trust, nodes=own.node_count, tasks=own.task_count)
    return WorkloadInfo(
        slurm_array_job=known.array_job,
        slurm_array_task=known.array_task,
        slurm_het_job=known.het_job,
        slurm_het_offset=known.het_offset,
        slurm_step=step,
        job_name=known.name,
        qos=known.qos,
        time_limit_seconds=known.time_limit_seconds,
        start_time=known.start_time,
        trust=trust,
        nodes=known.node_count or own.node_count,
        tasks=known.task_count or own.task_count,
        part_of=_whole(known),
        restarts=known.restarts,
    )


def _whole(job: Job) -> str:
    """The array, or the heterogeneous job, that it is a part of."""
    whole = job.array_job or job.het_job
    return f"slurm:{whole}" if whole else ""


def pod_owner(place: PodPlace, root: Root) -> Owner:
    """Pods of one workload share its name; each is an owner of its own."""
    return Owner(
        workload=f"{place.namespace}/{root.name}",
        kind="pod",
        namespace=place.namespace,
        pod=place.pod,
        container=place.container,
    )


def nameless_pod(uid: str) -> Owner:
    """A pod of which only the uid is known: nothing was given to it and the API server is not asked."""
    return Owner(workload=f"pod:{uid}", kind="pod")


def pod_info(pod: Pod | None, uid: str, container: str, trust: str, root: Root | None) -> WorkloadInfo:
    root = root or Root("")
    info = WorkloadInfo(
        pod_uid=uid, trust=trust, owner_kind=root.kind, part_of=root.part_of, name_inferred=root.inferred
    )
    if pod is None:
        return info
    images = dict(pod.containers.values())
    return replace(
        info,
        pod_uid=pod.uid,
        image=images.get(container, ""),
        start_time=pod.start_time,
        pod_labels=pod.labels,
        asked_class=pod.asked_class,
        restarts=pod.restarts.get(container),
        pods=max(pod.group_size or 0, root.pods or 0) or None,
    )


def host_owner(cgroup: Cgroup, command: str, user: str, container_name: str = "") -> Owner:
    """A process of no pod and no job: its container, its systemd unit or session, else its command and user."""
    if cgroup.container:
        name = container_name or cgroup.container[:_SHORT_ID]
        runtime = _RUNTIMES.get(cgroup.runtime, "container")
        by = user if cgroup.delegated else ""  # a user's own container must not pass for another's
        return Owner(workload=f"{runtime}:{name}", kind="container", container=name, user=by)
    if cgroup.unit:
        return Owner(workload=f"unit:{cgroup.unit}", kind="unit", user=user)
    return Owner(workload=f"process:{command}", kind="process", user=user)


def own_cgroup(owner: Owner, cgroup: Cgroup) -> str:
    """The path of the cgroup that is the owner's alone; empty where there is none."""
    return {
        "slurm": cgroup.job_path,
        "pod": cgroup.container_path if owner.container else cgroup.pod_path,
        "container": cgroup.container_path,
        "unit": cgroup.unit_path,
    }.get(owner.kind, "")


class ContainerNames:
    """Names of docker's containers from its own state files, each read once; empty where not readable."""

    def __init__(self, docker: Path = Path("/var/lib/docker")) -> None:
        self._docker = docker
        self._names: dict[str, str] = {}

    def name(self, cgroup: Cgroup) -> str:
        if cgroup.runtime != "docker" or cgroup.delegated:
            return ""
        if cgroup.container not in self._names:
            if len(self._names) > 1000:  # noqa: PLR2004 - containers come and go, memory must not
                self._names.clear()
            self._names[cgroup.container] = self._read(cgroup.container)
        return self._names[cgroup.container]

    def _read(self, container: str) -> str:
        try:
            document = json.loads((self._docker / "containers" / container / "config.v2.json").read_bytes())
            return bounded(str(document["Name"]).lstrip("/"))
        except (OSError, ValueError, KeyError, TypeError):
            return ""
