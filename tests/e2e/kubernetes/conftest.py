"""A cluster of one node with four fake H100s, its images, and a namespace of pods that use them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.cluster import TOOLS, Cluster, running
from tests.e2e.kubernetes.waiting import NotYetError, wait_for
from tests.fake_nvml import scenario
from tests.fake_nvml.build import SONAME, build

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
IMAGE = "localhost/gpu-exporter:e2e"
GPUS = [scenario.uuid(gpu) for gpu in range(4)]
EXCLUSIVE, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    # Not pytest's own folder: another run of pytest may delete that, mounts and all. And sockets want a short path.
    made = Path(tempfile.mkdtemp(prefix="gpu-e2e-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    if not any(f" {made}/" in line for line in Path("/proc/mounts").read_text().splitlines()):
        shutil.rmtree(made)


@pytest.fixture(scope="session")
def driver(home: Path) -> scenario.Scenario:
    """The fake driver's answers; edited while it runs."""
    folder = home / "driver"
    folder.mkdir(mode=0o755)
    shutil.copy(build() / SONAME, folder / SONAME)
    return scenario.Scenario(folder / "scenario", scenario.node(4))


@pytest.fixture(scope="session")
def runtime(home: Path, driver: scenario.Scenario) -> Path:
    """The fake nvidia runtime with its settings."""
    program = home / "nvidia_runtime.py"
    # containerd starts it with hardly any environment, where a version manager's `python3` does not work.
    _, _, body = (HERE / "nvidia_runtime.py").read_text().partition("\n")
    program.write_text(f"#!{Path(sys.executable).resolve()} -I\n{body}")
    program.chmod(0o755)
    settings = {
        "runc": str(TOOLS / "debian/usr/sbin/runc"),
        "mounts": {
            str(driver.path.parent / SONAME): f"/usr/lib/x86_64-linux-gnu/{SONAME}",
            str(driver.path.parent): "/run/fake-nvml",
        },
        "environment": {"FAKE_NVML_SCENARIO": "/run/fake-nvml/scenario"},
        "withheld": str(home / "driver-withheld"),
    }
    (home / "settings.json").write_text(json.dumps(settings))
    return program


@pytest.fixture(scope="session")
def images(home: Path) -> list[Path]:
    """The project's own image, and what holds a pod's namespaces."""
    exporter, pause = home / "exporter.tar", home / "pause.tar"
    subprocess.run([ROOT / "deploy/container/build.sh", exporter, IMAGE], check=True)
    context = home / "pause"
    context.mkdir()
    subprocess.run(["gcc", "-O1", "-static", "-o", context / "pause", HERE / "pause.c"], check=True)
    buildah = ("buildah", "--root", home / "store", "--runroot", home / "run", "--storage-driver", "vfs")
    name = "localhost/pause:1"
    containerfile = HERE / "pause.Containerfile"
    subprocess.run([*buildah, "build", "--isolation", "chroot", "-t", name, "-f", containerfile, context], check=True)
    subprocess.run([*buildah, "push", name, f"oci-archive:{pause}:{name}"], check=True)
    return [exporter, pause]


@pytest.fixture(scope="session")
def cluster(home: Path, runtime: Path, images: list[Path]) -> Iterator[Cluster]:
    with running(home, runtime, images) as made:
        made.kubectl("apply", "--server-side", "-f", str(TOOLS / "crds"))
        # Discovery knows the kinds a moment later. Until then `monitoring.enabled=auto` makes none of them.
        for kind in ("servicemonitors", "podmonitors", "prometheusrules"):
            wait_for(partial(made.kubectl, "get", f"{kind}.monitoring.coreos.com"), 60)
        made.kubectl("label", "node", "--all", "nvidia.com/gpu.present=true")
        yield made


def offer(cluster: Cluster, resource: str, ids: list[str]) -> None:
    """Devices of a device plugin that lives as long as the cluster."""
    cluster.processes[resource] = subprocess.Popen(
        [sys.executable, str(HERE / "device_plugin.py"), resource, *ids],
        env={**os.environ, "PYTHONPATH": str(TOOLS / "python")},
        start_new_session=True,
    )


@pytest.fixture(scope="session")
def plugins(cluster: Cluster) -> dict[str, list[str]]:
    """GPUs 0, 1 and 3 to be held whole; GPU 2 in two replicas, as NVIDIA's plugin names those."""
    offers = {EXCLUSIVE: [GPUS[0], GPUS[1], GPUS[3]], SHARED: [f"{GPUS[2]}::0", f"{GPUS[2]}::1"]}
    for resource, ids in offers.items():
        offer(cluster, resource, ids)

    def offered() -> None:
        (node,) = cluster.get("nodes")["items"]
        if (
            not {resource: str(len(ids)) for resource, ids in offers.items()}.items()
            <= node["status"]["allocatable"].items()
        ):
            raise NotYetError(node["status"]["allocatable"])

    wait_for(offered)
    return offers


def pod(name: str, resource: str, count: int) -> dict[str, Any]:
    """A pod that holds devices and sleeps."""
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python3", "-c", "import time\nwhile True: time.sleep(1)"],
        "resources": {"limits": {resource: str(count)}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"team": "vision"}},
        # No taint that a case puts on the node takes the pods of the others away.
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
        },
    }


@pytest.fixture(scope="session")
def workloads(cluster: Cluster, plugins: dict[str, list[str]], driver: scenario.Scenario) -> dict[str, list[int]]:
    """Host process ids by pod: `train` holds two GPUs, `first` and `second` share one; all show up in the driver."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    cluster.apply(pod("train", EXCLUSIVE, 2), pod("first", SHARED, 1), pod("second", SHARED, 1))
    cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", "pods", "--all", "--timeout=120s")
    pids = {name: _pids(cluster, name) for name in ("train", "first", "second")}
    held = _held(cluster)
    assert set(held) <= {GPUS.index(uuid) for uuid in plugins[EXCLUSIVE]}
    rows: dict[str, scenario.Value] = {}
    for number, (name, gpu) in enumerate([*(("train", gpu) for gpu in held), ("first", 2), ("second", 2)]):
        rows[f"gpu{gpu}.process.{number}"] = f"{pids[name][0]} C {scenario.GIB} 30 10 0 0"
    driver.set(rows)
    return pids


def _pids(cluster: Cluster, name: str) -> list[int]:
    uid = cluster.get("pod", name, "-n", "team-a")["metadata"]["uid"]
    found = sorted(Path("/sys/fs/cgroup/pids/kubepods").glob(f"**/pod{uid}/*/cgroup.procs"))
    names = {
        int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for each in found for pid in each.read_text().split()
    }
    return [pid for pid, command in names.items() if command.startswith("python")]


def _held(cluster: Cluster) -> list[int]:
    """Which two of the three the kubelet gave to `train`: the plugin's answer put them into its environment."""
    given = cluster.kubectl(
        "exec", "-n", "team-a", "train", "--", "python3", "-c", "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])"
    )
    return [GPUS.index(uuid) for uuid in given.strip().split(",")]
