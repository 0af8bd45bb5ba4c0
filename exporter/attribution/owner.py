"""The owner of GPU time, and the labels every owner series carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from exporter.core.clock import UnixTime
from exporter.core.record import record
from exporter.core.units import Fraction

_DAEMONS = (
    r"crond?|atd|condor|pbs(?:_jobs|_mom)?|torque-mom|lsfd|sge_?execd(?:\..+)?|gridengine-exec|supervisord?"
    r"|gitlab-runner|actions\.runner\..+"
)
"""Daemons that start unrelated programs: cron, HTCondor, PBS, LSF, Grid Engine, supervisors, runners of tests."""
_SHARED = re.compile(rf"unit:(?:[^/]+/)?(?:init\.scope|(?:sshd?|{_DAEMONS})\.service)$")
"""Units in which several users start programs."""
_PLACES = re.compile(
    rf"{_SHARED.pattern}|unit:(?:[^/]+/)?(?:(?:session|tmux-spawn|vte-spawn)-.+\.scope|(?:user@.+|sshd?@.+)\.service)$"
)
"""Units in which one or several users start programs."""


class Owner(NamedTuple):
    """One workload, in the order of its labels. An empty field does not apply or is not known.

    `workload` is one printable id: `namespace/Kind/name` of what owns the pod, `slurm:12345`, `nomad:default/train`,
    `docker:name`, `compose:project/service`, `unit:jupyter.service`, `process:ada/python3`. The pods of one workload
    are owners each. Where Slurm runs inside Kubernetes both the job and the pod are filled.
    """

    workload: str = ""
    kind: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    slurm_job: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Label values in the order of OWNER_LABELS."""
        return (*self, self.namespace, self.pod, self.container)

    @property
    def pod_name(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.pod

    @property
    def source_id(self) -> str:
        """Name by which its source reports its end."""
        return self.slurm_job or "/".join((*self.pod_name, self.container))

    @property
    def one_work(self) -> bool:
        """Return whether it is one piece of work, not programs with a name, a session, a terminal or cron in common."""
        return self.kind != "process" and not (self.kind == "unit" and _PLACES.match(self.workload))

    @property
    def shares_place(self) -> bool:
        """Return whether its cgroup has programs of other users."""
        return self.kind == "unit" and bool(_SHARED.match(self.workload))


SCRAPER_LABELS = ("namespace", "pod", "container")
"""Names that a scraper may give to the exporter's own pod. They stay for joins with kube-state-metrics and cAdvisor."""
OWNER_LABELS = (*Owner._fields, *(f"workload_{label}" for label in SCRAPER_LABELS))
KEPT_OWNER_LABELS = tuple(label for label in OWNER_LABELS if label not in SCRAPER_LABELS)
"""Those that no scraper overwrites: rules, dashboards, alert routes and reports ask for these."""
NOBODY = Owner()


EXACT, INFERRED, LOW = "exact", "inferred", "low"
"""Trust: by kernel or scheduler; by elimination, a name or a label; by text that the user can write."""


def process_owner(command: str, user: str) -> Owner:
    """Return the owner of a program that only has a command and a user."""
    return Owner(f"process:{of_user(user, command)}", kind="process", user=user)


def of_user(user: str, name: str) -> str:
    """Return a user's own name, distinct from the same name of other users and of the system."""
    return f"{user}/{name}" if user else name


@record
class Target:
    """One thing that can be allocated: a GPU without MIG, or a MIG instance, with all names that a source may use."""

    uuid: str
    index: int
    pci_bus_id: str
    minor: int | None = None
    parent_uuid: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    share: Fraction = Fraction(1.0)
    """Fraction of the whole GPU: 1 except for MIG instances."""
    profile: str = ""
    """Profile of a MIG instance: `1g.10gb`."""


NOT_HERE = "not_on_this_node"
"""Reason of an unresolved device: the driver shows none like it."""


@record
class SourceHealth:
    """Health of one attribution source: `age` is seconds since its last good answer."""

    source: str
    success: bool
    age: float
    conflicts: int = 0
    unresolved: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of allocated devices that were not found on this node, by reason."""
    stale: int | None = None
    """Number of ended workloads that left something here; None for a source that does not count them."""
    reason: str = ""
    """Reason of the last failed question: `missing`, `refused`, `timeout`, `unreachable` or `bad_answer`."""


@record
class WorkloadInfo:
    """Labels of `gpu_workload_info`, and facts about a workload. Empty fields are not known."""

    slurm_array_job: str = ""
    slurm_array_task: str = ""
    slurm_het_job: str = ""
    slurm_het_offset: str = ""
    slurm_step: str = ""
    job_name: str = ""
    qos: str = ""
    time_limit_seconds: float | None = None
    start_time: UnixTime | None = None
    """Unix seconds the workload started (the allocation, not the first process)."""
    pod_uid: str = ""
    image: str = ""
    trust: str = "exact"
    """`exact`; `inferred` by elimination, a name or a label; `low` where only what the user can write reports it."""
    pod_labels: tuple[tuple[str, str], ...] = ()
    owner_kind: str = ""
    """Kind of the object that is the workload of a pod: `Job`, `Deployment`, `PyTorchJob`."""
    owner_name: str = ""
    """Name of that object alone, which a label selector of Kubernetes can hold."""
    part_of: str = ""
    """Whole that the workload is a part of: `CronJob/nightly`, `slurm:12` of an array or a heterogeneous job."""
    restarts: int | None = None
    """Number of restarts by its scheduler."""
    requested_class: str = ""
    """Class of work that the pod's own label asks for."""
    nodes: int | None = None
    """Number of its nodes, if its source reports it."""
    tasks: int | None = None
    """Number of its tasks at the start, if its source reports it."""
    pods: int | None = None
    """Number of pods that work together, if the pod or its Job reports it."""

    @property
    def spread(self) -> bool:
        """Return whether it has parts on other nodes or pods. Tasks count only if the number of nodes is unknown."""
        nodes = self.nodes or self.tasks or 1
        return nodes > 1 or (self.pods or 1) > 1 or bool(self.slurm_het_job)


@record
class Ownership:
    """Owners of one sampling cycle. Never changed once made.

    `holders` are the owners of a target by allocation or by a process on it. `weights` are their fractions of it.
    """

    processes: Mapping[int, Owner] = field(default_factory=dict[int, Owner])
    holders: Mapping[str, tuple[Owner, ...]] = field(default_factory=dict[str, tuple[Owner, ...]])
    weights: Mapping[tuple[str, Owner], Fraction] = field(default_factory=dict[tuple[str, Owner], Fraction])
    cgroups: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """Path of the owner's own cgroup under the mount; absent if others are in it."""
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    health: tuple[SourceHealth, ...] = ()
    ended: Mapping[str, UnixTime] = field(default_factory=dict[str, UnixTime])
    """End of the allocations that ended lately, by `Owner.source_id`, where the source reports it."""
    unallocated: Mapping[str, frozenset[Owner]] = field(default_factory=dict[str, frozenset[Owner]])
    """Owners by target uuid that run on it without an allocation, although a scheduler allocates it."""
