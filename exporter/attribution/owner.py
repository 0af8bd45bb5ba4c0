"""The owner of GPU time, and the labels every owner series carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from exporter.core.clock import UnixTime
from exporter.core.record import record
from exporter.core.units import Share

_DAEMONS = (
    r"crond?|atd|condor|pbs(?:_jobs|_mom)?|torque-mom|lsfd|sge_?execd(?:\..+)?|gridengine-exec|supervisord?"
    r"|gitlab-runner|actions\.runner\..+"
)
"""They start what has nothing to do with each other: cron; HTCondor, PBS, LSF and Grid Engine, whose jobs are not told
apart; supervisors of programs; runners of tests."""
_SHARED = re.compile(rf"unit:(?:[^/]+/)?(?:init\.scope|(?:sshd?|{_DAEMONS})\.service)$")
"""Units in which several people start whatever they like."""
_PLACES = re.compile(
    rf"{_SHARED.pattern}|unit:(?:[^/]+/)?(?:(?:session|tmux-spawn|vte-spawn)-.+\.scope|(?:user@.+|sshd?@.+)\.service)$"
)
"""And those in which one does."""


class Owner(NamedTuple):
    """One workload, in the order of its labels: a plain tuple, since a pass looks owners up a thousand times.

    An empty field does not apply or is not known; all empty is nobody known.

    `workload` is one printable id: `namespace/name` of what owns the pod, `slurm:12345`, `nomad:default/train`,
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
        return self

    @property
    def pod_name(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.pod

    @property
    def one_work(self) -> bool:
        """Not so of programs that have a name and a user, or a login session, a terminal or cron, in common."""
        return self.kind != "process" and not (self.kind == "unit" and _PLACES.match(self.workload))

    @property
    def shares_place(self) -> bool:
        """Its cgroup has other people's programs in it, whether or not they are on a GPU."""
        return self.kind == "unit" and bool(_SHARED.match(self.workload))


OWNER_LABELS = Owner._fields
NOBODY = Owner()


EXACT, INFERRED, LOW = "exact", "inferred", "low"
"""Trust: by kernel or scheduler; by elimination, by a name or by a label; by what the user can write."""


def process_owner(command: str, user: str) -> Owner:
    """Return the owner of a program that nothing but its command and its user names."""
    return Owner(f"process:{of_user(user, command)}", kind="process", user=user)


def of_user(user: str, name: str) -> str:
    """Return a name that users choose, apart from the same name of other users and of the system."""
    return f"{user}/{name}" if user else name


@record
class Target:
    """One thing that can be held: a GPU without MIG, or a MIG instance, with every name an owner may use for it."""

    uuid: str
    index: int
    pci_bus_id: str
    minor: int | None = None
    parent_uuid: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    share: Share = Share(1.0)
    """Part of the whole GPU, 0 to 1: 1 but for MIG instances."""
    profile: str = ""
    """Of a MIG instance: `1g.10gb`."""


NOT_HERE = "not_on_this_node"
"""Why a device is unresolved: the driver shows none like it."""


@record
class SourceHealth:
    """How one attribution source fares: `age` is seconds since its last good answer."""

    source: str
    success: bool
    age: float
    conflicts: int = 0
    unresolved: Mapping[str, int] = field(default_factory=dict[str, int])
    """Devices it reports were given to somebody and that are none of this node's as far as is known, by reason."""
    stale: int | None = None
    """What is left of ended workloads and does not count; None for a source that does not look for such."""


@record
class WorkloadInfo:
    """What is shown of a workload only on `gpu_workload_info`. Empty fields are not known."""

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
    part_of: str = ""
    """The whole that the workload is a part of: `CronJob/nightly`, `slurm:12` of an array or a heterogeneous job."""
    restarts: int | None = None
    """How often its scheduler has started it again."""
    requested_class: str = ""
    """Class of work that the pod's own label asks for."""
    nodes: int | None = None
    """How many nodes it runs on, where its source reports."""
    tasks: int | None = None
    """How many tasks it started with, where its source reports."""
    pods: int | None = None
    """How many pods work together, where something on the pod or its Job reports."""

    @property
    def spread(self) -> bool:
        """It has parts besides the one that is seen here. Its tasks tell only where nobody knows its nodes."""
        nodes = self.nodes or self.tasks or 1
        return nodes > 1 or (self.pods or 1) > 1 or bool(self.slurm_het_job)


@record
class Ownership:
    """One pass's answer; never changed once made.

    `holders` maps a target uuid to the owners that hold it, by allocation or by a process on it, without repeats;
    `weights` gives an owner's part of a target where a source states one (time-slices, shards), else it is even.
    """

    processes: Mapping[int, Owner] = field(default_factory=dict[int, Owner])
    holders: Mapping[str, tuple[Owner, ...]] = field(default_factory=dict[str, tuple[Owner, ...]])
    weights: Mapping[tuple[str, Owner], Share] = field(default_factory=dict[tuple[str, Owner], Share])
    cgroups: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """The owner's own cgroup, as a path under the cgroup mount; absent where it shares one with others."""
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    health: tuple[SourceHealth, ...] = ()
    unreserved: Mapping[str, frozenset[Owner]] = field(default_factory=dict[str, frozenset[Owner]])
    """By target uuid: those that run on it and were not given it, though a scheduler gives it out."""
