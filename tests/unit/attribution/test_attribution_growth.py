"""Attribution lets go of jobs, containers and processes that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exporter.attribution.kubernetes.allocations import AllocationResolver, PodAllocations
from exporter.attribution.kubernetes.root import PodPlace
from exporter.attribution.kubernetes.source import KubernetesView, PodNames
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


def test_names_of_pods_are_forgotten_with_the_pods() -> None:
    names = PodNames()

    def next_round(number: int) -> None:
        uid = f"uid-{number}"
        names.learn(
            KubernetesView(logged={uid: ("ml", uid)}), {uid: {A.uuid}}, {}, MonotonicTime(number * ROUND_SECONDS)
        )

    assert grown(names, next_round) == {}


def test_what_processes_have_shown_is_forgotten_with_the_kubelets_list() -> None:
    """In each round a pod that has ended is still listed, and refuted by the pod that runs on its GPU."""
    resolver = AllocationResolver()

    def next_round(number: int) -> None:
        ended, runs = (PodPlace("ml", f"{name}-{number}", "main") for name in ("ended", "runs"))
        listed = PodAllocations(
            given={each: {A.uuid: 1.0} for each in (ended, runs)},
            exclusive={(each.pod_name, A.uuid): "" for each in (ended, runs)},
        )
        assert resolver.resolve(listed, {runs: {A.uuid}}, {}).given == {runs: {A.uuid: 1.0}}

    assert grown(resolver, next_round) == {}
