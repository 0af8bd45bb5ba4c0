"""Whole sampling cycles let go of what is gone: MIG instances, processes, and the workloads that ran there."""

from __future__ import annotations

from dataclasses import replace

from exporter.attribution.owner import Owner, Ownership, WorkloadInfo
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.parts import JOB, process, runs
from tests.contract.cycles.rig import Rig, gpu
from tests.growth import grown
from tests.unit.collectors.answers import FakeInstance

CYCLES = 12
"""In a round: longer than the rig keeps ended workloads."""
PAUSE_SECONDS = 600.0
"""Between rounds: longer than anything is remembered on purpose."""


def test_sampler_does_not_grow_with_jobs_and_processes_that_are_gone() -> None:
    node = ScriptedNode()
    device = gpu(0)
    rig = Rig([device], node)

    def next_round(number: int) -> None:
        pid, owner = 10 + number, Owner(f"slurm:{number}", "slurm", slurm_job=str(number))
        node.hosts = {pid: process(pid), 5: process(5)}
        node.owned = Ownership({pid: owner, 5: JOB}, {"GPU-0": (owner, JOB)}, info={owner: WorkloadInfo()})
        device.answers["nvmlDeviceGetComputeRunningProcesses"] = runs(pid, 5)
        rig.cycles(CYCLES)
        rig.seconds += PAUSE_SECONDS

    try:
        assert grown(rig.sampler, next_round) == {}
    finally:
        rig.stop()


def test_sampler_does_not_grow_with_instances_that_are_gone() -> None:
    node = ScriptedNode()
    device = gpu(0, MigMode=(1, 1))
    rig = Rig([device], node)

    def next_round(number: int) -> None:
        instance = FakeInstance({"nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb"}, uuid=f"MIG-{number}")
        instance.parent_uuid = "GPU-0"
        instance.mig = replace(instance.mig, gpu_instance=number % 7)
        device.instances = (instance,)
        node.hosts = {5: process(5)}
        node.owned = Ownership({5: JOB}, {instance.uuid: (JOB,)}, info={JOB: WorkloadInfo()})
        rig.enumerate()
        rig.cycles(CYCLES)
        rig.seconds += PAUSE_SECONDS

    try:
        assert grown(rig.sampler, next_round) == {}
    finally:
        rig.stop()
