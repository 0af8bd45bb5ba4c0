"""A pod that waits for the GPU Operator's toolkit, on a real kubelet: `make e2e-kubernetes`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.conftest import GPUS
from tests.e2e.kubernetes.release import CHART, NAMESPACE, RELEASE, exporter, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for


@pytest.fixture
def validations(cluster: Cluster) -> Path:
    """A shared mount, as /run is on a node with systemd: what is mounted there later is to be seen in the pod."""
    folder = cluster.home / "validations"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    subprocess.run(["mount", "--make-shared", str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> Path:
    return release.default_values(cluster)


def waiting(cluster: Cluster) -> dict[str, Any]:
    found = exporter(cluster)
    if not any("running" in each["state"] for each in found["status"].get("initContainerStatuses", ())):
        raise NotYetError(found["status"])
    return found


def test_pod_waits_for_the_toolkit_and_ends_when_asked_meanwhile(
    cluster: Cluster, values: Path, validations: Path
) -> None:
    # Without the host's process ids, where the waiting program is the first process of its container.
    alone = "attribution.processes.enabled=false,attribution.pods.enabled=false,terminationGracePeriodSeconds=600"
    given = f"gpuOperator.waitForToolkit=true,gpuOperator.validationsDir={validations},{alone}"
    cluster.helm("install", RELEASE, CHART, "-n", NAMESPACE, "-f", str(values), "--set", given)
    first = wait_for(lambda: waiting(cluster))["metadata"]
    said = cluster.kubectl("logs", "-n", NAMESPACE, first["name"], "-c", "wait-for-toolkit")
    assert "waiting for /run/nvidia/validations/toolkit-ready" in said
    cluster.kubectl("delete", "pod", "-n", NAMESPACE, first["name"], "--timeout=120s")  # of 600 that it may take

    second = wait_for(lambda: waiting(cluster))["metadata"]
    assert second["uid"] != first["uid"]
    (validations / "toolkit-ready").touch()

    def served() -> list[str]:
        found = sorted(labels["uuid"] for labels, _ in samples(metrics(cluster), "gpu_info"))
        if not found:  # it answers before its first cycle has ended
            raise NotYetError("no GPU is shown yet")
        return found

    assert wait_for(served) == sorted(GPUS)
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
