"""Pods of every kind of workload on a real API server and kubelet go by what people made: `make e2e-kubernetes`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import kind_objects, release
from tests.e2e.kubernetes.cluster import ROOT, Cluster
from tests.e2e.kubernetes.conftest import GPUS, offer
from tests.e2e.kubernetes.kind_objects import CASES, RESOURCE, container_name
from tests.e2e.kubernetes.release import NAMESPACE, RELEASE, deploy, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

DATA = ROOT / "tests/unit/attribution/data"
RECORDED, ROOTS = DATA / "kubernetes_owners.yaml", yaml.safe_load((DATA / "kubernetes_roots.yaml").read_text())
HEADER = """\
# What a real API server said of one pod of each kind, and of the objects above it: written by
# `pytest tests/e2e/kubernetes/kinds.py --update`.
"""


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> Iterator[dict[str, dict[str, Any]]]:
    """By case."""
    offer(cluster, RESOURCE, [f"{GPUS[3]}::{replica}" for replica in range(2 * len(CASES))])

    def offered() -> None:
        (node,) = cluster.get("nodes")["items"]
        if node["status"]["allocatable"].get(RESOURCE) != str(2 * len(CASES)):
            raise NotYetError(node["status"]["allocatable"])

    wait_for(offered)
    kind_objects.make_all(cluster)
    yield wait_for(lambda: kind_objects.running(cluster), 240)
    cluster.kubectl("delete", "namespace", kind_objects.NAMESPACE)


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> Path:
    return release.default_values(cluster)


def test_answers_of_the_server_are_as_recorded(
    cluster: Cluster, pods: dict[str, dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    found = {case: kind_objects.answers(cluster, pods[case]) for case in CASES}
    if request.config.getoption("--update"):
        RECORDED.write_text(HEADER + yaml.safe_dump(found, sort_keys=False, width=140))
    recorded = yaml.safe_load(RECORDED.read_text())

    def shape(answer: dict[str, Any]) -> Any:
        """All but what is new each time: uids and the ends of names."""
        return [each["kind"] for each in answer["above"]], sorted(answer["pod"].get("labels", ()))

    assert {case: shape(each) for case, each in found.items()} == {case: shape(each) for case, each in recorded.items()}


def told(text: str) -> dict[str, tuple[str, str, str]]:
    """By container: the workload, `Kind < Kind/name` and whether that is inferred."""
    found = {}
    for labels, _ in samples(text, "gpu_workload_info"):
        if labels["namespace"] == kind_objects.NAMESPACE:
            kind = " < ".join(each for each in (labels.get("owner_kind", ""), labels.get("part_of", "")) if each)
            found[labels["container"]] = (labels["workload"], kind, labels.get("inferred", ""))
    return found


def expected(case: str, column: str) -> tuple[str, str, str]:
    own, _, whole = ROOTS[case].get(column, ROOTS[case]["root"]).partition(" < ")
    kind, _, name = own.rpartition("/")
    exact = (column == "root" and not ROOTS[case].get("inferred")) or (column == "by_labels" and kind == "Pod")
    shown = " < ".join(each for each in (kind, whole) if each)
    workload = "/".join(part for part in (kind_objects.NAMESPACE, kind, name) if part)
    return workload, shown, "false" if exact else "true"


RIGHTS = {
    "root": (),
    "by_labels": ("--set", "rbac.owners=false"),
    "by_name": ("--set", "attribution.pods.api=false"),
}


@pytest.mark.parametrize("column", RIGHTS)
def test_every_pod_goes_by_what_people_made(
    cluster: Cluster, values: Path, pods: dict[str, dict[str, Any]], column: str
) -> None:
    deploy(cluster, values, *RIGHTS[column])
    wanted = {container_name(case): expected(case, column) for case in pods}

    def all_told() -> None:
        found = told(re.sub(r"nightly-\d{8}", "nightly-MINUTE", metrics(cluster)))
        if found != wanted:
            raise NotYetError(
                {name: (found.get(name), each) for name, each in wanted.items() if found.get(name) != each}
            )

    try:
        wait_for(all_told, 60)
    finally:
        cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
