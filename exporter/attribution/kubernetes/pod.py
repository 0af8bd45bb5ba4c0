"""A pod as the API server knows it: only what attribution needs of it is kept."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.attribution.documents import Document, part, parts, text
from exporter.attribution.kubernetes.gpu_request import gpu_fraction, gpu_groups, requested_devices
from exporter.attribution.kubernetes.pod_group import group_size
from exporter.attribution.kubernetes.project_labels import LABELS
from exporter.core.clock import UnixTime
from exporter.host.text import count

_CONFIG_HASH, _CONFIG_MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
"""Annotations of a static pod: the uid that its cgroup carries, which is not the API object's."""
_HASH = re.compile("[0-9a-f]{32}")
"""No other pod's uid looks like it."""
CLASS_LABEL = "gpu-exporter/class"
"""Pod label by which its owner reports what class of work it is."""


class Reference(NamedTuple):
    """The object that made another one, as an owner reference names it."""

    version: str
    """`apps/v1`: API group and version."""
    kind: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    labels: tuple[tuple[str, str], ...] = ()
    """Those on the allow-list, in its order."""
    containers: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Container id (64 hex) to name and image."""
    start_time: UnixTime | None = None
    controller: Reference | None = None
    """The object that made it."""
    projects: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels by which controllers of well-known projects mark their pods."""
    requested_class: str = ""
    """What the label of `CLASS_LABEL` reports."""
    restarts: Mapping[str, int] = field(default_factory=dict[str, int])
    """By container name, as the kubelet counts them."""
    group_size: int | None = None
    """Pods that work together with it, itself included."""
    ended: bool = False
    """Its containers have ended for good: its phase is Succeeded or Failed."""
    requested_devices: int | None = None
    """Devices of GPUs that the kubelet has to list for it; None where it may have been given others as well."""
    gpu_groups: frozenset[str] = frozenset()
    """Groups of pods that share what a reservation pod was given."""
    gpu_fraction: float | None = None
    """Fraction of each of its GPUs, where its scheduler states one."""


def pod_of(document: Document, labels: Collection[str]) -> tuple[str, Pod]:
    """One pod of the API's JSON, and the uid its cgroup carries."""
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
        start_time=_seconds(text(status, "startTime")),
        controller=controller_of(metadata),
        projects={name: value for name in LABELS if (value := text(own, name))},
        requested_class=text(own, CLASS_LABEL),
        restarts=dict(_restarts(statuses)),
        group_size=group_size(document),
        ended=text(status, "phase") in ("Succeeded", "Failed"),
        requested_devices=requested_devices(document),
        gpu_groups=gpu_groups(metadata),
        gpu_fraction=gpu_fraction(metadata),
    )
    return _static(part(metadata, "annotations")) or uid, pod


def _static(annotations: Document) -> str:
    """Who makes a pod writes its annotations: with these, and no such file on the node, the kubelet ends it."""
    found = text(annotations, _CONFIG_HASH)
    return found if _HASH.fullmatch(found) and found == text(annotations, _CONFIG_MIRROR) else ""


def controller_of(metadata: Document) -> Reference | None:
    """The reference to the one owner that manages the object; None where nobody does."""
    for each in parts(metadata, "ownerReferences"):
        if each.get("controller") is True and text(each, "kind") and text(each, "name"):
            return Reference(text(each, "apiVersion"), text(each, "kind"), text(each, "name"), text(each, "uid"))
    return None


def _restarts(statuses: Iterable[Document]) -> Iterable[tuple[str, int]]:
    for each in statuses:
        restarts = count(each.get("restartCount"))
        if restarts is not None:
            yield text(each, "name"), restarts


def _seconds(moment: str) -> UnixTime | None:
    """The moment of the API's RFC 3339 in UTC."""
    import calendar  # noqa: PLC0415 - a node without pods need not load it

    try:
        return UnixTime(calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
