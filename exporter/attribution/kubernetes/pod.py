"""The fields of a pod from the API server that attribution needs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from exporter.attribution.documents import Document, objects, part, parts, text
from exporter.attribution.kubernetes.projects import LABELS, Reference
from exporter.core.clock import UnixTime
from exporter.host.text import count, natural

_DEVICES = "nvidia.com/"
"""Prefix of resources that NVIDIA's device plugin allocates, and that the kubelet lists."""
_SHARING = re.compile("gpu|cuda|mig-", re.IGNORECASE)
"""Part of the name of a label, annotation or resource of another allocator of GPUs."""
_UUID = re.compile("(?:GPU|MIG)-[0-9a-f]{8}-")
"""Part of the value of such a label or annotation."""
_SHARING_GROUP = "runai-gpu-group"
"""Label of KAI and Run:ai, on the pod that reserves a GPU and on those that share it; also before `/` and a group."""
_ASSIGNED = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new")
"""Annotations of HAMi and Volcano with the devices that their schedulers chose: `UUID,type,memory,cores` of each."""
_FRACTION = "gpu-fraction"
"""Their annotation: fraction of the GPU, above 0 and up to 1."""


PodName = tuple[str, str]
"""Namespace and name."""


def requested_devices(pod: Document) -> int | None:
    """Return how many devices the kubelet has to list; None where the pod may have been given others as well.

    The kubelet lists no device of an init container. Claims, and the labels, annotations and resources of schedulers
    that share GPUs, give out what the pod's containers do not ask for.
    """
    spec, metadata = part(pod, "spec"), part(pod, "metadata")
    containers = parts(spec, "containers")
    initial = [request for each in parts(spec, "initContainers") for request in _gpu_resources(each)]
    written = chain(*(part(metadata, key).items() for key in ("labels", "annotations")))
    shared = any(_SHARING.search(name) or _UUID.search(str(value)) for name, value in written)
    if not containers or initial or parts(spec, "resourceClaims") or shared:
        return None
    asked = [request for each in containers for request in _gpu_resources(each)]
    if any(not name.startswith(_DEVICES) or amount is None for name, amount in asked):
        return None
    return sum(amount or 0 for _, amount in asked)


def _gpu_resources(container: Document) -> Iterator[tuple[str, int | None]]:
    """Yield name and amount of the resources that are GPUs, or parts of one."""
    limits = part(part(container, "resources"), "limits")
    for name in limits:
        if "/" in name and (name.startswith(_DEVICES) or _SHARING.search(name)):
            yield name, natural(text(limits, name))


def gpu_groups(metadata: Document) -> frozenset[str]:
    """Return the groups of pods with which it shares reserved GPUs."""
    labels = part(metadata, "labels")
    return frozenset(
        text(labels, key) for key in labels if key.partition("/")[0] == _SHARING_GROUP and text(labels, key)
    )


def gpu_fraction(metadata: Document) -> float | None:
    """Return the fraction of its GPUs that it was given; None where nothing states it."""
    written = text(part(metadata, "annotations"), _FRACTION)
    return float(written) if re.fullmatch(r"(?:0?\.[0-9]{1,6}|1(?:\.0{1,6})?)", written) and float(written) else None


def assigned_devices(metadata: Document) -> frozenset[str]:
    """Return the UUIDs that a sharing scheduler wrote on it."""
    annotations = part(metadata, "annotations")
    written = ",".join(text(annotations, key, _LONGEST) for key in _ASSIGNED)
    return frozenset(re.findall("(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", written))


_SIZES = (
    "leaderworkerset.sigs.k8s.io/size",
    "kueue.x-k8s.io/pod-group-total-count",
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "gang.scheduling.koordinator.sh/min-available",
    "jobset.sigs.k8s.io/replicatedjob-replicas",
    "jobset.sigs.k8s.io/global-replicas",
)
"""Labels or annotations that hold the number: LeaderWorkerSet, Kueue, coscheduling, Koordinator, JobSet."""
_TASK_GROUPS, _TASK_GROUP = "yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name"
_VARIABLES = re.compile(r"PET_NNODES|NNODES|LWS_GROUP_SIZE|VC_[A-Z0-9_]+_NUM")
"""Variables that controllers set: torchrun's nodes (Kubeflow), LeaderWorkerSet, Volcano."""
_MAX_PODS = 1 << 20
_LONGEST = 1 << 16
"""Characters of an annotation that is read as JSON."""


def group_size(pod: Document) -> int | None:
    """Return how many pods work together: the largest number that controllers or schedulers wrote on it."""
    metadata = part(pod, "metadata")
    annotations = part(metadata, "annotations")
    written = [text(place, key) for place in (annotations, part(metadata, "labels")) for key in _SIZES]
    written += [
        text(variable, "value")
        for container in parts(part(pod, "spec"), "containers")
        for variable in parts(container, "env")
        if _VARIABLES.fullmatch(text(variable, "name"))
    ]
    # `4`, or torchrun's `1:4`: up to so many
    sizes = (natural(each.rpartition(":")[2]) for each in written)
    return max((size for size in (*sizes, _task_group(annotations)) if size and size < _MAX_PODS), default=None)


def _task_group(annotations: Document) -> int | None:
    """Return the size of the pod's group: YuniKorn writes all groups on each pod, and the name of its own."""
    written = annotations.get(_TASK_GROUPS)
    if not isinstance(written, str) or len(written) > _LONGEST:
        return None
    try:
        groups: Any = json.loads(written)
    except (ValueError, RecursionError):
        return None
    own = text(annotations, _TASK_GROUP)
    return next((count(group.get("minMember")) for group in objects(groups) if text(group, "name") == own), None)


def job_pods(spec: Document) -> int | None:
    """Return how many pods of a Job run at once; None if they have no numbers: then each works for itself."""
    pods = count(spec.get("parallelism"))
    return pods if pods and pods < _MAX_PODS and text(spec, "completionMode") == "Indexed" else None


_CONFIG_HASH, _CONFIG_MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
"""Annotations of a static pod: the uid that its cgroup carries, which is not the API object's."""
_HASH = re.compile("[0-9a-f]{32}")
"""No other pod's uid looks like it."""
CLASS_LABEL = "gpu-exporter/class"
"""Pod label by which its owner reports what class of work it is."""


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels on the allow-list, in its order."""
    containers: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Container id (64 hex) to name and image."""
    start_time: UnixTime | None = None
    controller: Reference | None = None
    projects: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels by which controllers of well-known projects label their pods."""
    requested_class: str = ""
    """Value of the label `CLASS_LABEL`."""
    restarts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Restarts by container name."""
    group_size: int | None = None
    """Pods that work together, itself included."""
    ended: bool = False
    """Its containers have ended for good: its phase is Succeeded or Failed."""
    finished: UnixTime | None = None
    """End of its last container, if all have ended for good."""
    requested_devices: int | None = None
    """Devices of GPUs that the kubelet has to list for it; None where it may have been given others as well."""
    gpu_groups: frozenset[str] = frozenset()
    """Groups of pods that share what a reservation pod was given."""
    assigned_devices: frozenset[str] = frozenset()
    """UUIDs of the GPUs that a sharing scheduler chose for it."""
    gpu_fraction: float | None = None
    """Fraction of each of its GPUs, if its scheduler states one."""

    @property
    def pod_name(self) -> PodName:
        return self.namespace, self.name


def pod_of(document: Document, labels: Collection[str]) -> tuple[str, Pod]:
    """Return one pod of the API's JSON, and the uid in its cgroup."""
    metadata, status = part(document, "metadata"), part(document, "status")
    own, uid = part(metadata, "labels"), text(metadata, "uid")
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    statuses = [each for kind in kinds for each in parts(status, kind)]
    pod = Pod(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=uid,
        labels=tuple((name, text(own, name)) for name in labels if name in own),
        containers={
            text(each, "containerID").rpartition("/")[2]: (text(each, "name"), text(each, "image"))
            for each in statuses
            if text(each, "containerID")
        },
        start_time=_parse_time(text(status, "startTime")),
        controller=controller_of(metadata),
        projects={name: value for name in LABELS if (value := text(own, name))},
        requested_class=text(own, CLASS_LABEL),
        restarts={
            text(each, "name"): restarts
            for each in statuses
            if (restarts := count(each.get("restartCount"))) is not None
        },
        group_size=group_size(document),
        ended=(ended := text(status, "phase") in ("Succeeded", "Failed")),
        finished=_finish_time(statuses) if ended else None,
        requested_devices=requested_devices(document),
        gpu_groups=gpu_groups(metadata),
        assigned_devices=assigned_devices(metadata),
        gpu_fraction=gpu_fraction(metadata),
    )
    # Users can write these annotations, but the kubelet ends a pod that has them without such a file on the node.
    annotations = part(metadata, "annotations")
    static = text(annotations, _CONFIG_HASH)
    is_static = _HASH.fullmatch(static) and static == text(annotations, _CONFIG_MIRROR)
    return static if is_static else uid, pod


def _finish_time(statuses: Sequence[Document]) -> UnixTime | None:
    """Return when the last container ended."""
    states = (part(part(each, "state"), "terminated") for each in statuses)
    moments = [moment for each in states if (moment := _parse_time(text(each, "finishedAt")))]
    return max(moments, default=None)


def controller_of(metadata: Document) -> Reference | None:
    """Return the reference to the one owner that manages the object; None without such an owner."""
    for each in parts(metadata, "ownerReferences"):
        if each.get("controller") is True and text(each, "kind") and text(each, "name"):
            return Reference(text(each, "apiVersion"), text(each, "kind"), text(each, "name"), text(each, "uid"))
    return None


def _parse_time(moment: str) -> UnixTime | None:
    """Return the moment of the API's RFC 3339 in UTC."""
    import calendar  # noqa: PLC0415 - a node without pods need not load it

    try:
        return UnixTime(calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
