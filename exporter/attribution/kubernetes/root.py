"""The root owner of a pod: the object that people made and know by name, which is their workload.

By owner references as far as they can be checked, then by the labels of the projects, then by what names tell; what is
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


class _Step(NamedTuple):
    reference: Reference
    checked: bool
    complete: bool
    """Checked, and nothing is above it."""
    pods: int | None = None


def by_name(pod: str) -> TopLevelOwner:
    guess = projects.guess(pod)
    return TopLevelOwner(guess.name, guess.kind, guess.part_of, inferred=True)


def root_of(pod: Pod, ask: Ask) -> TopLevelOwner | None:
    """Return the top-level owner; None while an object on the way is being asked for."""
    steps = _steps(pod, ask)
    if steps is None:
        return None
    return replace(_top_level(pod, steps), pods=max((step.pods or 0 for step in steps), default=0) or None)


def _top_level(pod: Pod, steps: Sequence[_Step]) -> TopLevelOwner:
    checked = [step.reference for step in steps if step.checked]
    if steps and steps[-1].complete:
        return _of_checked(checked)
    label = projects.named(pod.projects)
    if label and not (checked and label.name == checked[-1].name):
        agrees = any(each.name == label.name or each.name.startswith(f"{label.name}-") for each in checked)
        made = label.kind == "RayCluster" and not checked
        name = projects.of_ray_cluster(label.name) if made else label.name
        return TopLevelOwner(name, label.kind, _cron(label.kind, name), inferred=not agrees)
    if checked:
        return _below(checked, steps[-1].reference)
    if steps:
        return _of_reference(steps[-1].reference, pod)
    alone = pod.controller is None or pod.controller.kind == "Node"
    return TopLevelOwner(pod.name, "Notebook" if JUPYTERHUB in pod.projects else "Pod") if alone else by_name(pod.name)


def _steps(pod: Pod, ask: Ask) -> Sequence[_Step] | None:
    """Return the owners from the pod's controller upwards, as far as they are readable, without pods."""
    found: list[_Step] = []
    reference = pod.controller
    while reference is not None and reference.kind not in ("Node", "Pod") and len(found) < _MAX_ABOVE:
        answer = ask(reference)
        if answer is OwnerUnavailable.PENDING:
            return None
        checked = isinstance(answer, OwnerLookup)
        above, pods = (answer.controller, answer.pods) if isinstance(answer, OwnerLookup) else (None, None)
        found.append(_Step(reference, checked=checked, complete=checked and above is None, pods=pods))
        reference = above
    return found


def _of_checked(checked: Sequence[Reference]) -> TopLevelOwner:
    """Return the topmost object; of a CronJob its Job, which is one run."""
    top = checked[-1]
    if top.kind == "CronJob" and len(checked) > 1:
        return TopLevelOwner(checked[-2].name, checked[-2].kind, f"CronJob/{top.name}")
    return TopLevelOwner(top.name, top.kind)


def _below(checked: Sequence[Reference], last: Reference) -> TopLevelOwner:
    """Return the owner above the last checked reference: an unchecked one counts if its kind is known."""
    if last is checked[-1]:
        return _of_checked(checked)
    if projects.resource(last):
        return replace(_of_checked((*checked, last)), inferred=True)
    root = _of_checked(checked)
    return replace(root, part_of=root.part_of or f"{last.kind}/{last.name}")


def _of_reference(reference: Reference, pod: Pod) -> TopLevelOwner:
    """Return the owner by the pod's own reference, which is not checked."""
    name, kind = reference.name, reference.kind
    made = f"-{pod.projects.get(TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and made != "-" and name.endswith(made):
        name, kind = name.removesuffix(made), "Deployment"
    return TopLevelOwner(name, kind, _cron(kind, name), inferred=True)


def _cron(kind: str, name: str) -> str:
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
    """Return the owner of a container. Pods of one workload share its name; each is an owner of its own."""
    return Owner(
        workload=f"{place.namespace}/{root.name}",
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
