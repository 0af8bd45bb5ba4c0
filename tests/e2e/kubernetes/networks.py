"""What the exporter's container may do with the network of another pod: `make e2e-kubernetes`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.release import NAMESPACE, RELEASE, deploy, exporter

ENTER = """\
import pathlib, sys
sys.path.insert(0, "/opt/gpu-exporter")
from exporter.host.namespace import run_in_network_namespace, shares_network_namespace

def addresses():
    with open("/proc/thread-self/net/fib_trie") as table:
        return table.read()

pid = int(sys.argv[1])
proc = pathlib.Path("/proc")
print(shares_network_namespace(proc, pid), sys.argv[2] in run_in_network_namespace(proc, pid, addresses, 10.0))
"""


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> Path:
    return release.default_values(cluster)


def entered(cluster: Cluster, pid: int, address: str) -> str:
    name = exporter(cluster)["metadata"]["name"]
    return cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", ENTER, str(pid), address).strip()


def test_network_of_a_pod_is_entered_with_the_switch_alone(
    cluster: Cluster, values: Path, workloads: dict[str, list[int]]
) -> None:
    address = cluster.get("pod", "train", "-n", "team-a")["status"]["podIP"]
    pid = workloads["train"][0]

    deploy(cluster, values)
    with pytest.raises(subprocess.CalledProcessError, match="non-zero exit status") as refused:
        entered(cluster, pid, address)
    assert "PermissionError" in refused.value.stderr

    deploy(cluster, values, "--set", "nccl.ras.enabled=true")
    assert entered(cluster, pid, address) == "False True"
    spec = exporter(cluster)["spec"]["containers"][0]["securityContext"]
    assert spec["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_PTRACE"]}
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
