"""A GPU of which nobody tells who runs on it: some guests' drivers do not, and the collector can be switched off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from exporter.attribution.families import workload_families
from exporter.attribution.owner import Owner, Ownership, Target
from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector
from exporter.collectors.processes import GpuProcess
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.families import Sample
from exporter.core.units import Bytes, Fraction
from exporter.ledger.account import Allocation, Reading
from exporter.sampling.accounting import Accounting, AccountingOptions, WorkloadRows
from exporter.sampling.host_view import Host, HostQuestion, HostView
from exporter.sampling.join import Join, allocations
from exporter.sampling.sampler import Pacing, Sampler
from exporter.tools.simulator import simulate
from tests.attribution_kit.nodes import until

JOB, OTHER = Owner("slurm:7", "slurm"), Owner("slurm:8", "slurm")


class Held(Host):
    """One job was given every GPU."""

    def view(self, question: HostQuestion) -> HostView:
        return HostView(ownership=Ownership(holders={target.uuid: (JOB,) for target in question.targets}))


class Empty(Host):
    """Nobody was given any GPU. `unexplained` is as in the view."""

    def __init__(self, unexplained: frozenset[str] | None = frozenset()) -> None:
        self.unexplained = unexplained

    def view(self, question: HostQuestion) -> HostView:
        del question
        return HostView(unexplained=self.unexplained)


def _after_cycles(
    collectors: Iterable[AnyCollector], host: Host | None = None, gpu: str = "1xH200:allocated-idle"
) -> Mapping[str, Sequence[Sample]]:
    """The samples of each family after ten seconds of no work."""
    now = 1_700_000_000.0
    driver = simulate(gpu, lambda: now)
    accounting = Accounting(AccountingOptions(), workload_families())
    sampler = Sampler(driver, host or Held(), tuple(collectors), Pacing(1.0, 30.0, 10.0), accounting)
    sampler.start()
    until(lambda: sampler.connection.state.devices)
    for second in range(10):
        now += 1.0
        found = sampler.run_cycle(Moment(UnixTime(now), MonotonicTime(100.0 + second)))
    sampler.stop()
    return {block.family.name: block.samples for block in found.blocks}


@pytest.mark.parametrize("told", [True, False])
def test_neither_its_memory_is_leaked_nor_is_it_held_idle(*, told: bool) -> None:
    collectors = [each for each in COLLECTORS if told or each.name != "processes"]
    shown = _after_cycles(collectors)
    idle = sum(sample.value for sample in shown["gpu_state_seconds_total"] if "allocated_idle" in sample.labels)

    assert bool(_leaked(_after_cycles(collectors, Empty()))) == told
    assert (idle > 0) == told


def _leaked(shown: Mapping[str, Sequence[Sample]]) -> Sequence[Sample]:
    return shown.get("gpu_memory_unattributed_bytes", ())


UUID = simulate("1xH200:allocated-idle", lambda: 0.0).devices()[0].uuid


@pytest.mark.parametrize(
    ("host", "gpu", "known"),
    [
        (Empty(), "1xH200:allocated-idle", True),
        (Held(), "1xH200:allocated-idle", False),  # its owner may have managed memory
        (Empty(frozenset({UUID})), "1xH200:allocated-idle", False),  # a NUMA node of the system
        (Empty(None), "1xH200:allocated-idle", False),  # no process can be seen
        (Empty(), "1xH200:training", False),  # a process that runs may have managed memory
    ],
)
def test_memory_is_leaked_only_where_nobody_can_have_it(host: Host, gpu: str, *, known: bool) -> None:
    assert bool(_leaked(_after_cycles(COLLECTORS, host, gpu))) == known


@pytest.mark.parametrize("told", [True, False])
def test_workload_has_no_count_of_processes_that_are_not_listed(*, told: bool) -> None:
    shown = _after_cycles([each for each in COLLECTORS if told or each.name != "processes"])
    names = ("gpu_workload_memory_bytes", "gpu_workload_processes")
    found = [[each.value for each in shown.get(name, ()) if JOB.workload in each.labels] for name in names]

    assert found == ([[0.0], [0.0]] if told else [[], []])


@pytest.mark.parametrize(("memory", "shown"), [((None, None), None), ((None, 5), 5), ((2, 5), 7), ((), 0)])
def test_memory_of_a_workload_is_what_the_driver_reports_of_its_processes(
    memory: Sequence[int | None], shown: int | None
) -> None:
    """It reports none of a process where it may not, as in some containers and guests."""
    target = Target("GPU-0", 0, "")
    running = [GpuProcess(pid, "GPU-0", None if each is None else Bytes(each), {}) for pid, each in enumerate(memory)]
    owned = Ownership(dict.fromkeys(range(len(memory)), JOB))
    joined = Join({"GPU-0": running}, running, {}, owned, {}, 0, {"GPU-0": target})
    rows = WorkloadRows().of([JOB], joined, [Reading(target, allocations=(Allocation(JOB),))], {}, {})

    assert [(row.memory_bytes, row.processes) for row in rows] == [(shown, len(memory))]


def test_owner_of_a_gpu_whose_instances_are_others_has_no_gpu() -> None:
    """It ran on the GPU when MIG was switched on: instances are allocated instead of the GPU."""
    gpu = Target("GPU-0", 0, "")
    instance = Target("MIG-0", 0, "", parent_uuid="GPU-0", share=Fraction(0.5))
    readings = [Reading(gpu, allocations=(Allocation(JOB),)), Reading(instance, allocations=(Allocation(OTHER),))]
    joined = Join({}, (), {}, Ownership(), {}, 0, {})
    rows = WorkloadRows().of([JOB, OTHER], joined, readings, {}, {})

    assert {row.owner: row.gpus for row in rows} == {JOB: 0.0, OTHER: 0.5}


@pytest.mark.parametrize(("holders", "shown"), [((JOB,), (5, 1)), ((JOB, OTHER), (None, None))])
def test_process_without_an_owner_is_of_the_only_holder_or_of_an_unknown_one(
    holders: Sequence[Owner], shown: tuple[int | None, int | None]
) -> None:
    """/proc does not show it to the exporter, or the name of its pod is not known yet."""
    running = [GpuProcess(7, "GPU-0", Bytes(5), {})]
    owned = Ownership(holders={"GPU-0": tuple(holders)})
    joined = Join({"GPU-0": running}, running, {}, owned, {}, 1, {})
    readings = [Reading(Target("GPU-0", 0, ""), allocations=allocations("GPU-0", running, owned, ()))]
    rows = WorkloadRows().of(holders, joined, readings, {}, {})

    assert [(row.memory_bytes, row.processes) for row in rows] == [shown] * len(holders)


def test_gpu_that_reports_neither_use_nor_processes_is_unobserved() -> None:
    """As an Orin does: it is not known to be free."""
    silent = {"utilization", "engines", "gpm", "processes"}
    states = _after_cycles([each for each in COLLECTORS if each.name not in silent], Empty())["gpu_state_seconds_total"]
    seconds = {state: sample.value for sample in states for state in ("free", "unobserved") if state in sample.labels}

    assert seconds == {"free": 0.0, "unobserved": 9.0}
