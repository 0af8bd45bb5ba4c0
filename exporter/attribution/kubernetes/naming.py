"""Owners of pods, from what is known of them; pure, so that a workload always gets the same name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.root import Root
from exporter.attribution.naming import INFERRED
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Pod and container that something runs in; the container is empty where it is not known."""

    namespace: str
    pod: str
    container: str = ""


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
    """Return the owner of a pod of which only the uid is known."""
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
