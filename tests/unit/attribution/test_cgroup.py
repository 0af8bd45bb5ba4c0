"""Every cgroup layout we know of, as a table; a path that is not one of them must yield nothing."""
# ruff: noqa: E501 - a table is read in rows

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.cgroup import Cgroup, parse, parse_path

A = "3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc"
B = "aaefb9d8feed2d453b543f6d928cede7a4dbefa6a0ae7c9b990dd234c56e93b9"
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
SLICE = POD.replace("-", "_")
STATIC = "8f6a44fc62e8cb075753c843896568ca"

G, BU, BE = "guaranteed", "burstable", "besteffort"
APP = "/user.slice/user-1000.slice/user@1000.service"
KUBE = "/kubepods.slice"
STEPD = "/system.slice/slurmstepd.scope"

# fmt: off
SLURM = [
    # Slurm 22.05, cgroup v1, built to run several slurmd (Debian)
    ("/slurm_vm/uid_1001/job_1/step_batch/task_0", {"job": "1", "step": "batch", "job_uid": "1001", "node": "vm"}),
    ("/slurm_vm/uid_1001/job_1/step_0", {"job": "1", "step": "0", "job_uid": "1001", "node": "vm"}),
    ("/slurm_vm/uid_1001/job_1", {"job": "1", "job_uid": "1001", "node": "vm"}),
    ("/slurm_n2/uid_1002/job_4/step_extern", {"job": "4", "step": "extern", "job_uid": "1002", "node": "n2"}),
    ("/slurm_vm/uid_1002/job_1/step_0/task_0", {"job": "1", "step": "0", "job_uid": "1002", "node": "vm"}),
    # the same, cgroup v2
    ("/system.slice/vm_slurmstepd.scope/job_3009/step_batch/user/task_0", {"job": "3009", "step": "batch", "node": "vm"}),
    ("/system.slice/vm_slurmstepd.scope/job_3010/step_extern/user/task_special", {"job": "3010", "step": "extern", "node": "vm"}),
    ("/system.slice/vm_slurmstepd.scope/job_3008/step_batch/slurm", {"job": "3008", "step": "batch", "node": "vm"}),
    # other builds
    ("/slurm/uid_1000/job_4824887", {"job": "4824887", "job_uid": "1000"}),
    ("/slurm/uid_1000/job_211/step_extern/task_0", {"job": "211", "step": "extern", "job_uid": "1000"}),
    (f"{STEPD}/job_1320003/step_0/user/task_0", {"job": "1320003", "step": "0"}),
    (f"{STEPD}/job_211/step_interactive", {"job": "211", "step": "interactive"}),
    ("/system.slice/node0_slurmstepd.scope/job_211/step_extern/user/task_0", {"job": "211", "step": "extern", "node": "node0"}),
    # 26.05 and newer: SLUIDs
    (f"{STEPD}/s8FXKTA79XAR00/step_batch", {"sluid": "s8FXKTA79XAR00", "step": "batch"}),
    (f"{STEPD}/sEKNKTV3WPV500/step_0/user/task_0", {"sluid": "sEKNKTV3WPV500", "step": "0"}),
    # seen from another cgroup namespace
    (f"/../../../..{STEPD}/job_1/step_0/user/task_0", {"job": "1", "step": "0"}),
    # removed before the last process was reaped (version 2)
    (f"{STEPD}/job_1 (deleted)", {"job": "1"}),
]
PODS = [
    # seen from another cgroup namespace: the QoS directory may be out of sight
    (f"/../../pod{POD}/{A}", {"pod": POD, "container": A}),
    (f"/../../../kubepods-besteffort-pod{SLICE}.slice/cri-containerd-{A}.scope", {"pod": POD, "container": A, "runtime": "cri-containerd"}),
    # cgroupfs driver
    (f"/kubepods/pod{POD}/{A}", {"pod": POD, "container": A}),
    (f"/kubepods/burstable/pod{POD}/{A}", {"pod": POD, "container": A}),
    (f"/kubepods/besteffort/pod{POD}", {"pod": POD}),
    (f"/kubepods/burstable/pod{STATIC}/{A}", {"pod": STATIC, "container": A}),
    (f"/kubelet/kubepods/besteffort/pod{POD}/{A}", {"pod": POD, "container": A}),
    (f"/kubepods/burstable/pod{POD}/crio-{A}", {"pod": POD, "container": A, "runtime": "crio"}),
    # systemd driver
    (f"{KUBE}/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-{B}.scope", {"pod": POD, "container": B, "runtime": "cri-containerd"}),
    (f"{KUBE}/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE}.slice/crio-{A}.scope", {"pod": POD, "container": A, "runtime": "crio"}),
    (f"{KUBE}/kubepods-pod{SLICE}.slice/crio-{A}.scope/container", {"pod": POD, "container": A, "runtime": "crio"}),
    (f"{KUBE}/kubepods-pod{SLICE}.slice/docker-{A}.scope", {"pod": POD, "container": A, "runtime": "docker"}),
    (f"{KUBE}/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/cri-containerd-{A}.scope", {"pod": STATIC, "container": A, "runtime": "cri-containerd"}),
    (f"{KUBE}/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/crio-conmon-{A}.scope", {"pod": POD}),
    (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{SLICE}.slice/cri-containerd-{A}.scope", {"pod": POD, "container": A, "runtime": "cri-containerd"}),
    # runtime and kubelet disagree about the driver
    (f"/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{A}", {"pod": POD, "container": A, "runtime": "cri-containerd"}),
    # kind: the node is a container itself
    (f"/system.slice/docker-{B}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{SLICE}.slice/cri-containerd-{A}.scope", {"pod": POD, "container": A, "runtime": "cri-containerd"}),
    # Slurm inside a pod: both
    (f"{KUBE}/kubepods-pod{SLICE}.slice/cri-containerd-{A}.scope{STEPD}/job_7/step_0/user/task_0", {"job": "7", "step": "0", "pod": POD, "container": A, "runtime": "cri-containerd"}),
]
CONTAINERS = [
    (f"/docker/{A}", {"container": A, "runtime": "docker"}),
    (f"/system.slice/docker-{A}.scope", {"container": A, "runtime": "docker"}),
    (f"/system.slice/docker-{A}.scope/init", {"container": A, "runtime": "docker"}),
    (f"/system.slice/docker-{A}.scope (deleted)", {"container": A, "runtime": "docker"}),
    (f"{APP}/user.slice/docker-{A}.scope", {"container": A, "runtime": "docker", "login": "1000"}),
    (f"/system.slice/nerdctl-{A}.scope", {"container": A, "runtime": "nerdctl"}),
    (f"/default/{A}", {"container": A}),
    (f"/machine.slice/libpod-{A}.scope/container", {"container": A, "runtime": "libpod"}),
    (f"/libpod_parent/libpod-{A}", {"container": A, "runtime": "libpod"}),
    (f"/machine.slice/libpod-conmon-{A}.scope", {}),
    (f"{APP}/user.slice/libpod-{A}.scope/container", {"container": A, "runtime": "libpod", "login": "1000"}),
    (f"/system.slice/kepler.service/libpod-payload-{A}", {"container": A, "runtime": "libpod-payload"}),
]
NOMAD = [
    # cgroup v2 from 1.7 on, before it, and cgroup v1
    (f"/nomad.slice/share.slice/{POD}.train.scope", {"allocation": POD, "allocation_task": "train"}),
    (f"/nomad.slice/reserve.slice/{POD}.my.task.scope", {"allocation": POD, "allocation_task": "my.task"}),
    (f"/nomad.slice/{POD}.train.scope", {"allocation": POD, "allocation_task": "train"}),
    (f"/nomad/share/{POD}.train", {"allocation": POD, "allocation_task": "train"}),
    (f"/../../share.slice/{POD}.train.scope/child", {"allocation": POD, "allocation_task": "train"}),
    (f"/nomad.slice/{POD}.a\x1bb.scope", {"allocation": POD, "allocation_task": "a\\x1bb"}),
    (f"/nomad.slice/share.slice/docker-{A}.scope", {"container": A, "runtime": "docker"}),
]
GUESTS = [
    ("/lxc.payload.a\x1bb/init.scope", {"container": "a\\x1bb", "runtime": "lxc"}),
    ("/machine.slice/machine-a\\x0ab.scope", {"container": "a\\nb", "runtime": "machine"}),
]
HOST = [
    ("/user.slice/user-1000.slice/session-18.scope", {"login": "1000", "unit": "session-18.scope"}),
    ("/user.slice/user-1000.slice/session-c2.scope", {"login": "1000", "unit": "session-c2.scope"}),
    (f"{APP}/app.slice/jupyter.service", {"login": "1000", "unit": "jupyter.service"}),
    (f"{APP}/user.slice/apptainer-4711.scope", {"login": "1000", "unit": "apptainer-4711.scope"}),
    ("/system.slice/apptainer-4711.scope", {"unit": "apptainer-4711.scope"}),
    ("/apptainer/4711", {}),
    ("/singularity/4711", {}),
    ("/user.slice/user-1000.slice/session-3.scope/podman-build", {"login": "1000", "unit": "session-3.scope"}),
    ("/system.slice/docker.service", {"unit": "docker.service"}),
    ("/system.slice/docker.service (deleted)", {"unit": "docker.service"}),
    ("/system.slice/slurmd.service", {"unit": "slurmd.service"}),
    ("/machine.slice/machine-qemu\\x2d2\\x2dinstance\\x2d00000001.scope/libvirt", {"unit": "machine-qemu-2-instance-00000001.scope"}),
    ("/system.slice/vm_slurmstepd.scope/slurmd", {"unit": "vm_slurmstepd.scope"}),
    ("/system.slice/vm_slurmstepd.scope/system", {"unit": "vm_slurmstepd.scope"}),
    ("/system.slice/job_12.service", {"unit": "job_12.service"}),
    # names that users choose: systemd escapes bytes, and a folder may be called anything
    ("/system.slice/jupyter-jos\\xc3\\xa9.service", {"unit": "jupyter-josé.service"}),
    (f"{APP}/app.slice/a\\x0ab\\x1b[31m.scope", {"login": "1000", "unit": "a\\nb\\x1b[31m.scope"}),
    (f"{APP}/a\x1b[31m.scope", {"login": "1000", "unit": "a\\x1b[31m.scope"}),
    (f"{APP}/{'a' * 250}\u2028.service", {"login": "1000", "unit": f"{'a' * 250}\\u2028"}),
    ("/system.slice/podinfo.service", {"unit": "podinfo.service"}),
]
NOBODY = [
    ("/", {}),
    ("/process_api/4bfeeb208aadeb5bb728fea491a4db5e", {}),
    ("/kubepods/pod123/container", {}),
]
OWN = [
    ("/slurm_vm/uid_1001/job_1/step_batch/task_0", "job_path", "/slurm_vm/uid_1001/job_1"),
    (f"{STEPD}/job_3/step_0/user/task_0", "job_path", f"{STEPD}/job_3"),
    (f"{STEPD}/s8FXKTA79XAR00/step_batch", "job_path", f"{STEPD}/s8FXKTA79XAR00"),
    (f"/kubepods/burstable/pod{POD}/{A}", "pod_path", f"/kubepods/burstable/pod{POD}"),
    (f"/kubepods/burstable/pod{POD}/{A}", "container_path", f"/kubepods/burstable/pod{POD}/{A}"),
    (f"{KUBE}/kubepods-pod{SLICE}.slice/crio-{A}.scope/container", "pod_path", f"{KUBE}/kubepods-pod{SLICE}.slice"),
    (f"{KUBE}/kubepods-pod{SLICE}.slice/crio-{A}.scope/container", "container_path", f"{KUBE}/kubepods-pod{SLICE}.slice/crio-{A}.scope"),
    (f"/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{A}", "pod_path", ""),
    (f"/system.slice/docker-{A}.scope/init", "container_path", f"/system.slice/docker-{A}.scope"),
    (f"/nomad.slice/share.slice/{POD}.train.scope/x", "allocation_path", f"/nomad.slice/share.slice/{POD}.train.scope"),
    ("/default/gpu-test", "bundle", "default/gpu-test"),
    ("/default/gpu-test/init", "bundle", ""),
    ("/system.slice/a.service", "bundle", ""),
    (f"{APP}/app.slice/jupyter.service/x", "unit_path", f"{APP}/app.slice/jupyter.service"),
]
# fmt: on
PLACES = ("job_path", "pod_path", "container_path", "allocation_path", "unit_path", "bundle")


def said(cgroup: Cgroup, *, unit: bool) -> dict[str, str]:
    drop = PLACES if unit else (*PLACES, "unit")
    return {name: value for name in Cgroup.__slots__ if (value := getattr(cgroup, name)) and name not in drop}


@pytest.mark.parametrize(("path", "expected"), SLURM + PODS + CONTAINERS + NOMAD + GUESTS)
def test_workload_is_read_from_its_path(path: str, expected: dict[str, str]) -> None:
    assert said(parse_path(path), unit=False) == expected


@pytest.mark.parametrize(("path", "expected"), HOST + NOBODY)
def test_session_and_unit_are_read_from_their_path(path: str, expected: dict[str, str]) -> None:
    assert said(parse_path(path), unit=True) == expected


@pytest.mark.parametrize(("path", "field", "own"), OWN)
def test_own_cgroup_of_a_workload_is_the_part_up_to_its_name(path: str, field: str, own: str) -> None:
    assert getattr(parse_path(path), field) == own


V1 = """\
9:name=systemd:/
6:freezer:/slurm_e2e/uid_7/job_1
5:devices:/slurm_e2e/uid_7/job_1/step_extern
4:memory:/process_api/4bfeeb208aadeb5bb728fea491a4db5e
1:cpu,cpuacct:/
0::/
"""


def test_v1_job_is_found_in_whichever_controller_slurm_uses() -> None:
    found = parse(V1)

    assert (found.job, found.step, found.job_uid, found.node) == ("1", "extern", "7", "e2e")
    assert found.job_path == "/slurm_e2e/uid_7/job_1"


def test_v2_line_outranks_the_v1_ones() -> None:
    text = f"4:memory:/docker/{B}\n0::/system.slice/docker-{A}.scope\n"

    assert parse(text).container == A


@pytest.mark.parametrize("text", ["", "\n", "0::/\n", "nonsense", "1:cpu", "::"])
def test_text_that_names_nobody_yields_nothing(text: str) -> None:
    assert parse(text) == Cgroup()


ids = st.text("0123456789abcdef", min_size=64, max_size=64)
numbers = st.integers(0, 10**9).map(str)
steps = st.sampled_from(["batch", "extern", "interactive"]) | numbers
prefixes = st.sampled_from(["", "/../..", "/system.slice", f"/kubepods/pod{POD}/{A}", f"/docker/{B}"])


@given(prefixes, numbers, steps, st.booleans())
def test_any_slurm_step_is_read_back(prefix: str, job: str, step: str, v2: bool) -> None:  # noqa: FBT001 - drawn
    middle = "slurmstepd.scope" if v2 else "slurm/uid_1000"
    found = parse(f"0::{prefix}/{middle}/job_{job}/step_{step}/user/task_0\n")

    assert (found.job, found.step) == (job, step)
    assert found.job_path == f"{prefix}/{middle}/job_{job}"


@given(prefixes, st.uuids().map(str), ids, st.sampled_from([BU, BE]), st.booleans())
def test_any_pod_is_read_back(prefix: str, uid: str, container: str, qos: str, systemd: bool) -> None:  # noqa: FBT001 - drawn
    slice_ = f"kubepods-{qos}-pod{uid.replace('-', '_')}.slice/cri-containerd-{container}.scope"
    plain = f"kubepods/{qos}/pod{uid}/{container}"
    found = parse(f"0::{prefix}/{slice_ if systemd else plain}\n")

    assert (found.pod, found.container) == (uid, container)


@given(st.text() | st.text("/:-_.podjbslurmkeuidtc0123456789abcdef\n", max_size=300))
def test_any_text_is_survived_and_paths_are_parts_of_it(text: str) -> None:
    found = parse(text)

    assert all(getattr(found, place) in text for place in PLACES)
