"""A small cluster of which everything is known, as text that Prometheus takes in: what a panel must say of it is plain.

Each GPU does the same all the time; what goes wrong (birth, restart, gap, loss, a second scrape) is written in `NODES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.ledger.states import STATES
from tests.e2e.dashboards.history import JOB, Span

OwnerRows = Mapping[str, float]
"""Shares of time by state."""


@dataclass(frozen=True)
class Owner:
    workload: str
    kind: str = "slurm"
    user: str = ""
    account: str = ""
    namespace: str = ""
    work_class: str = ""

    @property
    def labels(self) -> dict[str, str]:
        pairs = {
            "workload": self.workload,
            "kind": self.kind,
            "user": self.user,
            "account": self.account,
            "workload_namespace": self.namespace,
        }
        return {name: value for name, value in pairs.items() if value}


@dataclass(frozen=True)
class Holding:
    owner: Owner
    share: float
    does: OwnerRows
    """Of its own share; sums to 1."""


@dataclass(frozen=True)
class Gpu:
    does: OwnerRows
    allocated: tuple[Holding, ...] = ()
    model: str = "NVIDIA H100"
    lost_after: float = float("inf")
    """Seconds from the start; from then on its counters stand still but for `unobserved`."""


@dataclass(frozen=True)
class Port:
    """A network port; `receives` bytes a second, sends half of it, and counts so many errors a second."""

    device: str
    state: str
    near: str
    receives: float = 0.0
    errors: float = 0.0
    trouble: str = ""


@dataclass(frozen=True)
class Known:
    """One node. Times are seconds from the start of the span."""

    name: str
    cluster: str
    gpus: tuple[Gpu, ...]
    born: float = 0.0
    restart: float = float("inf")
    """When its exporter begins at 0 again."""
    gap: tuple[float, float] = (float("inf"), float("inf"))
    """When it was not scraped."""
    jobs: tuple[str, ...] = (JOB,)
    ports: tuple[Port, ...] = ()
    missing: tuple[str, ...] = ()
    """Indices of GPUs that it has had and that were lost before its exporter started: their faults alone are left."""


TRAIN = Owner("slurm:4000", user="ada", account="physics")
IDLE = Owner("slurm:4000", user="bob", account="biology")
"""The same job id in another cluster."""
SLICES = Owner("team-mig/notebook", "pod", namespace="team-mig")
LEFT, RIGHT = (
    Owner("shared/left", "pod", namespace="shared"),
    Owner("shared/right", "pod", namespace="shared", work_class="interactive"),
)
LOADER = Owner("slurm:7", user="eve", account="nlp")
STRAGGLER = Owner("slurm:9", user="eve", account="nlp")
WIDE = Owner("slurm:14", user="eve", account="nlp")
TWICE = Owner("twice/server", "pod", namespace="twice", work_class="service")
_THIRD = {"computing": 2 / 3, "wait_cpu": 1 / 3}
_WAITS = {"computing": 0.6, "wait_peer": 0.4}


def _whole(owner: Owner, does: OwnerRows) -> Gpu:
    return Gpu(does, (Holding(owner, 1.0, does),))


NODES = (
    Known("n1", "one", (
        Gpu({"computing": 1.0}, (Holding(TRAIN, 1.0, {"computing": 1.0}),), lost_after=1800),
        _whole(TRAIN, {"computing": 1.0}),
    )),
    Known("n1", "two", (_whole(IDLE, {"allocated_idle": 1.0}),)),
    Known("mig", "one", (
        Gpu({"unobserved": 0.75, "free": 0.25}, (Holding(SLICES, 0.75, {"unobserved": 1.0}),), "NVIDIA A100"),
    )),
    Known("shared", "one", (
        Gpu({"computing": 0.5, "wait_other": 0.5},
            (Holding(LEFT, 0.5, {"computing": 1.0}), Holding(RIGHT, 0.5, {"wait_other": 1.0}))),
    )),
    Known("restarts", "one", (_whole(LOADER, _THIRD),), restart=1500, gap=(2400, 2700)),
    Known("slow", "one", (
        *(_whole(STRAGGLER, _WAITS) for _ in range(3)),
        _whole(STRAGGLER, {"computing": 1.0}),
    )),
    Known("wide-1", "one", tuple(_whole(WIDE, _WAITS) for _ in range(7))),
    Known("wide-2", "one", (*(_whole(WIDE, _WAITS) for _ in range(6)), _whole(WIDE, {"computing": 1.0})), ports=(
        Port("mlx5_0", "down", "0", trouble="down"),
    )),
    Known("twice", "one", (_whole(TWICE, {"computing": 0.5, "allocated_idle": 0.5}), Gpu({"free": 1.0})),
          jobs=(JOB, "monitoring/again")),
    Known("late", "one", (Gpu({"free": 1.0}),), born=1200),
    Known("ports", "one", (Gpu({"free": 1.0}, model="NVIDIA L40S"),), ports=(
        Port("mlx5_0", "active", "0,1", receives=2e9),
        Port("mlx5_1", "active", "2,3", receives=1e9, errors=0.5, trouble="errors"),
        Port("mlx5_2", "down", "", trouble="down"),
    ), missing=("0", "1")),
)  # fmt: skip


def write(span: Span, path: Path) -> Path:
    """OpenMetrics text of all nodes."""
    with path.open("w") as out:
        for node in NODES:
            for job in node.jobs:
                out.writelines(f"{line}\n" for line in _lines(node, job, span))
        out.write("# EOF\n")
    return path


def _lines(node: Known, job: str, span: Span) -> Iterator[str]:
    target = {"cluster": node.cluster, "instance": node.name, "job": job}
    for at in span.times:
        seconds = at - span.start
        if seconds < node.born or node.gap[0] <= seconds < node.gap[1]:
            continue
        since = node.restart if seconds >= node.restart else node.born
        for name, labels, value in (
            *_samples(node, seconds, seconds - since),
            *_accounted(node, seconds, span.start),
        ):
            pairs = ",".join(f'{key}="{text}"' for key, text in {**target, **labels}.items())
            yield f"{name}{{{pairs}}} {value} {at}"


def _accounted(node: Known, seconds: float, begin: int) -> Samples:
    """The counters of owners, which go on through restarts; the empty owner has what is free."""
    spent: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for gpu in node.gpus:
        lost = max(0.0, seconds - max(gpu.lost_after, node.born))
        seen, free = seconds - node.born - lost, 1.0 - sum(allocated.share for allocated in gpu.allocated)
        parts = [(allocated.owner, allocated.share, allocated.does) for allocated in gpu.allocated]
        for owner, share, does in (*parts, (Owner("", ""), free, {"free": 1.0})):
            labels = owner.labels | {"class": owner.work_class, "model": gpu.model}
            key = tuple((name, text) for name, text in labels.items() if text and name != "workload")
            for state in STATES if share else ():
                mine = spent.setdefault(key, {})
                mine[state] = mine.get(state, 0.0) + share * _time(does, state, seen, lost)
    since = int(begin + node.born)
    for key, states in spent.items():
        labels = dict(key) | {"store": f"{node.cluster}-{node.name}", "since": str(since)}
        yield "gpu_owner_since_timestamp_seconds", labels, since
        yield "gpu_owner_busy_gpu_seconds_total", labels, states.get("computing", 0.0)
        for state, value in states.items():
            if value:
                yield "gpu_owner_gpu_seconds_total", labels | {"state": state}, value


Samples = Iterator[tuple[str, dict[str, str], float]]


def _samples(node: Known, seconds: float, counted: float) -> Samples:
    yield "gpu_exporter_build_info", {"version": "1"}, 1
    yield "up", {}, 1
    for index, gpu in enumerate(node.gpus):
        device = {"gpu": str(index), "uuid": f"GPU-{node.cluster}-{node.name}-{index}"}
        yield from _device(gpu, device, counted, max(0.0, seconds - gpu.lost_after))
    for index in node.missing:
        device = {"gpu": index, "uuid": f"GPU-{node.cluster}-{node.name}-missing-{index}"}
        yield "gpu_fault_timestamp_seconds", device | {"fault": "lost", "action": "restart"}, 0
    for port in node.ports:
        yield from _port(port, counted)
    for owner in {allocated.owner for gpu in node.gpus for allocated in gpu.allocated}:
        yield from _owner(owner, node, seconds, counted)


def _device(gpu: Gpu, device: dict[str, str], counted: float, lost: float) -> Samples:
    seen = counted - lost
    yield "gpu_up", device, float(not lost)
    yield "gpu_info", device | {"model": gpu.model}, 1
    if lost:
        yield "gpu_xid_errors_total", device | {"xid": "79", "class": "restart_bm"}, 1
        yield "gpu_fault_timestamp_seconds", device | {"fault": "lost", "action": "restart"}, gpu.lost_after
    if "unobserved" not in gpu.does:
        yield "gpu_busy_seconds_total", device, seen * gpu.does.get("computing", 0.0)
        yield "gpu_sm_active_seconds_total", device, seen * gpu.does.get("computing", 0.0)
    for link in ("pcie", "nvlink"):
        yield f"gpu_{link}_bytes_total", device | {"direction": "receive"}, seen * 1e9
    for state in STATES:
        yield "gpu_state_seconds_total", device | {"state": state}, _time(gpu.does, state, seen, lost)
    for allocated in gpu.allocated:
        yield "gpu_allocation_ratio", device | allocated.owner.labels, allocated.share


def _port(port: Port, counted: float) -> Samples:
    labels = {"device": port.device, "port": "1"}
    yield "gpu_rdma_port_info", labels | {"link_layer": "InfiniBand", "nearest_gpu": port.near}, 1
    yield "gpu_rdma_port_state", labels | {"state": port.state}, 1
    yield "gpu_rdma_port_speed_bytes", labels, 50e9
    yield "gpu_rdma_port_bytes_total", labels | {"direction": "receive"}, port.receives * counted
    yield "gpu_rdma_port_bytes_total", labels | {"direction": "transmit"}, port.receives / 2 * counted
    yield "gpu_rdma_port_errors_total", labels | {"type": "symbol_error"}, port.errors * counted
    if port.trouble:
        yield "gpu_rdma_port_degraded", labels | {"reason": port.trouble}, 1


def _owner(owner: Owner, node: Known, seconds: float, counted: float) -> Samples:
    mine = [(gpu, allocated) for gpu in node.gpus for allocated in gpu.allocated if allocated.owner == owner]
    yield "gpu_workload_allocated_gpus", owner.labels, sum(allocated.share for _, allocated in mine)
    yield "gpu_workload_info", owner.labels | {"class": owner.work_class}, 1
    for state in STATES:
        spent = 0.0
        for gpu, allocated in mine:
            lost = max(0.0, seconds - gpu.lost_after)
            spent += allocated.share * _time(allocated.does, state, counted - lost, lost)
        yield "gpu_workload_gpu_seconds_total", owner.labels | {"state": state}, spent


def _time(does: OwnerRows, state: str, seen: float, lost: float) -> float:
    return seen * does.get(state, 0.0) + (lost if state == "unobserved" else 0.0)
