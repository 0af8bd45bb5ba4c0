"""Every query of the report. What the Waste dashboard asks too is the same text here; a test holds them equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exporter.ledger.states import RULES, Group
from exporter.report.price import Price

EVERYTHING = 'cluster=~".*"'

BUSY = tuple(rule.state for rule in RULES if rule.group is Group.BUSY)
"""A kernel ran."""
WASTED = tuple(
    rule.state
    for rule in RULES
    if rule.group is Group.WAITING
    or rule.state == "held_idle"
    or (rule.group is Group.BUSY and rule.audience == "oncall")
)
"""Held, and nothing (or less than could be) came of it: what the recording rules call waste."""
BUSY_REGEX, WASTED_REGEX = "|".join(BUSY), "|".join(WASTED)
RULE_SECONDS = 60
"""Between two evaluations of a recording rule: sums over time of one, times this, are integrals in seconds."""
LEVELS = ("account", "namespace", "user")


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def matchers(**labels: str) -> str:
    return ", ".join(f"{name}={quoted(value)}" for name, value in labels.items())


def advanced(counter: str, window: str) -> str:
    """How far a counter got in the window, exactly: no extrapolation, and a counter born in it counts from 0.

    `increase()` misses what a counter had before its first scrape, up to one interval of a short job. Only where the
    exporter restarted (the counter was reset) it is the best there is.
    """
    whole = f"(max_over_time({counter}[{window}]) - {counter} offset {window} or max_over_time({counter}[{window}]))"
    return f"({whole} unless resets({counter}[{window}]) > 0 or increase({counter}[{window}]))"


def hours(recorded: str, window: str) -> str:
    """GPU hours in the window, from a recorded rate that is evaluated once a minute."""
    return f"sum_over_time({recorded}[{window}]) * {RULE_SECONDS} / 3600"


# --- the digest: the queries of the Waste dashboard -------------------------------------------------------------


def _ledger(level: str, scope: str) -> str:
    return f"{level}_state:gpu_workload_gpu_seconds:rate5m{{{scope}"


def keys(level: str) -> str:
    return "workload, user, namespace, account" if level == "workload" else level


def held(level: str, scope: str, window: str) -> str:
    return f"sum by ({keys(level)}) ({hours(_ledger(level, scope) + '}', window)})"


def wasted(level: str, scope: str, window: str) -> str:
    return f"sum by ({keys(level)}) ({hours(f'{level}:gpu_waste:rate5m{{{scope}}}', window)})"


def utilization(level: str, scope: str, window: str) -> str:
    ledger = _ledger(level, scope)
    by = "cluster, workload, kind, user, namespace, account" if level == "workload" else level
    busy = f'sum by ({by}) (sum_over_time({ledger}, state=~"{BUSY_REGEX}"}}[{window}]))'
    ratio = f"{busy} / (sum by ({by}) (sum_over_time({ledger}}}[{window}])) > 0)"
    return f"max by ({keys(level)}) ({ratio})"


def wasted_on(level: str, scope: str, window: str) -> str:
    inner = f'sum_over_time({_ledger(level, scope)}, state=~"{WASTED_REGEX}"}}[{window}]) > 0'
    by = keys(level)
    return f"topk by ({by}) (1, max by ({by}, state) ({inner}))"


def price_of_waste(level: str, scope: str, window: str, prices: Sequence[Price]) -> str:
    mine = scope if level == "workload" else f'{scope}, {level}!=""'
    return f"sum by ({keys(level)}) ({_waste_price(mine, window, prices)})"


def _waste_price(owner: str, window: str, prices: Sequence[Price]) -> str:
    by = "cluster, workload"
    waste = f"sum by ({by}) (sum_over_time(workload:gpu_waste:rate5m{{{owner}}}[{window}]))"
    everything = f"sum by ({by}) (sum_over_time(workload_state:gpu_workload_gpu_seconds:rate5m{{{owner}}}[{window}]))"
    paid = _priced(lambda model: hours(f"workload_model:gpu_owner_share:sum{{{owner}{model}}}", window), prices)
    return f"{paid} * on ({by}) group_left () ({waste} / ({everything} > 0))"


def _priced(gpu_hours: Callable[[str], str], prices: Sequence[Price]) -> str:
    arms = (
        f"{gpu_hours(f', model=~{quoted(row.models)}' if row.models else '')} * {row.per_hour:.2f}" for row in prices
    )
    return "(" + " or ".join(arms) + ")"


def causes(scope: str, window: str) -> str:
    recorded = f'{_ledger("workload", scope)}, state=~"{WASTED_REGEX}"}}'
    return f"sum by (state) ({hours(recorded, window)} > 0)"


# --- one workload ----------------------------------------------------------------------------------------------

PLACE = "node, instance"
"""Labels that name a node; `node` is there where the scrape adds it."""
DEVICE = "node, instance, gpu, uuid"


def info(selector: str, window: str) -> str:
    return f"last_over_time(gpu_workload_info{{{selector}}}[{window}])"


def holding(selector: str) -> str:
    """GPUs held; no point while none is."""
    return f"sum (gpu_workload_gpus{{{selector}}}) > 0"


def nodes(selector: str, window: str) -> str:
    return f"sum by ({PLACE}) (max_over_time(gpu_workload_gpus{{{selector}}}[{window}]))"


def of_nodes(counter: str, selector: str, window: str, *more: str) -> str:
    """How far a counter of the workload got, per node."""
    return f"sum by ({', '.join((PLACE, *more))}) ({advanced(f'{counter}{{{selector}}}', window)})"


def most(gauge: str, selector: str, window: str) -> str:
    """The highest a gauge of the workload was, per node."""
    return f"sum by ({PLACE}) (max_over_time({gauge}{{{selector}}}[{window}]))"


def last(gauge: str, selector: str, window: str) -> str:
    """The last a gauge of the workload was, the highest of its nodes."""
    return f"max (last_over_time({gauge}{{{selector}}}[{window}]))"


def _held(share: str, selector: str, window: str) -> str:
    """1 for each device the workload held at any time of the window."""
    held_ = f"max by ({DEVICE}) (max_over_time({share}{{{selector}}}[{window}]))"
    return f"({held_} > 0)"


def shares(selector: str, window: str) -> str:
    return _held("gpu_owner_share", selector, window)


def mig_shares(selector: str, window: str) -> str:
    by = f"{DEVICE}, profile"
    return f"max by ({by}) (max_over_time(gpu_mig_owner_share{{{selector}}}[{window}])) > 0"


def on_devices(expr: str, selector: str, window: str, *more: str, mig: bool = False) -> str:
    """A device's series, summed by `more`, on the devices the workload held."""
    share = "gpu_mig_owner_share" if mig else "gpu_owner_share"
    return f"sum by ({', '.join((DEVICE, *more))}) ({expr}) and on ({DEVICE}) {_held(share, selector, window)}"


def models(selector: str, window: str) -> str:
    return (
        f"max by ({DEVICE}, model) (last_over_time(gpu_info[{window}]))"
        f" and on ({DEVICE}) {_held('gpu_owner_share', selector, window)}"
    )


ANY_METRICS = "count(gpu_exporter_build_info)"
RULES_THERE = "count(count_over_time(cluster_state:gpu_time_seconds:rate5m[{window}]))"
