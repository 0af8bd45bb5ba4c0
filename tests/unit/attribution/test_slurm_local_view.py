"""What slurmd's device program lets a job open, as devices."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm import device_program
from exporter.attribution.slurm.device_program import Rule, refusal
from exporter.attribution.slurm.local_view import DevicePrograms, LocalFiles, SlurmSite, allowed, runs_program

MINORS = """\
config 1
gpu0/gi1/access 12
gpu0/gi1/ci0/access 13
gpu0/gi2/access 21
gpu0/gi2/ci0/access 22
"""


def test_whole_gpus_are_by_minor(tmp_path: Path) -> None:
    rules = (Rule(195, 2, allowed=True), Rule(195, 3, allowed=False), Rule(10, 4, allowed=True))

    assert allowed(rules, tmp_path) == {DeviceName(minor=2): None}


def test_of_a_gpu_cut_by_mig_the_instances_count(tmp_path: Path) -> None:
    """The major of the capability nodes is dynamic: /proc/devices has it."""
    (tmp_path / "driver/nvidia-caps").mkdir(parents=True)
    (tmp_path / "driver/nvidia-caps/mig-minors").write_text(MINORS)
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n")
    rules = [Rule(195, 0, allowed=True), Rule(195, 1, allowed=True)]
    rules += [Rule(237, 21, allowed=True), Rule(237, 22, allowed=True), Rule(237, 12, allowed=False)]

    assert allowed(rules, tmp_path) == {
        DeviceName(minor=1): None,
        DeviceName(minor=0, gpu_instance=2, compute_instance=0): None,
    }


@pytest.mark.parametrize(
    ("capabilities", "told"), [("0000000000000000", False), ("0000000000200000", True), ("000001ffffffffff", True)]
)
def test_refusal_is_told_where_the_right_was_given_in_vain(tmp_path: Path, capabilities: str, told: bool) -> None:  # noqa: FBT001 - a parameter
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")

    assert ("CAP_NET_ADMIN" in refusal(tmp_path / "status")) == told


def test_job_of_a_sluid_is_that_of_its_steps_slurmstepd(tmp_path: Path) -> None:
    job = "/system.slice/slurmstepd.scope/s8FXKTA79XAR00"
    step, process = tmp_path / f"cgroup{job}/step_batch/slurm", tmp_path / "proc/41"
    step.mkdir(parents=True)
    process.mkdir(parents=True)
    (tmp_path / "cgroup/cgroup.controllers").touch()
    (step / "cgroup.procs").write_text("41\n")
    (process / "cmdline").write_text("slurmstepd: [4711.batch]\0")

    def bpf(_: int, __: ctypes.Array[ctypes.c_char]) -> int:
        raise PermissionError(1, "not permitted")

    site = SlurmSite(tmp_path / "proc", tmp_path / "cgroup", tmp_path / "gres.conf")
    found = LocalFiles(site, bpf, str).read(frozenset(), lambda _: None)

    assert (found.sluids, found.cgroups) == ({"s8FXKTA79XAR00": "4711"}, {"4711": job})


def test_kernel_that_refuses_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job_7").mkdir()
    monkeypatch.setattr(device_program, "refusal", lambda: "refused")
    asked: list[int] = []

    def bpf(command: int, _: ctypes.Array[ctypes.c_char]) -> int:
        asked.append(command)
        raise PermissionError(1, "not permitted")

    programs = DevicePrograms(SlurmSite(cgroupfs=tmp_path), bpf)
    told = [programs.read({"7": "/job_7"}) for _ in range(2)]

    assert (told, programs.error, len(asked)) == ([{}, {}], "refused", 1)


@pytest.mark.parametrize(
    ("folder", "command", "arguments", "expected"),
    [
        ("step_extern/user/task_special", "sleep", "sleep\x00100000000\x00", False),
        ("step_extern/user/task_0", "sshd", "sshd: alice\x00", True),
        ("step_0/user/task_0", "sleep", "sleep\x00100000000\x00", True),
        ("step_batch/slurm", "slurmstepd", "slurmstepd: [7.batch]\x00", False),
        ("step_batch/user/task_0", "slurm_script", "/bin/bash\x00/var/spool/slurmd/job00007/slurm_script\x00", False),
        ("step_batch/user/task_0", "srun", "srun\x00./train\x00", False),
        ("step_0/user/task_0", "python3", "python3\x00train.py\x00", True),
    ],
)
def test_runs_program_with_slurms_own_helpers_alone_is_false(
    tmp_path: Path, folder: str, command: str, arguments: str, *, expected: bool
) -> None:
    job = "/system.slice/slurmstepd.scope/job_7"
    cgroup, process = Path(f"{tmp_path}/cgroup{job}/{folder}"), tmp_path / "proc/70"
    cgroup.mkdir(parents=True)
    process.mkdir(parents=True)
    (tmp_path / "cgroup/cgroup.controllers").write_text("")
    (cgroup / "cgroup.procs").write_text("70\n")
    (process / "comm").write_text(f"{command}\n")
    (process / "cmdline").write_text(arguments)

    assert runs_program(tmp_path / "cgroup", tmp_path / "proc", job) is expected
