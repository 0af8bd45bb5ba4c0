"""A simulated cluster, the faults planted in it, and which alerts each of them must bring."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.tools.simulator.workload import job_of_run

HOUR = 3600.0
GPUS = 8
TAIL = 1.4 * HOUR
"""An alert may stand so long after its fault: a `keep_firing_for`, a window that empties."""
UNMENDED = 0.5 * HOUR
"""Time between the end of a fault and its cure: nobody was there yet."""
SLACK = 600.0
"""What the begin and the end of an alert that is kept may be off: a few samples, and the proof of the cure."""
CURES = ("reset", "reboot", "acknowledge", "replace")


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault and what it brings: `must` has to fire, `may` follows from it without being asked for."""

    name: str
    hours: float
    must: frozenset[str]
    may: frozenset[str] = frozenset()
    simulated: str = ""
    """The simulator's name of it; empty where it is planted otherwise."""
    times: int = 1
    """It comes so often, ten minutes apart."""
    kept: frozenset[str] = frozenset()
    """Alerts that must stand from the fault to its cure, without a break."""


def _kind(name: str, hours: float, must: str, may: str = "", times: int = 1, kept: str = "") -> Kind:
    return Kind(name, hours, frozenset(must.split()), frozenset(may.split()), name, times, frozenset(kept.split()))


DEVICE = (
    _kind("thermal", 1.0, "GpuThermalThrottling"),
    _kind("power-brake", 1.0, "GpuPowerBrake"),
    _kind(
        *("ecc-storm", 1.0, "GpuResetPending GpuRecoveryActionNeeded GpuMemoryWearing", "GpuXidApplication"),
        kept="GpuResetPending",
    ),
    _kind("row-remap-pending", 2.0, "GpuResetPending"),
    _kind(
        *("row-remap-failed", 1.0, "GpuRecoveryActionNeeded GpuResetPending", "GpuMemoryWearing"),
        kept="GpuRecoveryActionNeeded",
    ),
    _kind(
        *("nvlink-down", 2.0, "GpuXidWorkflow GpuNvlinkFabricDegraded GpuRecoveryActionNeeded"),
        kept="GpuXidWorkflow",
    ),
    _kind("pcie-degraded", 2.0, "GpuPcieDegraded"),
    _kind("fan-failure", 1.0, "GpuThermalThrottling"),
    _kind("leaked-memory", 1.5, "GpuMemoryLeaked"),
    _kind("xid", 0.1, "GpuXidApplication", times=4),
    _kind("lost", 1.0, "GpuLost", kept="GpuLost"),
    # Off the bus and back, again and again.
    Kind("flaps", 0.08, frozenset({"GpuLost"}), frozenset(), "lost", 4, frozenset({"GpuLost"})),
    _kind("hang", 1.0, "GpuLost", "GpuSampleStale"),
)
NODE = (
    _kind("driver-gone", 1.0, "GpuDriverUnavailable", "GpuSourceFailing"),
    Kind("exporter-down", 0.5, frozenset({"GpuExporterDown"})),
)
WORKLOAD = (
    Kind("allocated-idle", 3.0, frozenset({"GpuAllocatedIdle", "GpuUnderutilized"})),
    Kind("idle-loaded", 3.0, frozenset({"GpuUnderutilized"}), frozenset({"GpuAllocatedIdle"})),
    # A person at work: nobody is told, unless the session stands still for long.
    Kind("notebook", 3.0, frozenset(), frozenset({"GpuAllocatedIdle"})),
)


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault: where (`gpu` None is the node, `workload` an owner's name) and when, in seconds from the start."""

    kind: Kind
    node: str
    gpu: int | None
    at: float
    workload: str = ""
    cure: str = ""
    """What mends it, where it does not end by itself."""
    holders: frozenset[str] = frozenset()
    """Names of the workloads that hold the GPU now or later, without their namespaces."""

    @property
    def mended(self) -> float:
        return self.end + UNMENDED if self.cure else self.end

    @property
    def end(self) -> float:
        return self.at + self.kind.hours * HOUR + 600 * (self.kind.times - 1)

    def explains(self, alert: str, labels: dict[str, str], begin: float, end: float) -> bool:
        """Whether an alert that fired from `begin` to `end` comes from this fault."""
        if self.workload:
            where = self.workload in labels.get("workload", "")
        elif "node" in labels:
            where = labels["node"] == self.node and (self.gpu is None or labels.get("gpu") == str(self.gpu))
        else:  # told by whose it was
            where = labels.get("workload", "").rpartition("/")[2] in self.holders
        return where and alert in self.kind.must | self.kind.may and begin < self.mended + TAIL and end >= self.at


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster of nodes of eight GPUs, for `hours`."""

    nodes: tuple[str, ...]
    hours: float
    planted: tuple[Planted, ...]
    workloads: tuple[dict[str, Any], ...] = field(default=())

    def mended(self, fault: Planted) -> float:
        """When a fault is mended: by its own cure, or because its node is restarted for another's."""
        reboots = (
            e.mended for e in self.planted if e.cure == "reboot" and e.node == fault.node and e.mended > fault.at
        )
        return min([fault.mended, *reboots])

    def scenario(self, start: float) -> dict[str, Any]:
        """For the simulator; `start` is Unix seconds."""
        return {
            "gpus": f"{GPUS}xH100",
            "nodes": list(self.nodes),
            "start": start,
            "workloads": list(self.workloads),
            "faults": [entry for each in self.planted for entry in _faults(each)],
        }


NOTEBOOK_ENDS, NOTEBOOK_EVERY = HOUR, 2 * HOUR
"""Seconds: the first notebook of GPU 6 ends, and the next one begins half an hour before that much later."""


def make(nodes: int, hours: float, rounds: int, seed: int = 1) -> Plan:
    """`rounds` of every kind of fault, each on a GPU of its own, at random times of the middle of `hours`."""
    chance = random.Random(seed)  # noqa: S311 - the same plan every time
    names = tuple(f"gpu{number:02d}" for number in range(1, nodes + 1))
    places = [(node, gpu) for node in names[:-1] for gpu in range(6)]
    chance.shuffle(places)

    def when(kind: Kind, first: float, last: float) -> float:
        return round(chance.uniform(first, last - kind.hours) * 30) * 120.0

    planted: list[Planted] = []
    for kind in (kind for _ in range(rounds) for kind in DEVICE):
        cure = CURES[sum(bool(each.cure) for each in planted) % len(CURES)] if kind.kept else ""
        place, at = places.pop(), when(kind, 0.3, hours - 2.8)
        if kind.name == "leaked-memory":  # known on a free GPU alone: between two notebooks
            place, at = (place[0], 6), NOTEBOOK_ENDS + at // NOTEBOOK_EVERY * NOTEBOOK_EVERY
        planted.append(Planted(kind, *place, at, cure=cure))
    # The last node has the faults of whole nodes, one after the other, and no others.
    slot = (hours - 1.0) / (rounds * len(NODE))
    for index, kind in enumerate(kind for _ in range(rounds) for kind in NODE):
        planted.append(Planted(kind, names[-1], None, when(kind, 0.3 + index * slot, 0.2 + (index + 1) * slot)))
    wasted = tuple(_wasted(names[:-1], hours, rounds, when))
    healthy = tuple(_healthy(names))
    planted = [replace(fault, holders=_holders(healthy, fault)) for fault in planted]
    return Plan(names, hours, (*planted, *(fault for fault, _ in wasted)), (*healthy, *(job for _, job in wasted)))


def _holders(workloads: Sequence[dict[str, Any]], fault: Planted) -> frozenset[str]:
    """By name of what made the pod or id of the job, of every run."""
    return frozenset(
        f"slurm:{job_of_run(each['job'], run)}" if each["scheduler"] == "slurm" else name
        for each in workloads
        for run, name in _runs(each, fault)
        if each["nodes"] == fault.node and fault.gpu is not None and _covers(each["gpus"], fault.gpu)
    )


def _runs(workload: dict[str, Any], fault: Planted) -> Iterator[tuple[int, str]]:
    """Number and name of each run up to when the alerts of a fault have ended."""
    every = workload.get("every")
    if every is None:
        yield 0, workload["name"]
    else:
        last = int((fault.mended + TAIL - workload["start"]) // every)
        yield from ((run, f"{workload['name']}-{run}") for run in range(last + 1))


def _covers(gpus: str, gpu: int) -> bool:
    first, _, last = gpus.partition("-")
    return int(first) <= gpu <= int(last or first)


def _wasted(nodes: Sequence[str], hours: float, rounds: int, when: Any) -> Iterator[tuple[Planted, dict[str, Any]]]:
    """Workloads on GPU 7 that hold it for nothing, one after another."""
    per_node: dict[str, int] = {}
    kinds = [kind for _ in range(rounds) for kind in WORKLOAD]
    slot = (hours - 0.5) / -(-len(kinds) // len(nodes))
    for index, kind in enumerate(kinds):
        node = nodes[index % len(nodes)]
        turn = per_node[node] = per_node.get(node, -1) + 1
        at = when(kind, turn * slot, (turn + 1) * slot)
        job = 900 + index
        entry = {"name": f"waste-{job}", "pattern": kind.name, "nodes": node, "gpus": "7", "job": job, "user": "eve"}
        yield Planted(kind, node, None, at, f"slurm:{job}"), {**entry, "start": at, "duration": kind.hours * HOUR}


def _healthy(nodes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What must bring no alert: training in turns, serving at 42 %, a loader at 35 %, power caps, short sessions."""
    rows = (
        # pattern,      gpus,  scheduler,    user,    start,  duration, every
        ("training",     "0-2", "slurm",      "ada",     600,    5 * HOUR, 5.5 * HOUR),
        ("inference",    "3",   "kubernetes", "grace",     0,        None, None),
        ("input-bound",  "4",   "slurm",      "alan",    300,    9 * HOUR, 10 * HOUR),
        ("power-capped", "5",   "kubernetes", "barbara",   0,        None, None),
        ("notebook",     "6",   "kubernetes", "edsger", 1800,  0.5 * HOUR, NOTEBOOK_EVERY),
    )  # fmt: skip
    for number, node in enumerate(nodes):
        for row, (pattern, gpus, scheduler, user, start, duration, every) in enumerate(rows):
            entry = {"name": f"{pattern}-{number}", "pattern": pattern, "nodes": node, "gpus": gpus, "user": user}
            entry |= {"scheduler": scheduler, "job": 100 + 10 * number + row, "start": start + 60 * number}
            yield entry | ({"duration": duration, "every": every} if duration else {})


def _faults(planted: Planted) -> Iterator[dict[str, Any]]:
    kind = planted.kind
    for number in range(kind.times if kind.simulated else 0):
        entry = {"kind": kind.simulated, "node": planted.node, "at": planted.at + 600 * number}
        yield entry | {"duration": kind.hours * HOUR} | ({} if planted.gpu is None else {"gpu": planted.gpu})
