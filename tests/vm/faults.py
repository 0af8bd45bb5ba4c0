"""What happens to nodes: a full disk, a reboot in the middle of a job, a slurmd and an epilog that are killed."""

from __future__ import annotations

from tests.vm.machine import Machine
from tests.vm.site import (
    JOBS,
    METRICS,
    allocate,
    cancel,
    driver_is_quiet,
    driver_says,
    free,
    held,
    idle,
    serves,
)

_FILL = "mount -t tmpfs -o size=64k,mode=750,gid=$(id -g gpu-exporter){} full {}; head -c 1M /dev/zero > {}/.filler"


def test_full_disk_fails_no_job_and_leaves_no_half_file(vm: Machine) -> None:
    idle(vm)
    vm.run(_FILL.format("", JOBS, JOBS), check=False)
    printed = vm.run("sbatch -W -o /dev/null --gres=gpu:1 --mem=100 --wrap true")
    left = vm.run(f"ls -A {JOBS}; umount {JOBS}").split()

    assert "Submitted" in printed
    assert left == [".filler"]
    idle(vm)


def test_full_disk_under_the_service_costs_no_reading(vm: Machine) -> None:
    state = "/var/lib/gpu-exporter"
    vm.run("systemctl stop gpu-exporter")
    vm.run(_FILL.format(",uid=$(id -u gpu-exporter)", state, state), check=False)
    try:
        vm.run("systemctl start gpu-exporter")
        serves(vm)
        driver_says(vm, {"gpu1.lost": 1})
        vm.becomes("No space left", "journalctl -u gpu-exporter -q --no-pager -p warning")
        driver_is_quiet(vm)
        serves(vm)
    finally:
        vm.run(f"systemctl stop gpu-exporter; umount {state}; systemctl start gpu-exporter")
        serves(vm)


def test_epilog_that_is_killed_leaves_no_ghost(vm: Machine) -> None:
    """One that does nothing leaves what a killed one leaves: the job's file."""
    job = allocate(vm)
    held(vm, job)
    epilog = "/etc/slurm/epilog.d/gpu-exporter"
    vm.run(f"cp {epilog} /run/epilog.kept; echo '#!/bin/sh' > {epilog}")
    try:
        vm.run(f"scancel {job}")
        free(vm, job)
        assert f"job_{job}" in vm.run(f"ls {JOBS}")
        vm.becomes(r'attribution_stale\{source="slurm_steps"\} 1', METRICS)
        assert f"job {job} still has its prolog's file" in vm.run("journalctl -u gpu-exporter -q --no-pager -p warning")
    finally:
        vm.run(f"cp /run/epilog.kept {epilog}; rm -f {JOBS}/job_{job}")


def test_slurmd_that_is_killed_takes_no_job_from_its_owner(vm: Machine) -> None:
    job = allocate(vm)
    held(vm, job)
    vm.run("systemctl kill -s KILL --kill-whom=main slurmd")
    held(vm, job)
    vm.run("systemctl reset-failed slurmd; systemctl start slurmd")
    held(vm, job)
    cancel(vm, job)


def test_reboot_in_the_middle_of_a_job_leaves_no_ghost(vm: Machine) -> None:
    job = allocate(vm)
    held(vm, job)
    vm.reboot()
    serves(vm, 900)
    free(vm, job)
    cancel(vm, job)
    idle(vm)
