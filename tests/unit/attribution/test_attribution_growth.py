"""Attribution lets go of jobs, containers and processes that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exporter.attribution.slurm.job import Job
from exporter.core.clock import MonotonicTime
from tests.attribution_kit.nodes import cgroup, gpu, host_process, instance, of
from tests.attribution_kit.slurm_node import STEP, Node
from tests.growth import grown

A = gpu(0)
ROUND_SECONDS = 1e6
"""Longer than attribution remembers anything on purpose."""

PATHS = {
    "job": STEP,
    "container": "/docker/{:064x}",
    "unit": "/system.slice/train-{}.service",
    "pod": "/kubepods/pod{:08x}-fdcc-454b-97bd-aadfdeb4c340/{:064x}",
}


@pytest.mark.parametrize("kind", PATHS)
def test_attribution_does_not_grow_with_what_is_gone(kind: str, tmp_path: Path) -> None:
    jobs = {str(number): Job(str(number), f"user{number}", "physics") for number in range(100)}
    node = Node(tmp_path, controller=jobs)
    moment = [MonotonicTime(0.0)]
    assert node.slurm._job_cache
    node.slurm._job_cache._clock = lambda: moment[0]

    def next_round(number: int) -> None:
        """A process that stays for two cycles, of a workload of its own; then it is gone."""
        pid = 100 + number
        if kind == "job":
            node.map("0", str(number))
            node.cgroup(str(number), pid)
            if number:
                shutil.rmtree(node.root / f"cgroup/system.slice/slurmstepd.scope/job_{number - 1}")
        process = host_process(pid, cgroup(PATHS[kind].format(number, number)), user=f"user{number}")
        targets = [A, instance(1, number % 7)]
        for second, shown in enumerate((of([process]), of([process]), {})):
            moment[0] = MonotonicTime((1 + number) * ROUND_SECONDS + second)
            node.read()
            node.attribution.join(targets, {A.uuid: [pid]}, shown, moment[0])

    assert grown(node.attribution, next_round) == {}
