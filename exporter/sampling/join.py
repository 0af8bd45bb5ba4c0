"""The join of one cycle: which processes run on which GPU, their owners, and how much of it each is allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from exporter.attribution.owner import NOBODY, Owner, Ownership, Target
from exporter.collectors.processes import NO_PROCESSES, GpuProcess, Processes
from exporter.core.clock import Moment, UnixTime
from exporter.core.record import record
from exporter.core.units import Fraction
from exporter.driver.interface import Device
from exporter.host.model import HostProcess
from exporter.ledger.account import Allocation
from exporter.sampling.gpus import Gpu, reading
from exporter.sampling.host_view import HostQuestion, HostView


@record
class Join:
    """Never changed once made."""

    running: Mapping[str, Sequence[GpuProcess]]
    """Processes by GPU uuid."""
    everyone: Sequence[GpuProcess]
    """The same, over all GPUs."""
    hosts: Mapping[int, HostProcess]
    ownership: Ownership
    starts: Mapping[Owner, UnixTime]
    """Start of each workload: its allocation where a source reports it, else its oldest process."""
    unattributed: int
    """Processes whose owner is not known."""
    targets: Mapping[str, Target]
    """GPUs and MIG instances by uuid."""

    def owner(self, process: GpuProcess) -> Owner:
        return self.ownership.processes.get(process.pid, NOBODY)


def host_question(gpus: Sequence[Gpu], at: Moment, suspects: Mapping[Owner, Sequence[int]]) -> HostQuestion:
    """Ask about GPUs that have gone too: they can still be allocated, for their jobs do not know yet."""
    return HostQuestion(
        at,
        {gpu.device.uuid: _listed_processes(gpu) for gpu in gpus},
        tuple(target_of(gpu.device) for gpu in gpus),
        tuple(target_of(device) for gpu in gpus for device in gpu.device.instances or (gpu.device,)),
        suspects,
    )


def join(question: HostQuestion, view: HostView) -> Join:
    running = view.running
    if running is None:
        running = {uuid: each.running for uuid, each in question.listed.items()}
    everyone = [process for processes in running.values() for process in processes]
    ownership, hosts = view.ownership, view.processes
    starts: dict[Owner, UnixTime] = {}
    for pid, owner in ownership.processes.items():
        host = hosts.get(pid)
        if host is not None:
            starts[owner] = min(starts.get(owner, host.start_time), host.start_time)
    starts |= {owner: info.start_time for owner, info in ownership.info.items() if info.start_time is not None}
    unattributed = sum(ownership.processes.get(process.pid, NOBODY) == NOBODY for process in everyone)
    targets = {target.uuid: target for target in (*question.gpus, *question.targets)}
    return Join(running, everyone, hosts, ownership, starts, unattributed, targets)


def _listed_processes(gpu: Gpu) -> Processes:
    """Processes on the GPU as last read; those of a GPU that has gone are not known any more."""
    found = reading(gpu, "processes", Processes)
    return found if found and gpu.present else NO_PROCESSES


def target_of(device: Device) -> Target:
    mig = device.mig
    return Target(
        uuid=device.uuid,
        index=device.index,
        pci_bus_id=device.pci_bus_id,
        minor=device.minor,
        parent_uuid=device.parent_uuid,
        gpu_instance=mig.gpu_instance if mig else None,
        compute_instance=mig.compute_instance if mig else None,
        profile=mig.profile if mig else "",
        share=mig.share if mig else Fraction(1.0),
    )


def allocations(
    uuid: str, running: Iterable[GpuProcess], ownership: Ownership, shown: Collection[int], *, listed: bool = True
) -> tuple[Allocation, ...]:
    """Return the owners of one target, by its sources' fractions, else evenly. `shown` are the pids that /proc shows.

    `listed`: whether the driver reports its processes.

    A process of no known owner has what the known owners leave, which is nothing where no source states fractions.
    """
    by_owner: dict[Owner, list[GpuProcess]] = {owner: [] for owner in ownership.holders.get(uuid, ())}
    for process in running:
        if process.target == uuid:
            by_owner.setdefault(ownership.processes.get(process.pid, NOBODY), []).append(process)
    holder = _only_holder(uuid, by_owner, ownership, shown)
    if holder:
        by_owner = {holder: by_owner[NOBODY]}
    shares = _owner_fractions(uuid, tuple(by_owner), ownership)
    return tuple(
        [
            Allocation(
                owner, shares[owner], tuple([each.pid for each in processes]), _summed_utilization(processes), listed
            )
            for owner, processes in by_owner.items()
        ]
    )


def _only_holder(
    uuid: str, by_owner: Mapping[Owner, Sequence[GpuProcess]], ownership: Ownership, shown: Collection[int]
) -> Owner | None:
    """Return the owner that alone was allocated all of the target, if only processes out of sight run there."""
    strangers = by_owner.get(NOBODY)
    if not strangers:
        return None
    known = [owner for owner in by_owner if owner != NOBODY]
    if len(known) != 1 or by_owner[known[0]] or any(process.pid in shown for process in strangers):
        return None
    return known[0] if ownership.weights.get((uuid, known[0]), 1.0) >= 1.0 else None


def _owner_fractions(uuid: str, owners: Sequence[Owner], ownership: Ownership) -> Mapping[Owner, Fraction]:
    known = [owner for owner in owners if owner != NOBODY]
    weights = {owner: ownership.weights.get((uuid, owner), 1.0 / len(known)) for owner in known}
    total = max(sum(weights.values()), 1.0)
    shares = {owner: Fraction(weight / total) for owner, weight in weights.items()}
    return {**shares, NOBODY: Fraction(max(1.0 - sum(shares.values()), 0.0))}


def _summed_utilization(processes: Iterable[GpuProcess]) -> float | None:
    known = [process.utilization["sm"] for process in processes if "sm" in process.utilization]
    return min(sum(known), 1.0) if known else None
