"""What the machine is given, and how one talks to what runs there: a node with two GPUs, Slurm and the package."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.fake_nvml.build import SONAME, build
from tests.fake_nvml.scenario import Scenario, Value, node
from tests.vm.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
METRICS = "curl -sf localhost:9836/metrics"
KIT = "/usr/lib/gpu-exporter/slurm"
JOBS = "/run/gpu-exporter/jobs"
SETTINGS = "/etc/default/gpu-exporter"
DROP_IN = "/etc/systemd/system/gpu-exporter.service.d"
DEADLINE = 800.0
"""Seconds for what takes a second or two on a machine that is not emulated, on a busy host."""
INSTALL_SECONDS = 1800.0
"""The package compiles its code."""

_SLURM = """\
ClusterName=vm
SlurmctldHost=node1(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ReturnToService=2
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0
KillWait=1
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
PrologFlags=Alloc,Contain
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
JobAcctGatherType=jobacct_gather/cgroup
GresTypes=gpu
SlurmdParameters=config_overrides
MessageTimeout=60
NodeName=node1 NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 Gres=gpu:fake:2
PartitionName=gpu Nodes=node1 Default=YES MaxTime=INFINITE State=UP
"""
_FILES: Mapping[str, str] = {
    "slurm.conf": _SLURM,
    "gres.conf": "Name=gpu Type=fake File=/dev/nvidia[0-1]\n",
    "cgroup.conf": "CgroupPlugin=autodetect\nConstrainDevices=yes\nConstrainCores=yes\nConstrainRAMSpace=yes\n",
    "devices.conf": "c /dev/nvidia0 0666 root root - 195:0\nc /dev/nvidia1 0666 root root - 195:1\n",
    "settings": (
        "LD_LIBRARY_PATH=/opt/driver\nFAKE_NVML_SCENARIO=/opt/driver/scenario\n"
        "GPU_EXPORTER_SAMPLE_INTERVAL=4s\n"  # an emulated machine is slow
    ),
}
INSTALL = f"""\
set -e
mkdir -p /opt/driver /etc/slurm/prolog.d /etc/slurm/epilog.d
mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm
cp /in/{SONAME} /in/scenario /opt/driver; chmod -R a+rX /opt/driver
cp /in/slurm.conf /in/gres.conf /in/cgroup.conf /etc/slurm; cp /in/devices.conf /etc/tmpfiles.d/devices.conf
systemd-tmpfiles --create devices.conf
dpkg -i /in/gpu-exporter.deb
cat /in/settings >> {SETTINGS}
for hook in prolog epilog; do cp {KIT}/$hook.d/gpu-exporter /etc/slurm/$hook.d/; done
key=/etc/munge/munge.key
[ -s $key ] || (umask 077; head -c 1024 /dev/urandom > $key; chown munge: $key)
systemctl enable --now munge slurmctld slurmd gpu-exporter
"""


def prepare(given: Path, scratch: Path) -> None:
    """Put into `given` what the machine finds in /in: the package, the driver and Slurm's files."""
    subprocess.run([ROOT / "deploy/package/build.sh", scratch], check=True)
    shutil.copy(next(scratch.glob("*.deb")), given / "gpu-exporter.deb")
    shutil.copy(build() / SONAME, given)
    Scenario(given / "scenario", {**node(2), "gpu.utilization": 0})
    for name, text in _FILES.items():
        (given / name).write_text(text)


def idle(vm: Machine) -> None:
    """Wait until the node takes jobs."""
    vm.becomes(r"^idle$", "sinfo -h -o %t")


def allocate(vm: Machine) -> str:
    """An allocation of one GPU in which nothing runs; its id."""
    idle(vm)
    vm.run("salloc -Q --no-shell --gres=gpu:1 --mem=100 -J held")
    return vm.run("squeue -h -n held -o %A").strip()


def held(vm: Machine, job: str, seconds: float = DEADLINE) -> None:
    vm.becomes(rf'gpu_allocation_ratio\{{[^}}]*slurm_job="{job}"[^}}]*\}} 1', METRICS, seconds)


def free(vm: Machine, job: str, seconds: float = DEADLINE) -> None:
    """A service that does not answer frees nobody."""
    counted = f"grep -c 'gpu_allocation_ratio.*slurm_job=\"{job}\"'"
    vm.becomes(r"^0$", f'page=$({METRICS}) && {{ echo "$page" | {counted} || true; }}', seconds)


def serves(vm: Machine, seconds: float = DEADLINE) -> None:
    vm.becomes(r'gpu_up\{gpu="1"[^}]*\} 1', METRICS, seconds)


def cancel(vm: Machine, job: str) -> None:
    vm.run(f"scancel {job}", check=False)
    free(vm, job)


def drop_in(vm: Machine, *lines: str) -> None:
    """Change the unit until `without_drop_in`, and start it anew."""
    text = "\\n".join(["[Service]", *lines])
    vm.run(f"mkdir -p {DROP_IN}; printf '{text}\\n' > {DROP_IN}/test.conf; systemctl daemon-reload")
    vm.run("systemctl restart gpu-exporter")


def without_drop_in(vm: Machine) -> None:
    vm.run(f"rm -rf {DROP_IN}; systemctl daemon-reload; systemctl reset-failed gpu-exporter; true")
    vm.run("systemctl restart gpu-exporter")
    serves(vm)


def driver_says(vm: Machine, changes: Mapping[str, Value]) -> None:
    """Change the fake driver's scenario until `driver_is_quiet`."""
    lines = "".join(f"{name} = {value}\\n" for name, value in changes.items())
    vm.run(f"cd /opt/driver && (cat /in/scenario; printf '{lines}') > new && mv new scenario")


def driver_is_quiet(vm: Machine) -> None:
    driver_says(vm, {})


def restarts(vm: Machine) -> int:
    return int(vm.run("systemctl show -p NRestarts --value gpu-exporter"))
