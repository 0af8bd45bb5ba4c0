"""The rest of the node: processes, owners, cgroups, PCI. The simulator stands in for all of it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.core.clock import Moment
from exporter.core.threads import Threads
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.presence import exists
from exporter.node.nccl_status import Statuses
from exporter.node.network_ports import NetworkPorts
from exporter.progress.progress import Reported

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers; NVIDIA's audio and USB functions are other classes."""
_HOLDERS = {"pci-stub", "pciback", "xen-pciback"}
"""Drivers that hold a device for virtual machines, beside those of VFIO."""


class Node(Protocol):
    """What a pass asks of the node besides the driver. No method may block."""

    def processes(self, pids: Sequence[int], at: Moment) -> Mapping[int, HostProcess]:
        """The processes as the host shows them; those that have gone are left out."""
        ...

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        """Who runs each process, and who holds each target; `pids` by target uuid."""
        ...

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """What each owner uses of the host, and what its host side did since the last call."""
        ...

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
        """What the owners' programs report of themselves."""
        ...

    def host_signals_known(self) -> frozenset[str]:
        """Names of the `HostSignals` this host can report; `reported_phases` where programs can report theirs."""
        ...

    def skipped_tasks(self) -> int:
        """Threads worth watching that had no place in the budget, summed over passes."""
        ...

    def pci_gpus(self, at: Moment) -> int | None:
        """How many NVIDIA GPUs the PCI bus shows; None where it cannot be read."""
        ...

    def nccl(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        """What NCCL reports of workloads that seem to hang, given with their GPU processes."""
        ...

    def network_ports(self, targets: Sequence[Target], at: Moment) -> NetworkPorts:
        """The InfiniBand and RoCE ports, with the GPUs they are nearest to."""
        ...

    def start(self, threads: Threads) -> None:
        """Begin to ask what is asked in the background."""
        ...

    def stop(self) -> None: ...


def pci_gpus(sysfs: Path) -> int | None:
    """Count NVIDIA display controllers under /sys/bus/pci/devices that are the host's; None without that directory."""
    devices = sysfs / "bus/pci/devices"
    try:
        entries = sorted(devices.iterdir())
    except OSError:
        return None
    return sum(_is_gpu(entry) for entry in entries)


def _is_gpu(entry: Path) -> bool:
    try:
        if (entry / "vendor").read_text().strip() != _NVIDIA:
            return False
        display = (entry / "class").read_text().strip().startswith(_DISPLAY_CLASSES)
    except OSError:
        return False
    return display and not _is_given_away(entry)


def _is_given_away(entry: Path) -> bool:
    """Whether it is kept for a virtual machine, or is a part of a GPU for one: NVIDIA's driver will never show it."""
    driver = (entry / "driver").resolve().name
    return "vfio" in driver or driver in _HOLDERS or exists(entry / "physfn")
