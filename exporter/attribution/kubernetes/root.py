"""The root owner of a pod: the object that people made and know by name, which is their workload.

By owner references as far as they can be checked, then by the labels of the projects, then by what names show; what is
not checked is shown as inferred, for whoever makes pods writes their labels, their names and their references.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from exporter.attribution.kubernetes import projects
from exporter.attribution.kubernetes.pod import Pod, PodName
from exporter.attribution.kubernetes.projects import JUPYTERHUB, TEMPLATE_HASH, Reference
from exporter.attribution.owner import INFERRED, Owner, WorkloadInfo

_MAX_ABOVE = 8
"""Owners above each other; no project has more than six."""


@dataclass(frozen=True, slots=True)
class TopLevelOwner:
    """The object that people made and know by name. `part_of` is the object that it is a run or part of."""

    name: str
    kind: str = ""
    part_of: str = ""
    inferred: bool = False
    pods: int | None = None
    """Number of pods of its Job that run at once and know each other by number."""


class OwnerUnavailable(enum.Enum):
    """Reason why an object is not known."""

    PENDING = "pending"
    UNKNOWN = "unknown"
    """It may not be read, has an unknown kind, or is not the object that the reference means."""


class OwnerLookup(NamedTuple):
    """An object that exists, and its own controller."""

    controller: Reference | None
    pods: int | None = None
    """Number of pods that run at once, of a Job whose pods know each other by number."""


Ask = Callable[[Reference], "OwnerLookup | OwnerUnavailable"]


def by_name(pod: str) -> TopLevelOwner:
    guess = projects.guess(pod)
    return TopLevelOwner(guess.name, guess.kind, guess.part_of, inferred=True)


def top_level_owner(pod: Pod, ask: Ask) -> TopLevelOwner | None:
    """Return the top-level owner; None while an object on the way is being asked for.

    Asks for the owners from the pod's controller upwards, as far as they are readable. Pods are no owners.
    """
    checked: list[Reference] = []
    pods, above, unchecked = 0, pod.controller, None
    while above is not None and above.kind not in ("Node", "Pod") and len(checked) < _MAX_ABOVE:
        answer = ask(above)
        if answer is OwnerUnavailable.PENDING:
            return None
        if not isinstance(answer, OwnerLookup):
            unchecked = above
            break
        checked.append(above)
        pods, above = max(pods, answer.pods or 0), answer.controller
    found = _of_checked(checked) if checked and above is None else _infer_owner(pod, checked, unchecked)
    return replace(found, pods=pods or None)


def _infer_owner(pod: Pod, checked: Sequence[Reference], unchecked: Reference | None) -> TopLevelOwner:
    """Return the owner if not all of them could be checked: by labels, then by references, then by the pod's name."""
    label = projects.named(pod.projects)
    if label and not (checked and label.name == checked[-1].name):
        agrees = any(each.name == label.name or each.name.startswith(f"{label.name}-") for each in checked)
        made = label.kind == "RayCluster" and not checked
        name = projects.of_ray_cluster(label.name) if made else label.name
        return TopLevelOwner(name, label.kind, _cron_job_name(label.kind, name), inferred=not agrees)
    if checked and unchecked and projects.resource(unchecked):
        return replace(_of_checked((*checked, unchecked)), inferred=True)
    if checked:
        found = _of_checked(checked)
        whole = f"{unchecked.kind}/{unchecked.name}" if unchecked else ""
        return replace(found, part_of=found.part_of or whole)
    if unchecked:
        name, kind = unchecked.name, unchecked.kind
        made_of = f"-{pod.projects.get(TEMPLATE_HASH, '')}"
        if kind == "ReplicaSet" and made_of != "-" and name.endswith(made_of):
            name, kind = name.removesuffix(made_of), "Deployment"
        return TopLevelOwner(name, kind, _cron_job_name(kind, name), inferred=True)
    alone = pod.controller is None or pod.controller.kind == "Node"
    return TopLevelOwner(pod.name, "Notebook" if JUPYTERHUB in pod.projects else "Pod") if alone else by_name(pod.name)


def _of_checked(checked: Sequence[Reference]) -> TopLevelOwner:
    """Return the topmost object; of a CronJob its Job, which is one run."""
    top = checked[-1]
    if top.kind == "CronJob" and len(checked) > 1:
        return TopLevelOwner(checked[-2].name, checked[-2].kind, f"CronJob/{top.name}")
    return TopLevelOwner(top.name, top.kind)


def _cron_job_name(kind: str, name: str) -> str:
    return projects.whole(name) if kind == "Job" else ""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Pod and container of a process; the container is empty if it is not known."""

    namespace: str
    pod: str
    container: str = ""

    @property
    def pod_name(self) -> PodName:
        return self.namespace, self.pod


def pod_owner(place: PodPlace, root: TopLevelOwner) -> Owner:
    """Return the owner of a container. Pods of one workload share its name; each is an owner of its own.

    The kind is a part of the workload: a Deployment and a Job may have one name.
    """
    return Owner(
        workload="/".join(part for part in (place.namespace, root.kind, root.name) if part),
        kind="pod",
        namespace=place.namespace,
        pod=place.pod,
        container=place.container,
    )


def nameless_pod(uid: str) -> Owner:
    """Return the owner of a pod of which only the uid is known."""
    return Owner(workload=f"pod:{uid}", kind="pod")


def pod_info(pod: Pod | None, uid: str, container: str, trust: str, root: TopLevelOwner | None) -> WorkloadInfo:
    root = root or TopLevelOwner("")
    trust = INFERRED if root.inferred else trust
    info = WorkloadInfo(pod_uid=uid, trust=trust, owner_kind=root.kind, owner_name=root.name, part_of=root.part_of)
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
