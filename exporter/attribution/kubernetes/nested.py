"""Clusters inside of pods (k3s, kind or a virtual cluster in one): whose kubelet's pod a process is in.

The innermost pod is the one that people look at only where its own kubelet is asked. To the kubelet of this node all
that runs in there is the pod that it gave the GPU to.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from exporter.attribution.cgroup import Cgroup, parse_path
from exporter.attribution.process_index import ProcessIndex


def of_this_kubelet(index: ProcessIndex, known: Collection[str]) -> ProcessIndex:
    """The index with each process in its outer pod, unless the inner one's uid is among the `known` ones."""
    if not any(each.nested_in for each in (*(group.cgroup for group in index.groups), *index.places.values())):
        return index
    return replace(
        index,
        groups=[replace(group, cgroup=_pod_of_this_kubelet(group.cgroup, known)) for group in index.groups],
        places={path: _pod_of_this_kubelet(cgroup, known) for path, cgroup in index.places.items()},
    )


def _pod_of_this_kubelet(cgroup: Cgroup, known: Collection[str]) -> Cgroup:
    outer = parse_path(cgroup.nested_in)
    if not outer.pod or cgroup.pod in known or (known and outer.pod not in known):
        return cgroup
    return replace(
        cgroup,
        pod=outer.pod,
        qos=outer.qos,
        pod_path=outer.pod_path,
        container=outer.container,
        runtime=outer.runtime,
        container_path=outer.container_path,
    )
