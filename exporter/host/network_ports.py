"""The network ports of a node beside its GPUs: the nearest GPUs of each, its troubles, and their metric families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from exporter.core.clock import MonotonicTime
from exporter.core.families import NODE, Family, Sample, Shown, Unit, counters, gauges, info
from exporter.host.rdma import PciPath, Port

NEAR = ("PIX", "PXB", "PHB", "NODE")
"""Meeting points of GPU and card, nearest first, in the words of `nvidia-smi topo`: one bridge, several bridges, the root
complex, the NUMA node. What is further away (SYS) is near to none."""
TROUBLES = ("down", "slow", "errors")

READ_SECONDS = 10.0
"""Ports are read this often."""
_ERROR_WINDOW_SECONDS = 300.0
"""Seconds for which errors count as lately."""
_MAX_ERRORS = 100.0
"""Errors within them that are too many. A link that went down or had to recover is one too many."""
_LINK_LOSS_ERRORS = frozenset({"link_downed", "link_error_recovery"})
_FLUSHED = frozenset({"req_cqe_error", "resp_cqe_error"})
"""Errors of what a program had posted when it ended or failed: thousands for NCCL, on a port that is well."""
_HARMLESS = _FLUSHED | {"VL15_dropped", "port_rcv_switch_relay_errors", "port_rcv_constraint_errors"}
"""The others come with a fabric that is being set up, and with multicast."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GpuSeat:
    """The place of one GPU on the PCI bus."""

    index: int
    uuid: str
    path: PciPath
    numa_node: str = ""


@dataclass(frozen=True, slots=True)
class PortStatus:
    port: Port
    near: tuple[tuple[GpuSeat, str], ...] = ()
    """The GPUs nearest to it, all equally near, each with how they meet."""
    troubles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NetworkPorts:
    """All ports in one read; never changed once made."""

    ports: tuple[PortStatus, ...] = ()

    @property
    def troubled_gpus(self) -> frozenset[str]:
        """UUIDs of the GPUs one of whose nearest ports is in trouble."""
        return frozenset(gpu.uuid for each in self.ports if each.troubles for gpu, _ in each.near)


NO_PORTS = NetworkPorts()


@dataclass(slots=True)
class _PortHistory:
    """The past of one port: it was active, its best rate, and its errors some time ago."""

    active: bool = False
    rate: float = 0.0
    errors: list[tuple[MonotonicTime, Mapping[str, float]]] = field(
        default_factory=list[tuple[MonotonicTime, Mapping[str, float]]]
    )


@dataclass(slots=True)
class PortWatch:
    """Evaluates ports by their own past and by others of their kind on this node."""

    _past: dict[Key, _PortHistory] = field(default_factory=dict[Key, _PortHistory])

    def update(self, ports: Sequence[Port], gpus: Sequence[GpuSeat], now: MonotonicTime) -> NetworkPorts:
        """A port that is not shown any more is forgotten."""
        self._past = {key: self._past.get(key, _PortHistory()) for key in ((port.device, port.port) for port in ports)}
        for port in ports:
            self._remember_port(port, now)
        return NetworkPorts(tuple(PortStatus(port, nearest(port, gpus), self._troubles(port, ports)) for port in ports))

    def _remember_port(self, port: Port, now: MonotonicTime) -> None:
        past = self._past[port.device, port.port]
        past.active = past.active or port.state == "active"
        if port.state == "active":
            past.rate = max(past.rate, port.rate or 0.0)
        past.errors = [(at, errors) for at, errors in past.errors if now - at <= _ERROR_WINDOW_SECONDS]
        past.errors.append((now, port.errors))

    def _troubles(self, port: Port, ports: Sequence[Port]) -> frozenset[str]:
        """A port that never was active may have no cable: it is down only where others of its kind are up.

        One that is switched off (Disabled) and never was active is meant to be.

        The second port of a card is of another kind than the first: often no card has a cable in it.
        """
        past = self._past[port.device, port.port]
        alike = [each for each in ports if _port_kind(each) == _port_kind(port) and each.state == "active"]
        found: set[str] = set()
        if port.state == "active":
            best = max([past.rate, *(each.rate or 0.0 for each in alike)])
            found |= {"slow"} if port.rate is not None and port.rate < best else set()
        elif port.state and (past.active or (alike and port.physical_state != "disabled")):
            found.add("down")
        before = past.errors[0][1]
        more = {
            name: count - before[name]
            for name, count in port.errors.items()
            if name in before and name not in _HARMLESS
        }
        if (
            any(more.get(name, 0.0) > 0 for name in _LINK_LOSS_ERRORS)
            or sum(max(0.0, each) for each in more.values()) > _MAX_ERRORS
        ):
            found.add("errors")
        return frozenset(found)


def _port_kind(port: Port) -> tuple[str, str, str, str]:
    function = port.path[-1].rpartition(".")[2] if port.path else ""
    return (port.board, port.link_layer, port.port, function)


def nearest(port: Port, gpus: Sequence[GpuSeat]) -> tuple[tuple[GpuSeat, str], ...]:
    """The GPUs that share the longest part of their way to the CPU with the port."""
    ways = [(gpu, way) for gpu in gpus if (way := meeting(port, gpu))]
    best = min((_path_rank(way) for _, way in ways), default=None)
    return tuple((gpu, way[0]) for gpu, way in ways if _path_rank(way) == best)


def _path_rank(way: tuple[str, int]) -> tuple[int, int]:
    return NEAR.index(way[0]), -way[1]


def meeting(port: Port, gpu: GpuSeat) -> tuple[str, int] | None:
    """Return how they meet, and how many steps of their paths they share; None where they are far apart or it is not known."""
    if not port.path or not gpu.path:
        return None
    steps = zip(port.path, gpu.path, strict=False)
    shared = sum(1 for _ in takewhile(lambda step: step[0] == step[1], steps))
    if shared > 1:
        bridges = max(len(port.path), len(gpu.path)) - shared - 1
        return ("PIX" if bridges <= 1 else "PXB"), shared
    if shared:
        return "PHB", shared
    return ("NODE", 0) if port.numa_node and port.numa_node == gpu.numa_node else None


_PORT = ("device", "port")
Samples = Callable[[NetworkPorts], Iterable[Sample]]


def _port_labels(port: Port) -> tuple[str, str]:
    return (port.device, port.port)


def _port_samples(value: Callable[[Port], float | None]) -> Samples:
    def samples(found: NetworkPorts) -> Iterable[Sample]:
        for each in found.ports:
            number = value(each.port)
            if number is not None:
                yield Sample(number, _port_labels(each.port))

    return samples


def _labelled_samples(values: Callable[[Port], Mapping[str, float]]) -> Samples:
    def samples(found: NetworkPorts) -> Iterable[Sample]:
        for each in found.ports:
            for key, number in values(each.port).items():
                yield Sample(number, (*_port_labels(each.port), key))

    return samples


def _info_samples(found: NetworkPorts) -> Iterable[Sample]:
    for each in found.ports:
        port, near = each.port, ",".join(str(gpu.index) for gpu, _ in each.near)
        bus = port.path[-1] if port.path else ""
        labels = (port.link_layer, port.netdev, bus, port.numa_node, port.board, near)
        yield Sample(1, (*_port_labels(port), *labels))


def _nearest_samples(found: NetworkPorts) -> Iterable[Sample]:
    for each in found.ports:
        for gpu, way in each.near:
            yield Sample(1, (*_port_labels(each.port), str(gpu.index), gpu.uuid, way))


def _trouble_samples(found: NetworkPorts) -> Iterable[Sample]:
    for each in found.ports:
        for trouble in TROUBLES:
            yield Sample(float(trouble in each.troubles), (*_port_labels(each.port), trouble))


# fmt: off
NETWORK_PORT_FAMILIES: tuple[Family[NetworkPorts], ...] = (
    info("gpu_rdma_port_info", "An InfiniBand or RoCE port of the node (link_layer), and the GPUs it is nearest to over PCIe; empty where none is near.", _info_samples, (*_PORT, "link_layer", "netdev", "pci_bus_id", "numa_node", "board", "nearest_gpu"), NODE),
    info("gpu_rdma_port_nearest_gpu_info", "The same, a series for each GPU the port is nearest to, to join on; path is how they meet, in the words of nvidia-smi topo.", _nearest_samples, (*_PORT, "gpu", "uuid", "path"), NODE),
    gauges("gpu_rdma_port_up", "Whether the port's logical state is active.", Unit.NONE, _port_samples(lambda port: float(port.state == "active") if port.state else None), _PORT, NODE),
    gauges("gpu_rdma_port_state", "Logical state of the port: 1 for the state in the label.", Unit.NONE, _labelled_samples(lambda port: {port.state: 1.0} if port.state else {}), (*_PORT, "state"), NODE),
    gauges("gpu_rdma_port_speed_bytes", "Speed of the port's link as trained, in bytes per second and direction.", Unit.BYTES, _port_samples(lambda port: port.rate), _PORT, NODE),
    counters("gpu_rdma_port_bytes_total", "Bytes over the port.", Unit.BYTES, _labelled_samples(lambda port: port.bytes), (*_PORT, "direction"), NODE),
    counters("gpu_rdma_port_errors_total", "Errors of the port by the kernel's counters.", Unit.NONE, _labelled_samples(lambda port: port.errors), (*_PORT, "type"), NODE, shown=Shown.NONZERO),
    gauges("gpu_rdma_port_degraded", "Whether the port is down (others of its kind are up, or it was), slow (below its best rate, or theirs), or counts errors (a link that went down, or many, within 5 minutes).", Unit.NONE, _trouble_samples, (*_PORT, "reason"), NODE, shown=Shown.NONZERO),
)
# fmt: on
