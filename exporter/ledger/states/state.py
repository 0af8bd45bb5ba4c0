"""One state of a GPU second: its row in the table, and the evidence that its rule reads."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from exporter.core.record import record
from exporter.host.model import HostSignals, ProcessSignals

NO_HOST = HostSignals()
NOTHING_REPORTED: Mapping[str, float] = MappingProxyType({})
NO_PROCESS = ProcessSignals()


@record
class Signals:
    """One GPU, or one MIG instance, in one cycle. Fractions of the cycle from 0 to 1; None: unknown on this device."""

    busy: float | None = None
    """Time in which a kernel ran."""
    engine_active: float | None = None
    """Use of the busiest engine for video, images or optical flow: they work without a kernel."""
    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    """GPM, Hopper and newer."""
    vector_active: float | None = None
    """The FP64, FP32 and FP16 pipes together (GPM): arithmetic outside the tensor cores."""
    memory_activity: float | None = None
    """Time in which memory was read or written (NVML), and not how much."""
    link_activity: float | None = None
    """Traffic over what NVLink or PCIe can carry, the larger of the two."""
    power_of_limit: float | None = None
    throttled_thermal: float | None = None
    throttled_power_brake: float | None = None
    throttled_power_cap: float | None = None
    """Fraction by the driver's counters."""
    sm_clock: float | None = None
    """Hertz, as are the other three."""
    sm_clock_throttled: float | None = None
    """Read in a moment in which heat or the power brake lowered it; None: in that moment neither did."""
    sm_clock_capped: float | None = None
    """Read in a moment in which the power limit alone lowered it."""
    sm_clock_max: float | None = None


@record
class ClockHistory:
    """SM clocks lately, in hertz: the highest while the GPU was busy, and the mean while something lowered it."""

    free: float | None = None
    uncapped: float | None = None
    """Neither heat nor the power brake lowered it, nor (`uncapped`) did the power limit."""
    throttled: float | None = None
    capped: float | None = None
    """Heat or the power brake lowered it, or (`capped`) the power limit alone."""


NO_CLOCKS = ClockHistory()


@record
class RankActivity:
    """The activity of one rank of a job, by sums over a window, in seconds."""

    seconds: float = 0.0
    units: Mapping[str, float] = field(default_factory=dict[str, float])
    """Values by field of `Signals`."""
    led: float = 0.0
    """Seconds in which another rank of the job ran kernels and this one did not."""
    debt: float = 0.0
    """Seconds that noise has counted too much as waits: 0 or less."""
    stuck: float = 0.0
    """Seconds without a pause until now in which a kernel ran and seemed to do nothing."""
    computing: Mapping[str, float] = field(default_factory=dict[str, float])
    """Highest value lately per busy second while it was not stuck, keyed by field."""


NO_ACTIVITY = RankActivity()


@record
class UsageHistory:
    """The activity of one owner on one target in the cycles so far."""

    straggling_seconds: float = 0.0
    """Seconds in which the owner's other targets waited for this one."""
    quiet_seconds: float = 0.0
    """Observed time since its last kernel here; since it was first seen where it ran none yet."""
    ran: bool = False
    unblocked_cycles: int = 0
    """Cycles since a process of it was last seen in D state."""
    uncomputed_seconds: float = 0.0
    """Seconds since it last ran a kernel that did not only spin; since it was first seen where it ran none yet."""
    activity: RankActivity = NO_ACTIVITY
    """Activity of an owner with several targets."""
    kept_seconds: float = 0.0
    """Time in which something on this node kept it from running a kernel; fades over a minute, as does the next."""
    received_seconds: float = 0.0
    """Time in which it ran nothing and sat in a receive."""


NO_HISTORY = UsageHistory()


class Comparison(NamedTuple):
    """One rank beside the other ranks of its job in one cycle, in fractions of the cycle."""

    activity: RankActivity
    collective: float | None = None
    """Waited in a collective; None: the ranks show no straggler, or the witnesses disagree."""
    requests: float = 0.0
    """Spun until a rank of the same service or session has a request."""
    doubtful: float = 0.0
    """Spun by one witness alone: no accusation."""
    straggling: float = 0.0
    """The others waited for this rank."""
    led: float = 0.0
    """Another rank worked while this one ran nothing, over the window."""
    follows: bool = False
    """True if it waits for its peers while it has no kernel."""
    work: Mapping[str, float] | None = None
    """Activity while it did not wait, over the window, as fractions of that time; None: not known."""


class Evidence(NamedTuple):
    """The input of one rule: the GPU, and the side of its owner."""

    signals: Signals
    busy: float
    wait: float = 0.0
    """Fraction of the owner's own time on this GPU in which it ran nothing."""
    unused_by_others: float = 1.0
    """Part of that in which nobody else ran either: a neighbour on a shared GPU may run beyond its own fraction."""
    host: HostSignals = NO_HOST
    own: ProcessSignals = NO_PROCESS
    """Signals of this GPU's processes where they were measured, else of the owner's."""
    reported: Mapping[str, float] = NOTHING_REPORTED
    """Parts of the cycle that this GPU's programs say they spent in each of their phases."""
    peer_late: float = 0.0
    """The most that something on this node kept another GPU of the owner, as a fraction of the cycle; 0 where this one
    does not sit in a receive, or that one does too."""
    peers: bool = False
    """The owner has more than one GPU, here or on other nodes."""
    rank: Comparison | None = None
    slow_port: bool = False
    """The network port nearest to the GPU is in trouble, and the owner has GPUs on other nodes."""
    stalled_elsewhere: bool = False
    """Processes on other GPUs of the owner were in D state lately, and those on this one were not."""
    past: UsageHistory = NO_HISTORY
    work: str = ""
    """Class of the owner's work; empty: not known."""
    clock_lost: float | None = None
    """Part of the clock the GPU runs unthrottled that it lacks while it is throttled."""

    def of_busy(self, activity: float | None) -> float | None:
        """An activity over the cycle as a fraction of the busy time alone."""
        if activity is None or self.busy <= 0:
            return None
        return min(1.0, activity / self.busy)


def at_least(number: float | None, limit: float) -> bool:
    """Compare; what was not measured explains nothing."""
    return number is not None and number >= limit


def is_below(number: float | None, limit: float) -> bool:
    """Compare; what was not measured explains nothing."""
    return number is not None and number < limit


@dataclass(frozen=True, slots=True, eq=False)
class Threshold:
    """A number that rules compare with, an option of the ledger. It is a key of `Limits`: hashed by identity."""

    name: str
    default: float
    help: str
    maximum: float = 1.0
    """Infinite for amounts, such as seconds and bytes per second."""

    @property
    def option(self) -> str:
        """Name in `--ledger.thresholds`."""
        return self.name.replace("_", "-")


AMOUNT = math.inf
"""Maximum of a threshold that is no fraction."""

Limits = Mapping[Threshold, float]
"""The value of each threshold."""

Claim = Callable[[Evidence, Limits], float]
"""Returns the fraction of the time at hand that belongs to the state. Pure."""


class Certainty(str, enum.Enum):
    """Certainty that allocated time in the state is lost."""

    NONE = "none"
    """Not lost: kernels ran, if not as fast as they could, or the GPU had no owner."""
    POSSIBLE = "possible"
    """Nothing ran, or a kernel that may only spin, and that may be how this work is: the cause is not known."""
    LIKELY = "likely"
    """Nothing came of it, by the evidence of the state's signature."""
    CERTAIN = "certain"
    """Nothing came of it, whatever the cause."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """A state with its rule, thresholds, evidence, words and colour."""

    name: str
    title: str
    step: str
    """The first thing to do about it, short enough for a cell; `advice` is the whole."""
    colour: str
    audience: Literal["oncall", "scheduler", "owner", "nobody"]
    """The readers who can act on it."""
    certainty: Certainty
    meaning: str
    signature: str
    advice: str
    advice_when_full: str = ""
    """Advice where GPU memory is full, so that the batch cannot grow."""
    of_time: Literal["given", "waiting", "busy"]
    """The time that the rule divides: without a kernel, or with one. `given` follows from allocation and reading."""
    spins: bool = False
    """A kernel runs and does nothing: time with a kernel that counts as waiting."""
    needs: tuple[tuple[str, ...], ...] = ()
    """Alternatives: with all signals of one of them the state can be distinguished."""
    thresholds: tuple[Threshold, ...] = ()
    claim: Claim | None = None
    """None for a given state."""
