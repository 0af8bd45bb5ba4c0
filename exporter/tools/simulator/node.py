"""The host side of a simulation: processes, owners, CPU, storage, memory, and InfiniBand ports beside NVLink GPUs.

Simulated pids are not in /proc, so this stands in for the readers of /proc, cgroups, Kubernetes and Slurm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporter.attribution.owner import Owner, Ownership, SourceHealth, WorkloadInfo
from exporter.core.clock import UnixTime
from exporter.core.units import Bytes, BytesPerSecond
from exporter.host.model import HostProcess, HostSignals, HostUsage, ProcessSignals
from exporter.host.rdma import PciPath, Port
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.gpu import Gpu, GpuProcess, Target
from exporter.tools.simulator.models import HOPPER
from exporter.tools.simulator.patterns import Host
from exporter.tools.simulator.scenario import Scenario
from exporter.tools.simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class SimulatedProgress:
    """Report of a simulated training or serving program on itself."""

    samples: float
    steps: float
    ratio: float | None
    """0 to 1, where the workload has an end."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One running workload and its targets on this node."""

    workload: Workload
    number: int
    targets: tuple[tuple[Target, str], ...]

    @property
    def owner(self) -> Owner:
        return self.workload.owner(self.number)

    def age(self, time: float) -> float:
        return time - self.workload.began(self.number)


def elapsed(epoch: float, now: float) -> float:
    """Seconds since the simulation began; until that has come, the machine stands as it will be then."""
    return max(0.0, now - epoch)


class SimulatedNode:
    """Pure functions of `now`, in Unix seconds."""

    def __init__(self, scenario: Scenario, gpus: Sequence[Gpu], epoch: float) -> None:
        self._gpus = tuple(gpus)
        self._epoch = epoch
        self.name = scenario.node
        self._targets = {
            target.place: (target, uuid)
            for gpu in gpus
            for target, uuid in zip(gpu.targets, gpu.instance_uuids or (gpu.uuid,), strict=True)
        }
        self._workloads = scenario.workloads

    @property
    def pci_count(self) -> int:
        """GPUs on the PCI bus, lost ones included."""
        return len(self._gpus)

    def ports(self, now: float) -> tuple[Port, ...]:
        """Its network ports."""
        return ports(self._gpus, elapsed(self._epoch, now))

    def pci_paths(self) -> Mapping[str, PciPath]:
        """Return the way to the CPU of each GPU, by its uuid."""
        return {gpu.uuid: pci_path(gpu) for gpu in self._gpus}

    def processes(self, now: float) -> Mapping[int, HostProcess]:
        time = elapsed(self._epoch, now)
        return {process.pid: self._host_process(process, time) for gpu in self._gpus for process in gpu.processes(time)}

    def ownership(self, now: float) -> Ownership:
        time = elapsed(self._epoch, now)
        pids: dict[int, Owner] = {}
        holders: dict[str, tuple[Owner, ...]] = {}
        cgroups: dict[Owner, str] = {}
        info: dict[Owner, WorkloadInfo] = {}
        for run in self._running_at(time):
            owner = run.owner
            cgroups[owner] = run.workload.cgroup_path(run.number)
            info[owner] = run.workload.info(run.number, self._epoch)
            for target, uuid in run.targets:
                holders[uuid] = (*holders.get(uuid, ()), owner)
                pids.update({process.pid: owner for process in target.processes(time)})
        kinds = sorted({"slurm" if workload.slurm else "kubernetes" for workload in self._workloads})
        health = tuple(SourceHealth(kind, success=True, age=0.0) for kind in kinds)
        return Ownership(pids, holders, {}, cgroups, info, health)

    def usage(self, now: float) -> Mapping[Owner, HostUsage]:
        time = elapsed(self._epoch, now)
        return {run.owner: _run_usage(run, run.age(time)) for run in self._running_at(time)}

    def signals(self, now: float, seconds: float) -> Mapping[Owner, HostSignals]:
        """Return the signals of the last `seconds`; the patterns are steady, so their length does not matter."""
        del seconds
        time = elapsed(self._epoch, now)
        return {run.owner: _run_signals(run, time) for run in self._running_at(time)}

    def progress(self, now: float) -> Mapping[Owner, SimulatedProgress]:
        time = elapsed(self._epoch, now)
        return {run.owner: _run_progress(run, time) for run in self._running_at(time) if run.workload.pattern.samples}

    def _running_at(self, time: float) -> Iterator[_Run]:
        for workload in self._workloads:
            run = workload.run(time)
            if run is not None:
                yield _Run(workload, run, tuple(self._targets[place] for place in workload.places))

    def _host_process(self, process: GpuProcess, time: float) -> HostProcess:
        workload, run, _ = process.running
        host = workload.pattern.host
        age = time - process.began
        return HostProcess(
            pid=process.pid,
            command=workload.pattern.command,
            user=workload.user,
            start_time=UnixTime(self._epoch + process.began),
            cpu_seconds=host.cpu_of_limit * host.cores * age * process.share,
            resident_bytes=Bytes(host.resident * process.share * 0.9),
            cgroup=workload.cgroup(run),
            parent=1,
        )


def _run_usage(run: _Run, age: float) -> HostUsage:
    host, gpus = run.workload.pattern.host, len(run.targets)
    return HostUsage(
        cpu_seconds=host.cpu_of_limit * host.cores * gpus * age,
        cpu_limit_cores=host.cores * gpus,
        resident_bytes=Bytes(host.resident * gpus),
        memory_limit_bytes=Bytes(host.resident * gpus * 1.6),
        read_bytes=Bytes(host.read_rate * gpus * age),
        written_bytes=Bytes(host.write_rate * gpus * age),
        network_bytes={"receive": Bytes(host.network_rate * gpus * age), "transmit": Bytes(0)}
        if not run.workload.slurm
        else {},
        pressure_seconds={"cpu": host.cpu_pressure * age, "io": host.io_pressure * age, "memory": 0.0},
        full_pressure_seconds={"io": host.io_pressure * 0.8 * age},
    )


def _run_signals(run: _Run, time: float) -> HostSignals:
    host = run.workload.pattern.host
    ranks = enumerate(target for target, _ in run.targets)
    return HostSignals(
        cpu_pressure=host.cpu_pressure,
        io_pressure=host.io_pressure,
        io_full_pressure=host.io_pressure * 0.8,
        cpu_of_limit=host.cpu_of_limit,
        hottest_thread=host.hottest_thread,
        blocked_threads=host.blocked,
        receiving_threads=host.receiving,
        polling=host.polling,
        read_bytes_per_second=BytesPerSecond(host.read_rate * len(run.targets)),
        written_bytes_per_second=BytesPerSecond(host.write_rate * len(run.targets)),
        network_bytes_per_second=BytesPerSecond(host.network_rate * len(run.targets)),
        serves=host.serves,
        programs=host.programs,
        processes={
            process.pid: _process_signals(run.workload.pattern.of_rank(rank).host)
            for rank, target in ranks
            for process in target.processes(time)
        },
    )


def _process_signals(host: Host) -> ProcessSignals:
    return ProcessSignals(
        hottest_thread=host.hottest_thread,
        blocked=host.blocked,
        receiving=host.receiving,
        polling=host.polling,
        read_bytes_per_second=BytesPerSecond(host.read_rate),
        written_bytes_per_second=BytesPerSecond(host.write_rate),
        reading_bytes_per_second=BytesPerSecond(host.read_rate),
        writing_bytes_per_second=BytesPerSecond(host.write_rate),
    )


def _run_progress(run: _Run, time: float) -> SimulatedProgress:
    workload, track = run.workload, run.targets[0][0].track
    began = workload.began(run.number)
    active = track.total(Channel.BUSY, time) - track.total(Channel.BUSY, began)
    finite = math.isfinite(workload.duration)
    return SimulatedProgress(
        samples=active * workload.pattern.samples * len(run.targets),
        steps=math.floor(active / workload.pattern.period),
        ratio=min(1.0, (time - began) / workload.duration) if finite else None,
    )


_RATE, _OLDER_RATE = 50e9, 25e9
"""Bytes per second, one direction: NDR beside Hopper and newer, HDR before."""


def ports(gpus: Sequence[Gpu], time: float) -> tuple[Port, ...]:
    """Return the ports by GPU, in their order; `time` is seconds since the start."""
    return tuple(_gpu_port(gpu, time) for gpu in gpus if gpu.model.links)


def pci_path(gpu: Gpu) -> PciPath:
    """The GPU's way to the CPU."""
    return (*_bridge_path(gpu), gpu.pci_bus_id)


def _bridge_path(gpu: Gpu) -> PciPath:
    """Above the GPU and its port."""
    return (f"pci0000:{gpu.bus:02x}", f"0000:{gpu.bus:02x}:01.0")


def _gpu_port(gpu: Gpu, time: float) -> Port:
    down = gpu.has("port-down", time)
    return Port(
        device=f"mlx5_{gpu.index}",
        port="1",
        state="down" if down else "active",
        link_layer="InfiniBand",
        rate=_RATE if gpu.model.architecture >= HOPPER else _OLDER_RATE,
        bytes={
            "receive": float(int(gpu.total(Channel.NETWORK_RECEIVE, time))),
            "transmit": float(int(gpu.total(Channel.NETWORK_TRANSMIT, time))),
        },
        errors={
            "symbol_error": float(int(gpu.total(Channel.PORT_ERRORS, time))),
            "link_downed": float(sum(fault.kind.name == "port-down" and fault.at <= time for fault in gpu.faults)),
            "port_xmit_discards": 0.0,
        },
        board="MT_0000000838",
        path=(*_bridge_path(gpu), f"0000:{gpu.bus + 1:02x}:00.0"),
    )
