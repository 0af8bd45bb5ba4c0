"""How many pods work together, by what is written on one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.kubernetes.pod import group_size, job_pods, pod_of
from exporter.attribution.kubernetes.root import pod_info


def _pod(annotations: Any = None, labels: Any = None, **variables: Any) -> dict[str, Any]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    metadata = {"name": "p", "namespace": "ml", "uid": "u", "annotations": annotations or {}, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "env": env}]}}


GROUPS = json.dumps([{"name": "head", "minMember": 1}, {"name": "worker", "minMember": 6}])


@pytest.mark.parametrize(
    ("pod", "size"),
    [
        (_pod({"leaderworkerset.sigs.k8s.io/size": "4"}), 4),
        (_pod({"kueue.x-k8s.io/pod-group-total-count": "3"}), 3),
        (_pod(labels={"pod-group.scheduling.sigs.k8s.io/min-available": "5"}), 5),
        (_pod({"jobset.sigs.k8s.io/replicatedjob-replicas": "2"}), 2),
        (_pod({"yunikorn.apache.org/task-groups": GROUPS, "yunikorn.apache.org/task-group-name": "worker"}), 6),
        (_pod(PET_NNODES="8"), 8),
        (_pod(PET_NNODES="1:4"), 4),
        (_pod(VC_WORKER_NUM="2"), 2),
        (_pod({"leaderworkerset.sigs.k8s.io/size": "2"}, PET_NNODES="3"), 3),
    ],
)
def test_size_is_what_the_pods_scheduler_or_controller_wrote(pod: dict[str, Any], size: int) -> None:
    assert group_size(pod) == size


@pytest.mark.parametrize(
    "pod",
    [
        _pod(),
        _pod({"leaderworkerset.sigs.k8s.io/size": "-2"}),
        _pod({"leaderworkerset.sigs.k8s.io/size": "99999999999"}),
        _pod({"yunikorn.apache.org/task-groups": "[" * 10_000}),
        _pod(NNODES="$(NODES)"),
        _pod(WORLD="8"),
        {},
    ],
)
def test_what_says_no_number_says_nothing(pod: dict[str, Any]) -> None:
    assert group_size(pod) is None


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists), max_size=3))
def test_whatever_is_written_is_survived(written: dict[str, Any]) -> None:
    odd = {"yunikorn.apache.org/task-groups": written, "leaderworkerset.sigs.k8s.io/size": written}
    group_size({"metadata": {"annotations": odd, "labels": written}, "spec": {"containers": written}})
    group_size({"metadata": written, "spec": written})


def test_pod_of_a_group_has_peers_elsewhere() -> None:
    """A rank alone on its node is one of several GPUs: it can spin in a collective."""
    uid, pod = pod_of(_pod({"leaderworkerset.sigs.k8s.io/size": "4"}), ())
    _, alone = pod_of(_pod(), ())

    assert pod_info(pod, uid, "main", "exact", None).spread
    assert not pod_info(alone, uid, "main", "exact", None).spread


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"parallelism": 4, "completionMode": "Indexed"}, 4),
        ({"parallelism": 4, "completionMode": "NonIndexed"}, None),
        ({"parallelism": 4}, None),
        ({"parallelism": "4", "completionMode": "Indexed"}, None),
        ({"parallelism": True, "completionMode": "Indexed"}, None),
        ({"parallelism": -1, "completionMode": "Indexed"}, None),
        ({"parallelism": 1 << 40, "completionMode": "Indexed"}, None),
        ({}, None),
    ],
)
def test_job_whose_pods_have_no_numbers_is_no_group(spec: Mapping[str, Any], pods: int | None) -> None:
    assert job_pods(spec) == pods
