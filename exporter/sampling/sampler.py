"""One pass: read the GPUs, join their owners, advance the ledger, publish."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.collector import AnyCollector
from exporter.driver import Driver
from exporter.node import Node
from exporter.sampling.accounts import Accounts, Settlement
from exporter.sampling.blocks import collector_statuses, device_blocks, node_blocks, xid_blocks
from exporter.sampling.gpus import Gpu, Gpus
from exporter.sampling.keeper import Keeper, View
from exporter.sampling.readings import numbers
from exporter.sampling.xids import XidLog
from exporter.snapshot import AnyBlock, GpuStatus, NodeStatus, Snapshot


@dataclass(frozen=True, slots=True)
class Pacing:
    """Seconds: between passes, one pass waits for the GPUs, until a gauge vanishes."""

    interval: float = 1.0
    deadline: float = 0.8
    stale: float = 10.0


class Moment(NamedTuple):
    """One moment on both clocks, in seconds: Unix time, and the one that never jumps."""

    unix: float
    monotonic: float


class Sampler:
    """Runs passes; everything it keeps between them is in its parts. One thread at a time may call `run_pass`."""

    def __init__(
        self, driver: Driver, node: Node, collectors: Sequence[AnyCollector], pacing: Pacing, accounts: Accounts
    ) -> None:
        self._driver = driver
        self._node = node
        self._collectors = collectors
        self._pacing = pacing
        self._accounts = accounts
        self._gpus = Gpus(collectors)
        self.keeper = Keeper(driver)
        self.xids = XidLog()
        self._passes = 0

    def start(self) -> None:
        """Open the driver and begin to ask the node's sources; both in the background."""
        self.keeper.start()
        self._node.start()

    def run_pass(self, at: Moment | None = None) -> Snapshot:
        """Take one pass. It lasts at most the deadline and a little, whatever the driver does.

        `at` is the moment it books its readings at; without it, now. Tests make hours pass in seconds with it.
        """
        began = time.monotonic()
        at = at or Moment(time.time(), began)
        if not self._passes:
            self.keeper.first.wait(self._pacing.deadline)
        view = self.keeper.view
        for failure in self._gpus.read(view.devices, at.unix, began + self._pacing.deadline, at.monotonic):
            self.keeper.refresh(failure)
        settlement = self._accounts.settle(self._gpus.all, self._node, *at)
        self._passes += 1
        return self._publish(view, settlement, at, time.monotonic() - began)

    def uuids(self) -> Mapping[str, str]:
        """The GPUs seen so far, by PCI bus id as sysfs writes it."""
        return {gpu.device.pci_bus_id: gpu.device.uuid for gpu in self._gpus.all}

    def stop(self) -> None:
        self.keeper.stop()
        self._gpus.stop()
        self._node.stop()

    def _publish(self, view: View, settlement: Settlement, at: Moment, seconds: float) -> Snapshot:
        now, started = at
        gpus = self._gpus.all
        status = NodeStatus(
            time=now,
            interval=self._pacing.interval,
            pass_seconds=seconds,
            passes=self._passes,
            driver_calls=self._driver.calls,
            simulated=self._driver.simulated,
            driver=view.versions[0],
            nvml=view.versions[1],
            cuda=view.versions[2],
            driver_error=view.error,
            driver_gpus=None if view.error else len(view.devices),
            pci_gpus=self._node.pci_gpus(now),
            gpus=tuple(self._status(gpu, settlement, started) for gpu in gpus),
            collectors=collector_statuses(self._collectors, self._gpus.outcomes()),
            sources=settlement.ownership.health,
            unattributed_processes=settlement.unattributed,
            dropped=settlement.dropped,
        )
        xids = tuple(self.xids.counts(gpu.device.uuid) for gpu in gpus)
        stale = self._pacing.stale

        def series() -> Iterator[AnyBlock]:
            for gpu in gpus:
                yield from device_blocks(gpu, started, stale)
            for gpu, counts in zip(gpus, xids, strict=True):
                yield from xid_blocks(gpu, counts)
            yield from settlement.blocks
            yield from node_blocks(status)

        return Snapshot(status, series, settlement.processes, started)

    def _status(self, gpu: Gpu, settlement: Settlement, monotonic: float) -> GpuStatus:
        uuid = gpu.device.uuid
        shown = numbers(gpu, monotonic, self._pacing.stale)
        return GpuStatus(
            index=gpu.device.index,
            uuid=uuid,
            model=shown.model,
            up=gpu.present and not gpu.failure and gpu.answered > float("-inf"),
            age=monotonic - gpu.answered,
            hung_seconds=self._gpus.hung_seconds(uuid),
            busy_ratio=shown.busy,
            memory_used_bytes=shown.memory_used,
            memory_total_bytes=shown.memory_total,
            power_watts=shown.power,
            temperature_celsius=shown.temperature,
            unattributed_bytes=settlement.unattributed_bytes.get(uuid),
            owners=settlement.shares.get(uuid, ()),
            states=settlement.states.get(uuid, {}),
        )
