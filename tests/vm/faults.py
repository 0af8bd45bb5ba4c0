"""What happens to nodes: a full disk, a reboot in the middle of a job, a slurmd and an epilog that are killed."""

from __future__ import annotations

from collections.abc import Callable

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

_PASSES = f"{METRICS} | sed -n 's/^gpu_exporter_sampling_cycles_total \\([0-9]*\\).*/\\1/p'"
_IN_A_MINUTE = f"a=$({_PASSES}); t=$(date +%s); sleep 60; b=$({_PASSES}); echo $(((b - a) * 60 / ($(date +%s) - t)))"
_COMPUTE = "for n in $(seq 32); do while :; do :; done & done; wait"
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


def test_jobs_that_use_every_core_leave_the_service_its_cycles(
    vm: Machine, record_property: Callable[[str, object], None]
) -> None:
    """Beside 32 programs that compute. As one of them, without a weight of its own, it would have 3 % of the core."""
    serves(vm)
    found = {"quiet": int(vm.run(_IN_A_MINUTE))}
    vm.run(f"systemd-run -q --unit=compute sh -c '{_COMPUTE}'")
    try:
        assert vm.run("cat /sys/fs/cgroup/system.slice/gpu-exporter.service/cpu.weight").strip() == "500"
        found["beside them"] = int(vm.run(_IN_A_MINUTE))
        vm.run("systemctl set-property --runtime gpu-exporter CPUWeight=3")
        found["as one of them"] = int(vm.run(_IN_A_MINUTE))
    finally:
        vm.run("systemctl stop compute; systemctl revert gpu-exporter; systemctl daemon-reload", check=False)
        serves(vm)
    record_property("cycles in a minute", found)
    assert found["beside them"] + 1 >= found["as one of them"], found


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
        vm.becomes(r'attribution_ended_jobs\{source="slurm_steps"\} 1', METRICS)
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
