"""The records of the accounting: allocations, their hours, and the counters of owners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from exporter.attribution.owner import Owner, Ownership
from exporter.core.clock import Moment
from exporter.core.record import record

HOUR_SECONDS = 3600.0


class Place(NamedTuple):
    """Kind of GPU, which is accounted apart."""

    model: str
    profile: str = ""
    """Profile of a MIG instance; empty for whole GPUs."""


class Kind(NamedTuple):
    """Labels of an allocation's counters that its owner does not have."""

    priority: str = ""
    work_class: str = ""
    pool: str = ""


@record
class Usage:
    """Growth of one owner on one GPU in one cycle. NOBODY has the time without an owner."""

    owner: Owner
    gpu: str
    """Uuid of the GPU, also for one of its MIG instances."""
    profile: str
    states: Mapping[str, float]
    """Fraction of the GPU's cycle by state; together the allocated fraction of the GPU."""
    used: float
    """GPU seconds in which its kernels ran."""
    joules: float


@record
class Cycle:
    """Input of the accounting from one sampling cycle."""

    at: Moment
    seconds: float
    """Seconds since the cycle before; 0 in the first of a process."""
    usage: Sequence[Usage]
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Key: GPU uuid."""
    ownership: Ownership = field(default_factory=Ownership)
    classes: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """Class of each owner's work, where known."""
    pool: str | None = None
    """Pool of the node's free GPUs, empty for none; None while it is not known."""


@record
class Amount:
    """GPU seconds by state, GPU seconds in which kernels ran, and energy."""

    states: Mapping[str, float] = field(default_factory=dict[str, float])
    used: float = 0.0
    joules: float = 0.0


@record
class Allocation:
    """One allocation: a job, a pod's container or another owner, from one start to one end."""

    id: str
    owner: Owner
    start: float
    end: float | None = None
    """None while it lasts."""
    reported_start: float | None = None
    """Start as its source reports it."""
    gpus: float = 0.0
    """Most GPUs at a time: whole ones, and fractions of shared ones and MIG instances."""
    devices: tuple[str, ...] = ()
    """Uuids of its GPUs."""
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    """Job name, priority, class of work, labels of the site: those that are known."""


class HourKey(NamedTuple):
    allocation: str
    hour: int
    """Hours since 1970, UTC."""
    model: str
    profile: str


@record
class HourRow:
    """The value at the end, or so far, of one allocation in one hour."""

    key: HourKey
    until: float
    amount: Amount


class CounterKey(NamedTuple):
    """Labels of the counters of an owner."""

    kind: str = ""
    workload_namespace: str = ""
    account: str = ""
    user: str = ""
    priority: str = ""
    """QOS of Slurm, or priority class of the pod."""
    owner: str = ""
    """`other` for the owners above the limit of series; else empty."""
    work_class: str = ""
    """`batch`, `service`, `interactive`; the label is `class`."""
    model: str = ""
    profile: str = ""
    pool: str = ""
    """Partition of Slurm, else the label `pool` of the pod; of GPU time without an owner that of the node."""


@record
class CounterRow:
    """One life of the counters of an owner: it never resets, a new life has another `since`."""

    key: CounterKey
    since: int
    """Unix seconds of its birth."""
    last: float
    """Unix seconds of the owner's last allocation."""
    allocations: int
    amount: Amount


@record
class Batch:
    """Changed rows, and all counters, at one moment: what is written together is true together."""

    at: float = 0.0
    allocations: Mapping[str, Allocation] = field(default_factory=dict[str, Allocation])
    hours: Mapping[HourKey, HourRow] = field(default_factory=dict[HourKey, HourRow])
    counters: Sequence[CounterRow] = ()


@record
class Stored:
    """Content of the store at the start."""

    id: str
    """Id of the store; a new one for each new file."""
    born: float
    """Unix seconds at which the store was created: what was before is in another store, or in none."""
    allocations: Sequence[Allocation] = ()
    """Those of the last day, the ended ones too."""
    hours: Sequence[HourRow] = ()
    """The last hours of these."""
    counters: Sequence[CounterRow] = ()


@record
class WriterHealth:
    """Health of the store."""

    persistent: bool = False
    """True if the last write succeeded; False also without a store."""
    age: float | None = None
    """Seconds since the last successful write; None without a store."""
    waiting: int = 0
    dropped: int = 0


@record
class AccountingStatus:
    """State of the accounting after one cycle."""

    store: str
    """Id of the node's store."""
    counters: Sequence[CounterRow]
    health: WriterHealth
    merged_owners: int
