"""Definitions of allocated, used, wasted and utilization, once in PromQL and once in Python.

A ledger gives GPU time by state. In PromQL it is a recorded `…_state:…_gpu_seconds:rate5m`, summed over a window; in
Python it is hours by state. Both forms give the same number of the same time, and nothing where nothing was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from exporter.ledger import states

Hours = Mapping[str, float]
"""GPU hours by state of the ledger."""

BUSY = states.BUSY
"""A kernel ran, and did something."""
LOST, POSSIBLY_LOST = states.LOST, states.POSSIBLY_LOST
"""Allocated, and likely or certainly nothing (or less than could be) came of it: waste, as recording rules call it."""
FREE, UNOBSERVED = ("free",), ("unobserved",)

REPLICAS = "replica, prometheus_replica, __replica__, rule_replica, ruler_replica, thanos_ruler_replica"
"""Labels of those who scrape, or evaluate, the same for one another; a querier that knows of them drops them."""
SCRAPE = f"job, service, endpoint, prometheus, {REPLICAS}"
"""Labels by which jobs of one Prometheus differ that scrape the same exporter, and those of replicas."""
RULE_SECONDS = 60
"""Seconds between two evaluations of a recording rule: sums over time of one, times this, are integrals in seconds."""

LOW, HIGH = 0.3, 0.7
"""Utilization under the first is bad, from the second on good: the thresholds of the alert and of the colours."""
GOOD: Mapping[str, float] = {"batch": HIGH, "service": 0.35, "interactive": 0.14}
"""The target utilization, by class of work; where that is not known, as batch. A service keeps room
for its peaks, a session waits for its user. Under LOW / HIGH of its target it is bad."""


Amount = Callable[[str], str]
"""Makes an amount of time out of a selector of a ledger."""


def identity(recorded: str) -> str:
    """GPUs' worth of the last minutes, from a recorded rate."""
    return recorded


def hours_in(window: str) -> Amount:
    """GPU hours in the window, from a recorded rate that is evaluated once a minute."""
    return lambda recorded: hours(recorded, window)


class Amounts(Protocol):
    """Amounts of time in PromQL, all with the same labels. `known` is what was observed, allocated or free."""

    def known(self) -> str: ...
    def allocated(self) -> str: ...
    def observed(self) -> str: ...
    def used(self) -> str: ...
    def lost(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Totals:
    """Amounts of one level of owners, recorded: one series per owner, which a long range can be asked of."""

    level: str
    matchers: str
    by: str
    amount: Amount

    def known(self) -> str:
        return self.observed()

    def allocated(self) -> str:
        return self._of("gpu_workload_allocated")

    def observed(self) -> str:
        return self._of("gpu_workload_observed")

    def used(self) -> str:
        return self._of("gpu_workload_busy")

    def lost(self) -> str:
        return self._of("gpu_waste")

    def target_gpu_hours(self) -> str:
        """Return the GPU hours that the targets of its classes ask for."""
        return self._of("gpu_workload_good")

    def _of(self, name: str) -> str:
        selector = f"{self.level}:{name}:rate5m{{{self.matchers}}}"
        return f"sum by ({self.by}) ({self.amount(selector)})"


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger in PromQL: its series, the matchers that select from it, the labels of the result, and of what time."""

    series: str
    matchers: str
    by: str
    amount: Amount

    def of(self, *states: str) -> str:
        """The time in the states that these matchers select."""
        selector = f"{self.series}{{{', '.join((self.matchers, *states))}}}"
        return f"sum by ({self.by}) ({self.amount(selector)})"

    def known(self) -> str:
        return self.of(without(UNOBSERVED))

    def allocated(self) -> str:
        return self.of(without(FREE))

    def observed(self) -> str:
        return self.of(without((*FREE, *UNOBSERVED)))

    def used(self) -> str:
        return self.or_none(among(BUSY))

    def lost(self) -> str:
        return f"{self.or_none(among(LOST))} and {self.observed()} > 0"

    def or_none(self, *states: str) -> str:
        """The same, and 0 where something was observed and none of it in these states: recordings leave zeros out."""
        return f"({self.of(*states)} or 0 * {self.known()})"


def hours(recorded: str, window: str) -> str:
    """GPU hours in the window, from a recorded rate that is evaluated once a minute; by several, it counts once."""
    return f"max without ({REPLICAS}) (sum_over_time({recorded}[{window}])) * {RULE_SECONDS} / 3600"


def grown_in(window: str) -> Amount:
    """GPU hours in the window, from recorded growth in seconds; by several, it counts once."""
    return lambda recorded: f"{summed_in(window)(recorded)} / 3600"


def summed_in(window: str) -> Amount:
    """Return the sum of recorded growth in the window; by several, it counts once."""
    return lambda recorded: f"max without ({REPLICAS}) (sum_over_time({recorded}[{window}]))"


@dataclass(frozen=True, slots=True)
class OwnerLevel(Ledger):
    """Amounts of the owners of one level, by the exact counters of the accounting."""

    def target_gpu_hours(self) -> str:
        """GPU hours that would meet the targets of its classes."""
        known = without((*FREE, *UNOBSERVED))
        classes = [(f'class="{name}", ', good) for name, good in GOOD.items() if good != HIGH]
        arms = [
            f"{self.amount(f'{self.series}{{{self.matchers}, {only}{known}}}')} * {good:g}"
            for only, good in (*classes, ("", HIGH))
        ]
        return f"sum by ({self.by}) ({' or '.join(arms)})"


def among(states: Iterable[str]) -> str:
    return f'state=~"{"|".join(states)}"'


def without(states: Iterable[str]) -> str:
    return f'state!~"{"|".join(states)}"'


def _sum_states(of: Hours, states: Iterable[str]) -> float:
    return sum(of.get(state, 0.0) for state in states)


def allocated(of: Hours) -> float:
    return sum(of.values()) - _sum_states(of, FREE)


def observed(of: Hours) -> float:
    return allocated(of) - _sum_states(of, UNOBSERVED)


def used(of: Hours) -> float | None:
    return _sum_states(of, BUSY) if observed(of) > 0 else None


def busy_ratio(of: Hours) -> float | None:
    known = sum(of.values()) - _sum_states(of, UNOBSERVED)
    return _sum_states(of, BUSY) / known if known > 0 else None


def lost(of: Hours) -> float | None:
    return _sum_states(of, LOST) if observed(of) > 0 else None


def cost(of: Hours, per_hour: float) -> float:
    """Return the cost of the allocated hours; `promql.allocated_price` is the other form."""
    return allocated(of) * per_hour


def cost_of_waste(of: Hours, per_hour: float) -> float | None:
    """The part of it that was wasted; `promql.waste_price` is the other form."""
    wasted = lost(of)
    return None if wasted is None else wasted * per_hour


def utilization(of: Hours) -> float | None:
    return _sum_states(of, BUSY) / observed(of) if observed(of) > 0 else None


def target_ratio(of: Hours, work_class: str = "") -> float | None:
    """Utilization divided by the target of its class of work; `target_ratio_promql` is the other form."""
    ratio = utilization(of)
    return None if ratio is None else ratio / GOOD.get(work_class, HIGH)


def target_ratio_promql(of: Totals | OwnerLevel) -> str:
    """Utilization divided by the target of its class of work."""
    return f"{of.used()} / ({of.target_gpu_hours()} > 0)"


@dataclass(frozen=True, slots=True)
class Definition:
    """One number, in words, in PromQL and in Python. Both forms give nothing where nothing was observed."""

    name: str
    numerator: str
    denominator: str
    unobserved: str
    """Effect of time in which nobody could report what the GPU did."""
    promql: Callable[[Amounts], str]
    python: Callable[[Hours], float | None]


ALLOCATED = Definition(
    "Allocated",
    "GPU hours in which the GPU was allocated, used or not; a fraction of a GPU counts as a fraction",
    "",
    "counts as allocated",
    lambda of: of.allocated(),
    allocated,
)
USED = Definition(
    "Used",
    "GPU hours in which a kernel ran: all busy states, the throttled ones too",
    "",
    "counts as not used; with nothing else there is no number",
    lambda of: f"{of.used()} and {of.observed()} > 0",
    used,
)
WASTED = Definition(
    "Wasted",
    "GPU hours in a lost state: allocated, and certainly or likely lost; possible losses do not count",
    "",
    "counts as not wasted; with nothing else there is no number",
    lambda of: of.lost(),
    lost,
)
UTILIZATION = Definition(
    "Utilization",
    "used GPU hours",
    "allocated GPU hours that were observed",
    "is in neither; with nothing else there is no number",
    lambda of: f"{of.used()} / ({of.observed()} > 0)",
    utilization,
)
BUSY_RATIO = Definition(
    "Busy",
    "used GPU hours",
    "GPU hours that were observed, allocated or free: use of a GPU, a node or a model by all owners",
    "is in neither; with nothing else there is no number",
    lambda of: f"{of.used()} / ({of.known()} > 0)",
    busy_ratio,
)
DEFINITIONS = (ALLOCATED, USED, WASTED, UTILIZATION, BUSY_RATIO)
