"""How many pods work together with this one, by what schedulers and controllers write on the pod, or by its Job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from exporter.attribution.documents import Document, part, parts, text

_SIZES = (
    "leaderworkerset.sigs.k8s.io/size",
    "kueue.x-k8s.io/pod-group-total-count",
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "gang.scheduling.koordinator.sh/min-available",
    "jobset.sigs.k8s.io/replicatedjob-replicas",
    "jobset.sigs.k8s.io/global-replicas",
)
"""Labels or annotations that hold the number: LeaderWorkerSet, Kueue, coscheduling, Koordinator, JobSet."""
_GROUPS, _GROUP = "yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name"
_VARIABLES = re.compile(r"PET_NNODES|NNODES|LWS_GROUP_SIZE|VC_[A-Z0-9_]+_NUM")
"""Of the containers, as controllers set them: torchrun's nodes (Kubeflow), LeaderWorkerSet, Volcano."""
_MAX_PODS = 1 << 20
_LONGEST = 1 << 16
"""Characters of an annotation that is read as JSON."""


def group_size(pod: Document) -> int | None:
    """The largest number that any of them reports; None where nothing reports one."""
    return max(_sizes(pod), default=None)


def _sizes(pod: Document) -> Iterator[int]:
    metadata = part(pod, "metadata")
    for written in (part(metadata, "annotations"), part(metadata, "labels")):
        for key in _SIZES:
            yield from _number(text(written, key))
    yield from _task_group(part(metadata, "annotations"))
    for container in parts(part(pod, "spec"), "containers"):
        for variable in parts(container, "env"):
            if _VARIABLES.fullmatch(text(variable, "name")):
                yield from _number(text(variable, "value"))


def _task_group(annotations: Document) -> Iterator[int]:
    """YuniKorn writes all groups on each pod, and which of them it is in."""
    written = annotations.get(_GROUPS)
    if not isinstance(written, str) or len(written) > _LONGEST:
        return
    try:
        groups: Any = json.loads(written)
    except (ValueError, RecursionError):
        return
    for group in parts({"groups": groups}, "groups"):
        size = cast("object", group.get("minMember"))
        if text(group, "name") == text(annotations, _GROUP) and isinstance(size, int):
            yield from _number(str(size))


def job_pods(spec: Document) -> int | None:
    """Pods of a Job that run at once; None for one whose pods have no numbers: they work each for itself."""
    count = spec.get("parallelism")
    valid = isinstance(count, int) and not isinstance(count, bool) and 0 < count < _MAX_PODS
    return cast("int", count) if valid and text(spec, "completionMode") == "Indexed" else None


def _number(written: str) -> Iterator[int]:
    """`4`, or torchrun's `1:4`: up to so many."""
    last = written.rpartition(":")[2]
    if last.isascii() and last.isdigit() and len(last) < len(str(_MAX_PODS)) and int(last) > 0:
        yield int(last)
