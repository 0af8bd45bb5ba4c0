"""Owners from what is known of a process or an allocation; pure, so that a workload always gets the same name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporter.attribution.cgroup import GUESTS, LXC, MACHINE, Cgroup
from exporter.attribution.containers.container import Container
from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.root import Root
from exporter.attribution.nomad.allocation import Task
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.slurm.environ import JobEnviron
from exporter.attribution.slurm.job import Job

EXACT, INFERRED, LOW = "exact", "inferred", "low"
"""Trust: by kernel or scheduler; by elimination, by a name or by a label; by what the user can write."""

_RUNTIMES = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
    "crio": "cri-o",
    "cri-o": "cri-o",
    "containerd": "containerd",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    LXC: LXC,
    MACHINE: MACHINE,
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
    trust = INFERRED if root.inferred else trust
    info = WorkloadInfo(pod_uid=uid, trust=trust, owner_kind=root.kind, part_of=root.part_of)
    if pod is None:
        return info
    images = dict(pod.containers.values())
    return replace(
        info,
        pod_uid=pod.uid,
        image=images.get(container, ""),
        start_time=pod.start_time,
        pod_labels=pod.labels,
        requested_class=pod.requested_class,
        restarts=pod.restarts.get(container),
        pods=max(pod.group_size or 0, root.pods or 0) or None,
    )


def host_owner(cgroup: Cgroup, command: str, user: str, container: Container | None = None) -> Owner:
    """A process of no scheduler: its container, its systemd unit or session, else its command and user.

    What a user named himself is told apart by the user, also where nothing but `workload` is looked at: his unit is not
    the system's of that name, and his programs and sessions are not other people's, here and on all nodes.
    """
    if container:
        return _named_container(container)
    if cgroup.container:
        short = cgroup.container if cgroup.runtime in GUESTS else cgroup.container[:_SHORT_ID]
        runtime = _RUNTIMES.get(cgroup.runtime, "container")
        by = user if cgroup.delegated else ""
        return Owner(f"{runtime}:{_own(by, short)}", kind="container", container=short, user=by)
    if cgroup.unit:
        unit = Owner(f"unit:{cgroup.unit}", kind="unit", user=user)
        users_own = cgroup.delegated or not unit.one_work
        return unit._replace(workload=f"unit:{_own(user, cgroup.unit)}") if users_own else unit
    return Owner(f"process:{_own(user, command)}", kind="process", user=user)


def _own(user: str, name: str) -> str:
    return f"{user}/{name}" if user else name


def _named_container(container: Container) -> Owner:
    """Containers of one service of a compose file are one workload, as pods of a Deployment are."""
    service = f"compose:{container.project}/{container.service}" if container.project else ""
    return Owner(service or f"{container.engine}:{container.name}", kind="container", container=container.name)


def container_info(container: Container) -> WorkloadInfo:
    part_of = f"compose:{container.project}" if container.project else ""
    return WorkloadInfo(image=container.image, part_of=part_of)


def task_owner(allocation: str, name: str, task: Task | None) -> Owner:
    """A task of Nomad; of one that its agent does not report, the allocation's id is all there is."""
    short = allocation.partition("-")[0]
    return Owner(
        workload=f"nomad:{task.namespace}/{task.job}" if task else f"nomad:{short}",
        kind="nomad",
        namespace=task.namespace if task else "",
        container=f"{name}-{short}",
    )


def task_info(task: Task | None) -> WorkloadInfo:
    if task is None:
        return WorkloadInfo(trust=INFERRED)
    part_of = f"nomad:{task.namespace}/{task.parent}" if task.parent else ""
    return WorkloadInfo(owner_kind=task.type, part_of=part_of, restarts=task.restarts)


def own_cgroup(owner: Owner, cgroup: Cgroup) -> str:
    """The path of the cgroup that is the owner's alone; empty where there is none."""
    if owner.shares_place:
        return ""
    return {
        "slurm": cgroup.job_path,
        "pod": cgroup.container_path if owner.container else cgroup.pod_path,
        "container": cgroup.container_path,
        "nomad": cgroup.container_path or cgroup.allocation_path,
        "unit": cgroup.unit_path,
    }.get(owner.kind, "")
