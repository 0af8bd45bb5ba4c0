"""MIG instances given by claims (DRA) on a real kubelet: `make e2e-kubernetes`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes import release, settings
from tests.e2e.kubernetes.cluster import TOOLS, Cluster
from tests.e2e.kubernetes.conftest import EXCLUSIVE, GPUS, HERE, pod
from tests.e2e.kubernetes.release import NAMESPACE, RELEASE, deploy, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for
from tests.fake_nvml import scenario

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
GPU = len(GPUS)
"""One more than the device plugin offers: this one is split by MIG and the DRA driver's."""
INSTANCES = {
    # as NVIDIA's DRA driver calls it: GPU instance and profile
    f"gpu-{GPU}-mig-1g10gb-19-0": (1, "1g.10gb"),
    f"gpu-{GPU}-mig-1g10gb-19-1": (2, "1g.10gb"),
    f"gpu-{GPU}-mig-3g40gb-9-4": (5, "3g.40gb"),
}
UUIDS = [f"MIG-00000000-0000-0000-{GPU:04d}-{place:012d}" for place in range(len(INSTANCES))]
_, LIKE, ALONE = UUIDS


@pytest.fixture(scope="module")
def split(driver: scenario.Scenario) -> Iterator[None]:
    """A fifth GPU with three instances, two of them alike."""
    rows = {key: value for key, value in scenario.node(GPU + 1).items() if key.startswith(f"gpu{GPU}.")}
    for place, (gpu_instance, profile) in enumerate(INSTANCES.values()):
        rows |= scenario.mig_instance(GPU, place, gpu_instance, profile)
    driver.set({"gpus": GPU + 1, **rows})
    yield
    driver.set({"gpus": GPU})


def published() -> dict[str, Any]:
    """The ResourceSlice of this node."""
    attributes = ({"type": {"string": "mig"}, "uuid": {"string": uuid}} for uuid in UUIDS)
    devices = [{"name": name, "attributes": told} for name, told in zip(INSTANCES, attributes, strict=True)]
    pool = {"name": settings.NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": settings.NODE, "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "gpu-node-1-gpu"}, "spec": spec}


def claiming(name: str, uuid: str, **more: Any) -> list[dict[str, Any]]:
    """A claim of one instance, and the pod that holds it."""
    wish = {"cel": {"expression": f"device.attributes['{DRIVER}'].uuid == '{uuid}'"}}
    request = {"name": "mig", "exactly": {"deviceClassName": "mig.nvidia.com", "selectors": [wish], **more}}
    spec = {"devices": {"requests": [request]}}
    claim = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "team-a"}}
    holder = pod(name, EXCLUSIVE, 0)
    holder["spec"]["resourceClaims"] = [{"name": "mig", "resourceClaimName": name}]
    holder["spec"]["containers"][0]["resources"] = {"claims": [{"name": "mig"}]}
    return [{**claim, "spec": spec}, holder]


@pytest.fixture(scope="module")
def claimed(cluster: Cluster, split: None) -> Iterator[None]:  # noqa: ARG001 - the driver shows them first
    """`alone` holds the only instance of its profile, `like` one of two."""
    server = f"https://{settings.GATEWAY}:{cluster.ports.api}"
    command = [HERE / "dra_driver.py", cluster.home / "kubelet", server, cluster.home / "ca.crt", settings.TOKEN]
    cluster.processes["dra-driver"] = subprocess.Popen(
        [sys.executable, *command], env={**os.environ, "PYTHONPATH": str(TOOLS / "python")}, start_new_session=True
    )
    chosen = {"cel": {"expression": f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'mig'"}}
    kind = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "mig.nvidia.com"}}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    cluster.apply(team, published(), {**kind, "spec": {"selectors": [chosen]}})
    cluster.apply(*claiming("alone", ALONE), *claiming("like", LIKE))
    cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", "pod/alone", "pod/like", "--timeout=120s")
    yield
    cluster.kubectl("delete", "pod", "-n", "team-a", "alone", "like")
    cluster.kubectl("delete", "resourceclaim", "-n", "team-a", "alone", "like")


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> Iterator[Path]:
    yield release.default_values(cluster)
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")


def holders(text: str) -> dict[str, str]:
    """Pod by UUID of the instance it holds."""
    found = samples(text, "gpu_mig_allocation_ratio")
    return {labels["pod"]: labels["uuid"] for labels, _ in found if labels["pod"] in {"alone", "like", "monitor"}}


def unresolved(text: str) -> float:
    wanted = {"source": "kubernetes", "reason": "mig_placement"}
    return sum(value for each, value in samples(text, "gpu_exporter_attribution_unresolved_devices") if each == wanted)


@pytest.mark.usefixtures("claimed")
def test_claim_is_told_by_its_profile_and_one_of_two_alike_is_counted(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values, "--set", "attribution.pods.api=false")

    def told() -> str:
        text = metrics(cluster)
        if not holders(text) or not unresolved(text):
            raise NotYetError(text)
        return text

    text = wait_for(told, 60)
    assert holders(text) == {"alone": ALONE}
    assert unresolved(text) == 1


@pytest.mark.usefixtures("claimed")
def test_resource_slices_tell_which_of_two_alike_a_claim_means(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values)

    def told() -> None:
        text = metrics(cluster)
        if holders(text) != {"alone": ALONE, "like": LIKE} or unresolved(text):
            raise NotYetError(text)

    wait_for(told, 60)


@pytest.mark.usefixtures("claimed")
def test_claim_with_admin_access_holds_nothing(cluster: Cluster, values: Path) -> None:
    """The kubelet lists the monitor beside the holder; the API server tells that its claim only watches."""
    metadata = {"name": "team-a", "labels": {"resource.kubernetes.io/admin-access": "true"}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, *claiming("monitor", ALONE, adminAccess=True)
    )

    def told(expected: dict[str, str]) -> None:
        if holders(text := metrics(cluster)) != expected:
            raise NotYetError(text)

    try:
        cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", "pod/monitor", "--timeout=120s")
        deploy(cluster, values, "--set", "attribution.pods.api=false")
        wait_for(lambda: told({"alone": ALONE, "monitor": ALONE}), 60)
        deploy(cluster, values)
        wait_for(lambda: told({"alone": ALONE, "like": LIKE}), 60)
    finally:
        cluster.kubectl("delete", "pod", "-n", "team-a", "monitor")
        cluster.kubectl("delete", "resourceclaim", "-n", "team-a", "monitor")
