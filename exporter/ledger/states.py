"""The states and the ordered rules that choose among them, as data.

The busy share of a pass goes to the busy states, the rest to a waiting state. In each family the rules are asked in
order; each claims a part of what is left, the last one takes the remainder. The same rows make the table in
docs/diagnosis.md, the advice in alerts and on dashboards, and the words of the job report.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from exporter.host.model import HostSignals
from exporter.ledger.evidence import Evidence, Signals
from exporter.ledger.thresholds import Thresholds

Claim = Callable[[Evidence, Thresholds], float]
"""The part of the family's time (0 to 1) this state takes."""


class Group(str, enum.Enum):
    """`given` follows from who holds the GPU and whether it answers; the others are decided by rules."""

    GIVEN = "given"
    WAITING = "waiting"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One state. `needs` lists alternatives: with all signals of one of them the state can be told apart."""

    state: str
    group: Group
    audience: str
    """Who acts on it: oncall, scheduler, owner, or nobody."""
    meaning: str
    signature: str
    advice: str
    claim: Claim | None = None
    thresholds: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()


def _at_least(number: float | None, limit: float) -> bool:
    return number is not None and number >= limit


def _below(number: float | None, limit: float) -> bool:
    return number is not None and number < limit


def _covers(pressure: float | None, evidence: Evidence, limits: Thresholds) -> bool:
    """Whether the stall was long enough to explain the waiting."""
    return _at_least(pressure, max(limits.pressure_floor, limits.wait_cover * evidence.wait))


def _storage(evidence: Evidence, limits: Thresholds) -> float:
    blocked = _at_least(evidence.blocked, limits.blocked)
    return float(blocked or _covers(evidence.host.io_pressure, evidence, limits))


def _cpu(evidence: Evidence, limits: Thresholds) -> float:
    return float(
        _at_least(evidence.hottest_thread, limits.hot_thread)
        or _at_least(evidence.host.cpu_of_limit, limits.cpu_of_limit)
        or (_covers(evidence.host.cpu_pressure, evidence, limits) and not _pressed_elsewhere(evidence, limits))
    )


def _pressed_elsewhere(evidence: Evidence, limits: Thresholds) -> bool:
    """CPU pressure is the whole owner's: a rank that hardly wants CPU while a peer works is not waiting for it."""
    return _below(evidence.hottest_thread, limits.wait_cover * evidence.wait) and bool(_peer(evidence, limits))


def _peer(evidence: Evidence, limits: Thresholds) -> float:
    return float(_covers(evidence.peer_lead, evidence, limits))


def _thermal(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return evidence.of_busy(evidence.signals.throttled_thermal) or 0.0


def _power_brake(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return evidence.of_busy(evidence.signals.throttled_power_brake) or 0.0


def _hardly_loaded(evidence: Evidence, limits: Thresholds) -> bool:
    """The SMs are mostly empty: by GPM, else by power far under its limit and memory at rest."""
    signals = evidence.signals
    if signals.sm_active is not None:
        return _below(evidence.of_busy(signals.sm_active), limits.sm_low)
    return _below(evidence.of_busy(signals.memory_activity), limits.memory_low) and _low_power(evidence, limits)


def _low_power(evidence: Evidence, limits: Thresholds) -> bool:
    return _below(evidence.signals.power_of_limit, limits.power_low)


def _communication(evidence: Evidence, limits: Thresholds) -> float:
    signals = evidence.signals
    busy_links = _at_least(evidence.of_busy(signals.link_activity), limits.link_high)
    if signals.sm_active is not None:
        return float(busy_links and _below(evidence.of_busy(signals.sm_active), limits.sm_low))
    return float(busy_links and _low_power(evidence, limits))


def _memory_bound(evidence: Evidence, limits: Thresholds) -> float:
    dram, tensor = evidence.of_busy(evidence.signals.dram_active), evidence.of_busy(evidence.signals.tensor_active)
    return float(_at_least(dram, limits.dram_high) and _below(tensor, limits.tensor_low))


def _small_kernels(evidence: Evidence, limits: Thresholds) -> float:
    return float(_hardly_loaded(evidence, limits))


def _rest(evidence: Evidence, limits: Thresholds) -> float:
    del evidence, limits
    return 1.0


RULES: tuple[Rule, ...] = (
    Rule(
        state="unobserved",
        group=Group.GIVEN,
        audience="oncall",
        meaning="The GPU did not answer, has no utilization reading, or the exporter did not run.",
        signature="No reading by the deadline, or a pass longer than a few intervals",
        advice="Look at the node: a hung driver, a lost GPU, or an exporter starved of CPU.",
        thresholds=("gap_intervals",),
    ),
    Rule(
        state="free",
        group=Group.GIVEN,
        audience="scheduler",
        meaning="Nobody holds the GPU.",
        signature="No allocation names it and no process is on it",
        advice="Capacity the scheduler can give: look at pending work and at what keeps it off this node.",
    ),
    Rule(
        state="held_idle",
        group=Group.GIVEN,
        audience="owner",
        meaning="A workload holds the GPU and has no process on it.",
        signature="An allocation names it, no process of the owner is on it",
        advice="Release it, ask for fewer GPUs, or find the rank that crashed or never started.",
    ),
    Rule(
        state="wait_storage",
        group=Group.WAITING,
        audience="owner",
        meaning="The GPU has nothing to run while its owner waits for storage.",
        signature="IO pressure of the owner's cgroup covers the wait, or its processes sit in D state",
        advice="Cache the data on local disk, read ahead, and pack small files (WebDataset, TFRecord, HDF5).",
        claim=_storage,
        thresholds=("wait_cover", "pressure_floor", "blocked"),
        needs=(("io_pressure",), ("blocked_threads",)),
    ),
    Rule(
        state="wait_cpu",
        group=Group.WAITING,
        audience="owner",
        meaning="The GPU has nothing to run while its owner is short of CPU.",
        signature="One thread is full, or the owner is at its CPU limit, or CPU pressure covers the wait",
        advice=(
            "Use more loader workers and CPUs, pinned memory and prefetch; preprocess offline or on the GPU (DALI);"
            " CUDA graphs or torch.compile where Python itself is the full thread."
        ),
        claim=_cpu,
        thresholds=("hot_thread", "cpu_of_limit", "wait_cover", "pressure_floor"),
        needs=(("hottest_thread",), ("cpu_of_limit",), ("cpu_pressure",)),
    ),
    Rule(
        state="wait_peer",
        group=Group.WAITING,
        audience="owner",
        meaning="The GPU has nothing to run while another GPU of the same owner is busier.",
        signature="Another GPU of the owner is busier by at least half of the wait",
        advice="Balance the pipeline stages or shards, look for a straggler, overlap communication with compute.",
        claim=_peer,
        thresholds=("wait_cover", "pressure_floor"),
        needs=(("busy",),),
    ),
    Rule(
        state="wait_other",
        group=Group.WAITING,
        audience="owner",
        meaning="The GPU has nothing to run and none of the signals says why.",
        signature="Processes on the GPU, none running a kernel, none of the above",
        advice="An interactive session, a lock, the network, a checkpoint: look at the program; release if forgotten.",
        claim=_rest,
        needs=(("busy",),),
    ),
    Rule(
        state="throttled_thermal",
        group=Group.BUSY,
        audience="oncall",
        meaning="Kernels run on clocks lowered because the GPU or its memory is too hot.",
        signature="The driver's thermal slowdown counter advances; its advance is the share",
        advice="Check cooling: inlet temperature, fans, dust, blocked air flow, neighbours' load.",
        claim=_thermal,
        needs=(("throttled_thermal",),),
    ),
    Rule(
        state="throttled_power_brake",
        group=Group.BUSY,
        audience="oncall",
        meaning="Kernels run on clocks lowered by the server's power brake.",
        signature="The driver's power brake counter advances; its advance is the share",
        advice="Check power supplies, their redundancy, and the rack's power budget.",
        claim=_power_brake,
        needs=(("throttled_power_brake",),),
    ),
    Rule(
        state="communication",
        group=Group.BUSY,
        audience="owner",
        meaning="Kernels mostly move data between GPUs or over PCIe.",
        signature="SM activity low (without GPM: power low), NVLink or PCIe traffic high",
        advice=(
            "Fewer and larger synchronisations (gradient accumulation, bucket size), overlap, gradient compression;"
            " check that NCCL uses NVLink and the nearest network card."
        ),
        claim=_communication,
        thresholds=("sm_low", "link_high", "power_low"),
        needs=(("sm_active", "link_activity"), ("power_of_limit", "link_activity")),
    ),
    Rule(
        state="memory_bound",
        group=Group.BUSY,
        audience="owner",
        meaning="Kernels wait for the GPU's own memory.",
        signature="DRAM activity high, tensor activity low",
        advice="Fuse operations (torch.compile, FlashAttention), enlarge the batch, use bf16 or fp8, quantise.",
        claim=_memory_bound,
        thresholds=("dram_high", "tensor_low"),
        needs=(("dram_active", "tensor_active"),),
    ),
    Rule(
        state="small_kernels",
        group=Group.BUSY,
        audience="owner",
        meaning="Kernels run but leave most of the GPU empty.",
        signature="SM activity low (without GPM: power far under its limit and memory at rest)",
        advice="Enlarge the batch, use CUDA graphs or torch.compile and mixed precision; a MIG slice may be enough.",
        claim=_small_kernels,
        thresholds=("sm_low", "power_low", "memory_low"),
        needs=(("sm_active",), ("power_of_limit", "memory_activity")),
    ),
    Rule(
        state="busy",
        group=Group.BUSY,
        audience="nobody",
        meaning="The GPU works, and nothing above says it could do better.",
        signature="Kernels run, none of the above",
        advice="Nothing to do.",
        claim=_rest,
        needs=(("busy",),),
    ),
)

STATES = tuple(rule.state for rule in RULES)
INDEX: Mapping[str, int] = {state: index for index, state in enumerate(STATES)}
BY_STATE: Mapping[str, Rule] = {rule.state: rule for rule in RULES}
WAITING = tuple((INDEX[rule.state], rule.claim) for rule in RULES if rule.group is Group.WAITING and rule.claim)
BUSY = tuple((INDEX[rule.state], rule.claim) for rule in RULES if rule.group is Group.BUSY and rule.claim)
RECOVERABLE = tuple(rule.state for rule in RULES if rule.state not in {"busy", "free"})
"""The states a workload can get back by acting on the advice, or the node by being mended."""

_SIGNALS = tuple(item.name for item in fields(Signals))
HOST_SIGNALS = frozenset(item.name for item in fields(HostSignals)) - {"processes"}
SPLITS = tuple(rule for rule in RULES if rule.group is not Group.GIVEN and rule.claim is not _rest)
"""The states that need a signal of their own, and are folded into `busy` or `wait_other` without it."""


def diagnosable(signals: Signals, host: Collection[str]) -> Mapping[str, bool]:
    """Which splits can be made with these signals and with the host signals named in `host`."""
    present = {name for name in _SIGNALS if getattr(signals, name) is not None}.union(host)
    return _told(frozenset(present))


@lru_cache(maxsize=256)  # the same few sets of signals come again with every pass
def _told(present: frozenset[str]) -> Mapping[str, bool]:
    told = "busy" in present
    return {rule.state: told and any(present.issuperset(needed) for needed in rule.needs) for rule in SPLITS}
