"""What attribution costs: the CPU time of a cycle over 1,000 processes in jobs, pods and units.

Run it by itself: `python tests/bench/attribution.py`. It prints figures and checks none.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.owner import Ownership
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.source import Slurm, SlurmSite
from exporter.host.model import HostProcess
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import gpu, until

GPUS = tuple(gpu(number) for number in range(8))
PROCESSES, JOBS, PODS, UNITS, CYCLES = 1000, 40, 40, 20, 300


def processes() -> dict[int, HostProcess]:
    """A third each in jobs, in pods and in units; a cgroup file of v1 as long as they get."""
    found: dict[int, HostProcess] = {}
    for pid in range(1000, 1000 + PROCESSES):
        kind, number = pid % 3, pid // 3
        path = (
            f"/slurm/uid_1000/job_{number % JOBS + 1}/step_{number % 4}/task_0",
            f"/kubepods/burstable/pod{number % PODS:08x}-fdcc-454b-97bd-aadfdeb4c340/{number % PODS:064x}",
            f"/system.slice/service-{number % UNITS}.service",
        )[kind]
        lines = "".join(
            f"{line}:{name}:{path}\n" for line, name in enumerate(("freezer", "devices", "memory", "cpu,cpuacct"), 2)
        )
        found[pid] = HostProcess(pid, "python3", "alice", float(pid), 1.0, 1 << 20, f"{lines}1:name=systemd:/\n0::/\n")
    return found


def main() -> None:
    hosts = processes()
    placed = {target.uuid: [pid for pid in hosts if pid % 8 == target.index] for target in GPUS}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        mapping = root / "map"
        mapping.mkdir()
        for index in range(8):
            (mapping / str(index)).write_text("".join(f"{job}\n" for job in range(1, JOBS + 1) if job % 8 == index))
        site = SlurmSite(cgroupfs=root / "cgroup", gres_conf=root / "gres.conf", mapping=mapping)
        slurm = Slurm(site, lambda job: Job(job, "alice", "physics", "gpu", "train"))
        pods = [
            GivenPod("ml", f"pod-{number}", "main", [f"{GPUS[number % 8].uuid}::{number}"]) for number in range(PODS)
        ]
        with Kubelet(root / "kubelet.sock", pods):
            kubernetes = Kubernetes(KubernetesSite(root / "kubelet.sock", required=True))
            joined = attribution_of(Parts(kubernetes, slurm))
            joined.start()
            cold = _timed(lambda: joined.join(GPUS, placed, hosts, time.monotonic()))
            until(lambda: len(_workloads(joined.join(GPUS, placed, hosts, time.monotonic()))) == JOBS + PODS + UNITS)
            took = [_timed(lambda: joined.join(GPUS, placed, hosts, time.monotonic())) for _ in range(CYCLES)]
            ownership = joined.join(GPUS, placed, hosts, time.monotonic())
            joined.stop()
    owners = _workloads(ownership)
    ninety_ninth = sorted(took)[-max(1, CYCLES // 100)]
    sys.stdout.write(
        f"{PROCESSES} processes of {len(owners)} owners on {len(GPUS)} GPUs, CPU time of one cycle:\n"
        f"  first {cold * 1e3:.1f} ms; warm {statistics.median(took) * 1e3:.2f} ms median, "
        f"{ninety_ninth * 1e3:.2f} ms at the 99th percentile of {CYCLES}\n"
    )


def _workloads(ownership: Ownership) -> set[str]:
    return {owner.workload for owner in ownership.processes.values()}


def _timed(act: Callable[[], object]) -> float:
    start = time.thread_time()
    act()
    return time.thread_time() - start


if __name__ == "__main__":
    main()
