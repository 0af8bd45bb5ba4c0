"""Every query of the report but those of its subject. A test compares those of the digest with the Waste dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.tools.report.definitions import (
    ALLOCATED,
    LOST,
    POSSIBLY_LOST,
    RULE_SECONDS,
    SCRAPE,
    UTILIZATION,
    WASTED,
    Ledger,
    OwnerLevel,
    Totals,
    among,
    grown_in,
    hours,
    hours_in,
    summed_in,
    target_ratio_promql,
)

EVERYTHING = 'cluster=~".*"'

LEVELS = ("account", "namespace", "user")

KIND, WHOLE = "cluster, model, profile, pool", "cluster, model"
"""Labels by which GPU hours have a price: with the profile of MIG instances and the pool, and of whole GPUs."""

WORKLOAD_PRICE = "workload:gpu_price_per_hour:sum"
"""Recorded price of an hour of the GPUs that are allocated to each workload."""

TEAM = "team"
"""The level that all work is in: the account, else the namespace."""

PLACE = "node, instance"
"""Labels that name a node; `node` is there where the scrape adds it."""
DEVICE = "node, instance, gpu, uuid"


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def matchers(**labels: str) -> str:
    return ", ".join(f"{name}={quoted(value)}" for name, value in labels.items())


def exact_increase(counter: str, window: str) -> str:
    """Return how far a counter got in the window, exactly: no extrapolation, and a counter born in it counts from 0.

    `increase()` misses what a counter had before its first scrape, up to one interval of a short job. Only where the
    exporter restarted (the counter was reset) it is the best there is.
    """
    return _counter_increase(counter, window, f"max_over_time({counter}[{window}])")


def increase_since_first_sample(counter: str, window: str) -> str:
    """The same of a device, which is older than the window: where nobody scraped it before, its first sample tells.

    Only a state that it was never in before is counted from 0.
    """
    most, least = f"max_over_time({counter}[{window}])", f"min_over_time({counter}[{window}])"
    return _counter_increase(
        counter, window, f"({most} and on ({DEVICE}) {counter} offset {window}) or ({most} - {least})"
    )


def _counter_increase(counter: str, window: str, without_earlier: str) -> str:
    whole = f"(max_over_time({counter}[{window}]) - {counter} offset {window} or {without_earlier})"
    return f"({whole} unless resets({counter}[{window}]) > 0 or increase({counter}[{window}]))"


# --- the digest: the queries of the Waste dashboard -------------------------------------------------------------


def label(level: str) -> str:
    """Return the label that names the owners of a level: of namespaces one that no scraper overwrites."""
    return "workload_namespace" if level == "namespace" else level


def keys(level: str) -> str:
    return "cluster, workload, user, workload_namespace, account" if level == "workload" else label(level)


def ledger(level: str, scope: str, window: str, by: str) -> Ledger:
    """GPU hours of owners by state: of workloads by rates, of all above them by exact counters."""
    if level == "workload":
        return Ledger("workload_state:gpu_workload_gpu_seconds:rate5m", scope, by, hours_in(window))
    return OwnerLevel(f"{level}_state:gpu_owner_gpu_seconds:increase", scope, by, grown_in(window))


def totals(level: str, scope: str, window: str) -> Totals | OwnerLevel:
    """GPU hours of owners, whatever the state."""
    if level == "workload":
        return Totals(level, scope, keys(level), hours_in(window))
    return OwnerLevel(
        f"{level}_state:gpu_owner_gpu_seconds:increase", owned(level, scope), keys(level), grown_in(window)
    )


def allocated_gpu_hours(level: str, scope: str, window: str) -> str:
    return ALLOCATED.promql(totals(level, scope, window))


def busy_gpu_hours(level: str, scope: str, window: str) -> str:
    """GPU hours that kernels of owners ran, whatever their shares of the GPUs; 0 where none was seen to run."""
    of = totals(level, scope, window)
    ran = hours(f"workload:gpu_workload_used:rate5m{{{of.matchers}}}", window)
    if level != "workload":
        ran = grown_in(window)(f"{level}:gpu_owner_busy_gpu_seconds:increase{{{owned(level, scope)}}}")
    return f"(sum by ({of.by}) ({ran}) or 0 * ({of.used()} == 0 and {of.observed()} > 0))"


def wasted(level: str, scope: str, window: str) -> str:
    return WASTED.promql(totals(level, scope, window))


def utilization(level: str, scope: str, window: str) -> str:
    return UTILIZATION.promql(totals(level, scope, window))


def target_ratio(level: str, scope: str, window: str) -> str:
    return target_ratio_promql(totals(level, scope, window))


def wasted_on(level: str, scope: str, window: str) -> str:
    by = keys(level)
    lost = ledger(level, owned(level, scope), window, f"{by}, state").of(among(LOST))
    return f"topk by ({by}) (1, {lost} > 0)"


def priced(gpus: str, *kept: str) -> str:
    """Return the price of an hour of whole GPUs, that of their label `pool` if it has one, with labels of the price."""
    joins = (
        f"({gpus}) * on ({labels}) group_left ({', '.join(kept)})"
        f" max by ({', '.join((labels, *kept))}) (gpu:price_per_hour{{{matchers}}})"
        for labels, matchers in ((f"{WHOLE}, pool", 'profile=""'), (WHOLE, 'profile="",pool=""'))
    )
    return f"({' or '.join(joins)})"


def cost(recorded: str, matchers: str, window: str, by: str) -> str:
    """Return the recorded cost, each hour at its own price. `recorded` is `team_state:gpu_owner_cost` or alike."""
    return f"sum by ({by}) ({summed_in(window)(f'{recorded}:increase{{{matchers}}}')})"


def cost_in_states(level: str, scope: str, window: str, states: str, by: str = "") -> str:
    """Return the cost of the hours that owners of a level had in some states, by the labels `by`."""
    return cost(f"{level}_state:gpu_owner_cost", f"{owned(level, scope)}, {states}", window, by or keys(level))


def price_of_waste(level: str, scope: str, window: str) -> str:
    if level != "workload":
        return cost_in_states(level, scope, window, among(LOST))
    return f"sum by ({keys(level)}) ({waste_price(scope, window)})"


def price_of_possible_waste(level: str, scope: str, window: str) -> str:
    states = among(POSSIBLY_LOST)
    if level != "workload":
        return cost_in_states(level, scope, window, states)
    by = keys(level)
    hours_by_workload = ledger(level, scope, window, by).of(states)
    return f"sum by ({by}) ({hours_by_workload} * {_mean_price(scope, window)})"


def owned(level: str, scope: str) -> str:
    """The scope, without what has no such owner."""
    return scope if level in {"workload", "cluster"} else f'{scope}, {label(level)}!=""'


def allocated_price(owner: str, window: str) -> str:
    """Return the price of the GPUs allocated to each workload; a MIG instance is priced as the part of a GPU it is."""
    return f"{ALLOCATED.promql(totals('workload', owner, window))} * {_mean_price(owner, window)}"


def waste_price(owner: str, window: str) -> str:
    return f"({WASTED.promql(totals('workload', owner, window))}) * {_mean_price(owner, window)}"


def _mean_price(owner: str, window: str) -> str:
    """Return the mean price of an hour of each workload's GPUs, each counted by the time it was allocated."""
    by = keys("workload")
    price, allocated = (
        f"sum by ({by}) ({hours(f'{name}{{{owner}}}', window)})"
        for name in (WORKLOAD_PRICE, "workload_model:gpu_allocation_ratio:sum")
    )
    return f"({price} / ({allocated} > 0))"


def causes(level: str, scope: str, window: str) -> str:
    return f"{ledger(level, owned(level, scope), window, 'state').of(among(LOST))} > 0"


# --- one workload ----------------------------------------------------------------------------------------------


def info(selector: str, window: str) -> str:
    return f"last_over_time(gpu_workload_info{{{selector}}}[{window}])"


ONCE = f"max without ({SCRAPE})"
"""Series of one exporter that two scrape jobs, or two replicas of Prometheus, have each of: they count once."""

_MAX_POINTS = 2_000
_MIN_STEP_SECONDS = 5
"""Moments of a window at which gauges are added up: each reads every job of an array."""


def nodes(selector: str, window: str) -> str:
    return highest("gpu_workload_allocated_gpus", selector, window)


def max_concurrent_gpus(selector: str, window: str) -> str:
    """The most GPUs allocated on all nodes together: of a job that was moved, less than the sum over its nodes."""
    return _at_once(f"sum ({ONCE} (gpu_workload_allocated_gpus{{{selector}}}))", window)


def mean_prices(_: str, window: str) -> str:
    """Return the mean price of a GPU hour in the window, by exact model, MIG profile and pool."""
    return f"max by ({KIND}) (avg_over_time(gpu:price_per_hour[{window}]) or gpu:price_per_hour)"


def devices_at_once(selector: str, window: str) -> str:
    """The most GPUs and MIG instances that it had a share of at one time."""
    shares_ = (f"{metric}{{{selector}}}" for metric in ("gpu_allocation_ratio", "gpu_mig_allocation_ratio"))
    each = " or ".join(f"max by ({DEVICE}) ({metric}) > 0" for metric in shares_)
    return _at_once(f"count ({each})", window)


def _at_once(sum_: str, window: str) -> str:
    step = max(_MIN_STEP_SECONDS, int(window.removesuffix("s")) // _MAX_POINTS)
    return f"max_over_time({sum_}[{window}:{step}s])"


def of_nodes(counter: str, selector: str, window: str, *more: str) -> str:
    """Return how far a counter of the workload got, per node."""
    return f"sum by ({', '.join((PLACE, *more))}) ({ONCE} ({exact_increase(f'{counter}{{{selector}}}', window)}))"


def highest(gauge: str, selector: str, window: str) -> str:
    """The highest a gauge of the workload was, per node; of its pods, those that were there at the same time add up.

    One that was there between two moments only is not added to others, but counts itself.
    """
    together = _at_once(f"sum by ({PLACE}) ({ONCE} ({gauge}{{{selector}}}))", window)
    one = f"max by ({PLACE}) (max_over_time({gauge}{{{selector}}}[{window}]))"
    return f"{together} >= {one} or {one}"


def last(gauge: str, selector: str, window: str) -> str:
    """The last a gauge of the workload was, the highest of its nodes."""
    return f"max (last_over_time({gauge}{{{selector}}}[{window}]))"


def any_of(names: Sequence[str], selector: str, window: str) -> str:
    """Return how many series of the first of these metrics there were; nothing where there was none of any."""
    return " or ".join(f"count (last_over_time({name}{{{selector}}}[{window}]))" for name in names)


_TOGETHER = frozenset({"steps"})
"""Taken by all ranks together, on all nodes: the furthest counts. What else programs report adds up."""


def reported(counter: str, selector: str, window: str, by: str = "") -> str:
    """Return how far a counter that programs report got, over all nodes; `by` may be ` by (LABELS)`."""
    amount = exact_increase(f"gpu_workload_{counter}_total{{{selector}}}", window)
    return f"{'max' if counter in _TOGETHER else 'sum'}{by} ({ONCE} ({amount}))"


def of_workloads(counter: str, selector: str, window: str) -> str:
    return f"sum by (workload) ({ONCE} ({exact_increase(f'{counter}{{{selector}}}', window)}))"


def highest_of_workloads(gauge: str, selector: str, window: str) -> str:
    return f"sum by (workload) ({ONCE} (max_over_time({gauge}{{{selector}}}[{window}])))"


def last_of_workloads(gauge: str, selector: str, window: str) -> str:
    return f"max by (workload) (last_over_time({gauge}{{{selector}}}[{window}]))"


def newest(selector: str, window: str, most: int) -> str:
    """Return when the newest workloads began that `selector` picks by their information."""
    began = f"min by (cluster, workload) (last_over_time(gpu_workload_start_time_seconds[{window}]))"
    return f"topk({most}, {began} and on (cluster, workload) last_over_time(gpu_workload_info{{{selector}}}[{window}]))"


def _allocated_devices(metric: str, selector: str, window: str) -> str:
    """1 for each device allocated to the workload at any time of the window."""
    allocated = f"max by ({DEVICE}) (max_over_time({metric}{{{selector}}}[{window}]))"
    return f"({allocated} > 0)"


def shares(selector: str, window: str) -> str:
    return _allocated_devices("gpu_allocation_ratio", selector, window)


def mig_fractions(selector: str, window: str) -> str:
    by = f"{DEVICE}, profile"
    return f"max by ({by}) (max_over_time(gpu_mig_allocation_ratio{{{selector}}}[{window}])) > 0"


def on_devices(expr: str, selector: str, window: str, *more: str, mig: bool = False) -> str:
    """A device's series, summed by `more`, on the devices allocated to the workload."""
    metric = "gpu_mig_allocation_ratio" if mig else "gpu_allocation_ratio"
    each = f"sum by ({', '.join((DEVICE, *more))}) ({ONCE} ({expr}))"
    return f"{each} and on ({DEVICE}) {_allocated_devices(metric, selector, window)}"


def models(selector: str, window: str) -> str:
    return (
        f"max by ({DEVICE}, model) (last_over_time(gpu_info[{window}]))"
        f" and on ({DEVICE}) {_allocated_devices('gpu_allocation_ratio', selector, window)}"
    )


RULE, ANY_METRICS = "cluster_state:gpu_state_seconds:rate5m", "count(gpu_exporter_build_info)"
DIFFERENCE = (
    "max(max_over_time(gpu_accounting_scheduler_difference_ratio[{window}])"
    " or max_over_time(cluster:gpu_accounting_difference:ratio[{window}])) >= 0.01"
)


def covered_seconds(scope: str, window: str) -> str:
    """Return the part of the window for which rules have recorded something."""
    return f"max(count_over_time(cluster:gpu_exporters:count{{{scope}}}[{window}])) * {RULE_SECONDS}"


_MOST, _LEAST, _SERIES = 4_000, 100, 32_000
"""Moments of a window that are looked at, and their number times that of the GPUs: of many there are fewer."""


class Turns:
    """Turns of so many GPUs, or MIG instances, in a window."""

    def __init__(self, devices: int, *, mig: bool) -> None:
        self._devices = max(1, devices)
        self._share = "gpu_mig_allocation_ratio" if mig else "gpu_allocation_ratio"

    def grown(self, counter: str, selector: str, window: str, *more: str) -> str:
        """Return how far a counter of the devices got: what it gained from moment to moment while they were allocated.

        A state that a device was never in before is counted from 0; where the exporter restarted, what it had first is
        left out. Replicas of one series are one before they are compared with the moment before: each sees it grow a
        little later than the other.
        """
        by, before = ", ".join((DEVICE, *more)), f"offset {self._step(window)}s"
        now, then = (f"max by ({by}) ({counter}{at})" for at in ("", f" {before}"))
        known = f"max by ({DEVICE}) ({counter} {before})"
        gained = f"({now} - {then} >= 0 or {now} unless {then} and on ({DEVICE}) {known})"
        return self._over_window("sum_over_time", gained, selector, window)

    def highest(self, gauge: str, selector: str, window: str) -> str:
        """Return the highest of the samples at which it was allocated, then and a moment before."""
        step, own = f"{self._step(window)}s", f"on ({DEVICE}, {SCRAPE}) {self._share}{{{selector}}}"
        between = f"max_over_time({gauge}[{step}]) and {own} offset {step} > 0"
        return self._over_window(
            "max_over_time", f"max by ({DEVICE}) ({between} or {gauge} and {own} > 0)", selector, window
        )

    def mean(self, gauge: str, selector: str, window: str) -> str:
        """Return the mean of the scrape that saw the workload there: another replica's is a little earlier or later."""
        own = f"on ({DEVICE}, {SCRAPE}) {self._share}{{{selector}}}"
        return self._over_window("avg_over_time", f"max by ({DEVICE}) ({gauge} and {own} > 0)", selector, window)

    def seconds(self, selector: str, window: str) -> str:
        """Return the query for the time in which each was allocated."""
        step = self._step(window)
        return f"count_over_time(({self._holding_selector(selector)})[{window}:{step}s]) * {step}"

    def _over_window(self, function: str, each: str, selector: str, window: str) -> str:
        allocated = f"{each} and on ({DEVICE}) ({self._holding_selector(selector)})"
        return f"{function}(({allocated})[{window}:{self._step(window)}s])"

    def _holding_selector(self, selector: str) -> str:
        """Also where series that end are there for five minutes more: the workload holds none on the node then."""
        here = f"max by ({PLACE}) (gpu_workload_allocated_gpus{{{selector}}}) > 0"
        return f"max by ({DEVICE}) ({self._share}{{{selector}}}) > 0 and on ({PLACE}) ({here})"

    def _step(self, window: str) -> int:
        points = min(_MOST, max(_LEAST, _SERIES // self._devices))
        return -(-int(window.removesuffix("s")) // points)
