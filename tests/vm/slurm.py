"""Slurm as sites have it, with pure cgroup v2 and ConstrainDevices: who holds which GPU, by each source."""

from __future__ import annotations

import pytest

from tests.vm.machine import Machine
from tests.vm.site import (
    JOBS,
    METRICS,
    allocate,
    cancel,
    driver_is_quiet,
    driver_says,
    drop_in,
    held,
    idle,
    serves,
    without_drop_in,
)

_PROGRAM = "sleep 3000"


def batch(vm: Machine) -> tuple[str, int]:
    """A job of another user's with a program on one GPU: its id, and the program's pid."""
    idle(vm)
    job = vm.run(f"sbatch --parsable --uid=nobody -o /dev/null --gres=gpu:1 --mem=100 --wrap 'exec {_PROGRAM}'").strip()
    pid = vm.becomes(r"^\d+", f"pgrep -u nobody -f -x '{_PROGRAM}'").split()[0]
    return job, int(pid)


def test_devices_of_others_are_out_of_a_jobs_reach(vm: Machine) -> None:
    """What constrains jobs here is slurmd's device program, and the job's own GPU answers: ENXIO without a driver."""
    idle(vm)
    script = 'for gpu in 0 1; do sh -c ": </dev/nvidia$gpu"; done >/tmp/said 2>&1; true'
    vm.run(f"sbatch -Q -W -o /dev/null --gres=gpu:1 --mem=100 --wrap '{script}'")
    said = vm.run("cat /tmp/said; rm /tmp/said")

    assert "No such device" in said
    assert "not permitted" in said


def test_idle_allocation_is_the_jobs_by_the_prologs_file_and_pressure_is_its_cgroups(vm: Machine) -> None:
    job = allocate(vm)
    held(vm, job)

    assert f"SLURM_JOB_ID={job}" in vm.run(f"cat {JOBS}/job_{job}")
    assert f"/job_{job}" in vm.run("find /sys/fs/cgroup/system.slice -maxdepth 3 -name 'job_*'")
    vm.becomes(rf'gpu_workload_pressure_seconds_total\{{.*slurm_job="{job}"', METRICS)
    assert "denied" in vm.run(f"setpriv --reuid nobody --clear-groups ls {JOBS}", check=False)
    cancel(vm, job)
    assert vm.run(f"ls {JOBS}").strip() == ""


def test_program_of_a_job_is_the_jobs_with_its_user_and_its_cpu_and_memory(vm: Machine) -> None:
    job, pid = batch(vm)
    gpu = "1" if "SLURM_JOB_GPUS=1" in vm.run(f"cat {JOBS}/job_{job}") else "0"
    driver_says(vm, {f"gpu{gpu}.process.0": f"{pid} C 1073741824 40 10 0 0", f"gpu{gpu}.utilization": 40})
    vm.becomes(rf'gpu_process_memory_bytes\{{[^}}]*pid="{pid}"[^}}]*slurm_job="{job}"[^}}]*user="nobody"', METRICS)
    for name in ("cpu_seconds_total", "resident_memory_bytes", "memory_limit_bytes"):
        vm.becomes(rf'gpu_workload_{name}\{{[^}}]*slurm_job="{job}"', METRICS)
    driver_is_quiet(vm)
    cancel(vm, job)


def test_hidepid_takes_no_program_from_the_service(vm: Machine) -> None:
    """Other users see none of them any more; systemd gives the unit, for its sandbox, a /proc of its own."""
    job, pid = batch(vm)
    driver_says(vm, {f"gpu{gpu}.process.0": f"{pid} C 1073741824 40 10 0 0" for gpu in (0, 1)})
    vm.run("mount -o remount,hidepid=2 /proc")
    try:
        as_service = "setpriv --reuid gpu-exporter --regid gpu-exporter --clear-groups"
        assert "No such file" in vm.run(f"{as_service} ls /proc/{pid}", check=False)
        vm.run("systemctl restart gpu-exporter")
        vm.becomes(rf'gpu_process_memory_bytes\{{[^}}]*pid="{pid}"[^}}]*slurm_job="{job}"[^}}]*user="nobody"', METRICS)
        vm.becomes("^gpu_exporter_unattributed_processes 0", METRICS)
    finally:
        vm.run("mount -o remount,hidepid=0 /proc")
        driver_is_quiet(vm)
        cancel(vm, job)


@pytest.mark.parametrize(("capabilities", "success"), [("CAP_SYS_ADMIN", "0"), ("CAP_SYS_ADMIN CAP_NET_ADMIN", "1")])
def test_device_program_tells_an_idle_allocation_with_the_capabilities_that_are_written(
    vm: Machine, capabilities: str, success: str
) -> None:
    """Linux 6.1 wants CAP_NET_ADMIN too; without it the source says that it fails."""
    rights = (f"CapabilityBoundingSet={capabilities}", f"AmbientCapabilities={capabilities}", "SystemCallFilter=bpf")
    job = allocate(vm)
    vm.run(f"rm {JOBS}/job_{job}")
    drop_in(vm, *rights, "Environment=GPU_EXPORTER_SLURM_SCONTROL=")
    try:
        vm.becomes(rf'attribution_success\{{source="slurm_device_program"\}} {success}', METRICS)
        if success == "1":
            held(vm, job)
    finally:
        without_drop_in(vm)
        serves(vm)
        cancel(vm, job)
