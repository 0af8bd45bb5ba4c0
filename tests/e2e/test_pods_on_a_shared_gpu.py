"""Two pods on one GPU: the exporter itself, a kubelet over gRPC, real processes in cgroups named as pods' are."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from tests.attribution_kit.exporter import exporting, owner_of, series, shown_holders
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import becomes
from tests.fake_nvml.fixture import FakeNvml
from tests.fake_nvml.scenario import GIB, node, uuid

MOUNTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
MOUNT = next((at for at in MOUNTS if (at / "cgroup.procs").exists()), None)
BOTH, ONE = ("2fc932ce-fdcc-454b-97bd-aadfdeb4c340", "77777777-fdcc-454b-97bd-aadfdeb4c340")


@contextlib.contextmanager
def pod_process(uid: str) -> Iterator[int]:
    """Pid of a process in the cgroup of a container of that pod."""
    if MOUNT is None:
        pytest.skip("no cgroup v2 is mounted here")
    top = MOUNT / f"kubepods-test-{os.getpid()}"
    container = top / f"pod{uid}" / ("ab" * 32)
    container.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as process:
        (container / "cgroup.procs").write_text(str(process.pid))
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()
            for folder in (container, container.parent):
                folder.rmdir()
            with contextlib.suppress(OSError):  # the other pod's is still there
                top.rmdir()


def pod(name: str) -> Owner:
    return Owner(f"ml/Pod/{name}", "pod", namespace="ml", pod=name, container="main")


def memory_by_owner(url: str) -> dict[Owner, float]:
    return {owner_of(each): each.value for each in series(url, "gpu_workload_memory_bytes")}


def test_shares_sum_to_one_and_each_pod_has_its_own_memory_and_utilization(
    fake_nvml: Callable[..., FakeNvml], tmp_path: Path
) -> None:
    given = [
        GivenPod("ml", "both", "main", [f"{uuid(0)}::0", f"{uuid(1)}::0"]),
        GivenPod("ml", "one", "main", [f"{uuid(0)}::1", f"{uuid(0)}::2"]),
    ]
    options = {
        "attribution.slurm": "off",
        "attribution.kubernetes": tmp_path / "kubelet.sock",
    }
    with pod_process(BOTH) as first, pod_process(ONE) as second, Kubelet(tmp_path / "kubelet.sock", given):
        fake = fake_nvml(
            {
                **node(2),
                "gpu0.process.0": f"{first} C {GIB} 60 10 0 0",
                "gpu0.process.1": f"{second} C {3 * GIB} 20 10 0 0",
                "gpu1.process.0": f"{first} C {5 * GIB} 40 10 0 0",
            }
        )
        both, one = pod("both"), pod("one")
        with exporting(options, fake.environment, tmp_path) as url:
            becomes({uuid(0): {both, one}, uuid(1): {both}}, lambda: shown_holders(url))
            # A process is named by a list of the kubelet that is younger than it: from the second cycle on.
            becomes({both: 6 * GIB, one: 3 * GIB}, lambda: memory_by_owner(url))
            shares = {(each.labels["gpu"], owner_of(each)): each.value for each in series(url, "gpu_allocation_ratio")}
            used = {
                (each.labels["gpu"], owner_of(each)): each.value
                for each in series(url, "gpu_process_utilization_ratio")
                if each.labels["engine"] == "sm"
            }

    assert shares == pytest.approx({("0", both): 1 / 3, ("0", one): 2 / 3, ("1", both): 1.0})
    assert used == pytest.approx({("0", both): 0.6, ("0", one): 0.2, ("1", both): 0.4})
