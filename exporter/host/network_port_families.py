"""The metric families of the node's network ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from exporter.core.families import NODE, Family, Sample, Shown, Unit, counters, gauges, info
from exporter.host.network_ports import TROUBLES, NetworkPorts
from exporter.host.rdma import Port

_PORT = ("device", "port")
Samples = Callable[[NetworkPorts], Iterable[Sample]]


def _labels(port: Port) -> tuple[str, str]:
    return (port.device, port.port)


def _each(value: Callable[[Port], float | None]) -> Samples:
    def samples(found: NetworkPorts) -> Iterable[Sample]:
        for each in found.ports:
            number = value(each.port)
            if number is not None:
                yield Sample(number, _labels(each.port))

    return samples


def _by(values: Callable[[Port], Mapping[str, float]]) -> Samples:
    def samples(found: NetworkPorts) -> Iterable[Sample]:
        for each in found.ports:
            for key, number in values(each.port).items():
                yield Sample(number, (*_labels(each.port), key))

    return samples


def _info(found: NetworkPorts) -> Iterable[Sample]:
    for each in found.ports:
        port, near = each.port, ",".join(str(gpu.index) for gpu, _ in each.near)
        bus = port.path[-1] if port.path else ""
        labels = (port.link_layer, port.netdev, bus, port.numa_node, port.board, near)
        yield Sample(1, (*_labels(port), *labels))


def _near(found: NetworkPorts) -> Iterable[Sample]:
    for each in found.ports:
        for gpu, way in each.near:
            yield Sample(1, (*_labels(each.port), str(gpu.index), gpu.uuid, way))


def _troubles(found: NetworkPorts) -> Iterable[Sample]:
    for each in found.ports:
        for trouble in TROUBLES:
            yield Sample(float(trouble in each.troubles), (*_labels(each.port), trouble))


# fmt: off
NETWORK_PORT_FAMILIES: tuple[Family[NetworkPorts], ...] = (
    info("gpu_rdma_port_info", "An InfiniBand or RoCE port of the node (link_layer), and the GPUs it is nearest to over PCIe; empty where none is near.", _info, (*_PORT, "link_layer", "netdev", "pci_bus_id", "numa_node", "board", "nearest_gpu"), NODE),
    info("gpu_rdma_port_nearest_gpu_info", "The same, a series for each GPU the port is nearest to, to join on; path is how they meet, in the words of nvidia-smi topo.", _near, (*_PORT, "gpu", "uuid", "path"), NODE),
    gauges("gpu_rdma_port_up", "Whether the port's logical state is active.", Unit.NONE, _each(lambda port: float(port.state == "active") if port.state else None), _PORT, NODE),
    gauges("gpu_rdma_port_state", "Logical state of the port: 1 for the state in the label.", Unit.NONE, _by(lambda port: {port.state: 1.0} if port.state else {}), (*_PORT, "state"), NODE),
    gauges("gpu_rdma_port_speed_bytes", "Speed of the port's link as trained, in bytes per second and direction.", Unit.BYTES, _each(lambda port: port.rate), _PORT, NODE),
    counters("gpu_rdma_port_bytes_total", "Bytes over the port.", Unit.BYTES, _by(lambda port: port.bytes), (*_PORT, "direction"), NODE),
    counters("gpu_rdma_port_errors_total", "Errors of the port by the kernel's counters.", Unit.NONE, _by(lambda port: port.errors), (*_PORT, "type"), NODE, shown=Shown.NONZERO),
    gauges("gpu_rdma_port_degraded", "Whether the port is down (others of its kind are up, or it was), slow (below its best rate, or theirs), or counts errors (a link that went down, or many, within 5 minutes).", Unit.NONE, _troubles, (*_PORT, "reason"), NODE, shown=Shown.NONZERO),
)
# fmt: on
