"""What can be held, under every name an owner may use for it, and who holds how much of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.collectors.processes import GpuProcess
from exporter.core.units import Share
from exporter.driver.interface import Device
from exporter.ledger.account import Holding
from exporter.sampling.gpus import Gpu


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
        share=mig.share if mig else Share(1.0),
    )


def held_apart(gpus: Iterable[Gpu]) -> list[Device]:
    """GPUs without MIG, and MIG instances."""
    return [device for gpu in gpus for device in gpu.device.instances or (gpu.device,)]


def holdings(
    uuid: str, running: Iterable[GpuProcess], ownership: Ownership, shown: Collection[int], *, listed: bool = True
) -> tuple[Holding, ...]:
    """Who holds one target, by the shares its sources state, else evenly. `shown` are the pids that /proc shows.

    `listed`: whether the driver tells its processes.

    A process of nobody known holds what the known holders leave, which is nothing where no source states shares.
    """
    by_owner: dict[Owner, list[GpuProcess]] = {owner: [] for owner in ownership.holders.get(uuid, ())}
    for process in running:
        if process.target == uuid:
            by_owner.setdefault(ownership.processes.get(process.pid, NOBODY), []).append(process)
    holder = _only_holder(uuid, by_owner, ownership, shown)
    if holder:
        by_owner = {holder: by_owner[NOBODY]}
    shares = _shares(uuid, tuple(by_owner), ownership)
    return tuple(
        [
            Holding(owner, shares[owner], tuple([each.pid for each in processes]), _utilization(processes), listed)
            for owner, processes in by_owner.items()
        ]
    )


def _only_holder(
    uuid: str, by_owner: Mapping[Owner, Sequence[GpuProcess]], ownership: Ownership, shown: Collection[int]
) -> Owner | None:
    """Who alone was given all of the target, where what runs there is out of sight: it is his, as far as is known."""
    strangers = by_owner.get(NOBODY)
    if not strangers:
        return None
    known = [owner for owner in by_owner if owner != NOBODY]
    if len(known) != 1 or by_owner[known[0]] or any(process.pid in shown for process in strangers):
        return None
    return known[0] if ownership.weights.get((uuid, known[0]), 1.0) >= 1.0 else None


def _shares(uuid: str, owners: Sequence[Owner], ownership: Ownership) -> Mapping[Owner, Share]:
    known = [owner for owner in owners if owner != NOBODY]
    weights = {owner: ownership.weights.get((uuid, owner), 1.0 / len(known)) for owner in known}
    total = max(sum(weights.values()), 1.0)
    shares = {owner: Share(weight / total) for owner, weight in weights.items()}
    return {**shares, NOBODY: Share(max(1.0 - sum(shares.values()), 0.0))}


def _utilization(processes: Iterable[GpuProcess]) -> float | None:
    known = [process.utilization["sm"] for process in processes if "sm" in process.utilization]
    return min(sum(known), 1.0) if known else None
