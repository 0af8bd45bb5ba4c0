"""Recording rules of what owners got: the growth of exact counters since they were recorded last.

Neither `rate` nor `increase`: both lose the first sample of a series, what lies between their windows, and all
that a missed evaluation had to read. The last recorded value is kept as a series. The next evaluation reaches
back to it, up to 25 hours. No label of the target takes part: a rollout gives the exporter's pod another name.
"""

from __future__ import annotations

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import by, record
from exporter.accounting.families import OWNER_COUNTER_LABELS
from exporter.tools.report.accounting.prices import SITE_TEAM
from exporter.tools.report.definitions import grown_in

INTERVAL = "1h"
"""A month has 720 values of each series, and the last hour is not in it yet."""
_LATEST = "2h"
"""Age up to which a counter has a value: longer than the interval, for nodes that went between two evaluations."""
_REACH = "25h"
"""Range in which the last recorded value is searched. Counters outlive their owner's work by 24 hours."""
_REACH_SECONDS = 25 * 3600
OF_OWNER = tuple(label for label in OWNER_COUNTER_LABELS if label not in {"store", "since"})
_BIRTH = "gpu_owner_since_timestamp_seconds"


def _growth(counter: str, name: str, labels: tuple[str, ...], unit: str) -> tuple[Recording, ...]:
    """Return the rules of one counter: its value now, its growth since the last recorded value, and that value.

    The last recorded value is an earlier one (`offset 1s`), in whatever order rules are evaluated.
    """
    life = (*OWNER_COUNTER_LABELS, *labels)
    now, last = f"store:{name}:now", f"store:{name}:last"
    born = f"max {by(OWNER_COUNTER_LABELS)} (last_over_time({_BIRTH}[{_LATEST}])) > time() - {_REACH_SECONDS}"
    grown = (
        f"{now} - (last_over_time({last}[{_REACH}] offset 1s)"
        f" or 0 * {now} and on ({', '.join(('cluster', *OWNER_COUNTER_LABELS))}) {born}"
        f" or min {by(life)} (min_over_time({counter}[{_LATEST}])))"
    )
    return (
        record(now, life, f"max {by(life)} (last_over_time({counter}[{_LATEST}]))", f"The counter, once, {unit}."),
        record(
            f"owner:{name}:increase",
            (*OF_OWNER, *labels),
            f"sum {by((*OF_OWNER, *labels))} ({grown}) != 0",
            f"Growth since the last recorded value, {unit}. A counter born since counts from 0.",
        ),
        record(last, life, now, "The last recorded value."),
    )


_OWN_TEAM = (
    'label_replace(label_replace(owner:{name}:increase, "team", "$1", "workload_namespace", "(.+)"),'
    ' "team", "$1", "account", "(.+)")'
)
_SITE_TEAM = f"group by (team, site_team) ({SITE_TEAM})"
_TEAM = (
    f'label_replace({_OWN_TEAM} * on (team) group_left (site_team) {_SITE_TEAM}, "team", "$1", "site_team", "(.+)")'
    f" or {_OWN_TEAM} unless on (team) {_SITE_TEAM}"
)
"""The account of Slurm, else the namespace, or the team that the site maps it to."""
LEVELS = (
    ("namespace", ("workload_namespace",)),
    ("account", ("account",)),
    ("user", ("user",)),
    ("team", ("team",)),
    ("cluster", ("pool",)),
)


def _source(level: str, label: str, name: str) -> str:
    """Return the growth of the owners of a level."""
    if level == "team":
        return _TEAM.format(name=name)
    return f"owner:{name}:increase" + (f'{{{label}!=""}}' if level != "cluster" else "")


def _level(level: str, labels: tuple[str, ...], name: str, kept: tuple[str, ...], what: str) -> Recording:
    source = _source(level, labels[0], name)
    result = (*labels, "class", "model", "profile", *kept)
    recorded = f"{level}_state" if kept else level
    return record(f"{recorded}:{name}:increase", result, f"sum {by(result)} ({source})", f"{what} of the {level}.")


_PRICED = "cluster, model, profile, pool"
_LAST_PRICE = f"last_over_time(gpu:price_per_hour[{_REACH}])"
_PRICE = f"max by ({_PRICED}) (gpu:price_per_hour or {_LAST_PRICE} unless on () gpu:price_per_hour)"
"""The last price where there is none: after an outage these rules may be evaluated before prices are."""


def _cost(level: str, name: str, labels: tuple[str, ...], growth: str, what: str) -> Recording:
    return record(
        f"{level}:gpu_owner_{name}cost:increase",
        labels,
        f"sum {by(labels)} (({growth}) * on ({_PRICED}) group_left () {_PRICE}) / 3600",
        f"{what} at the price of that hour, in the currency of the site's price file.",
    )


_ALLOCATED = ("team", "class", "model", "profile")
_COUNTERS = (
    ("gpu_owner_gpu_seconds", ("state",), "GPU seconds", "GPU seconds by state"),
    ("gpu_owner_busy_gpu_seconds", (), "GPU seconds", "GPU seconds in which kernels ran"),
    ("gpu_owner_energy_joules", (), "joules", "Energy in joules"),
)
ACCOUNTING = (
    *(rule for name, labels, unit, _ in _COUNTERS for rule in _growth(f"{name}_total", name, labels, unit)),
    *(_level(level, labels, name, kept, what) for level, labels in LEVELS for name, kept, _, what in _COUNTERS),
    record(
        "team:gpu_owner_gpu_seconds:increase",
        _ALLOCATED,
        f'sum {by(_ALLOCATED)} (team_state:gpu_owner_gpu_seconds:increase{{team!="",state!="free"}})',
        "Allocated GPU seconds of the team. A year has a tenth of the series by state.",
    ),
    *(
        _cost(
            f"{level}_state",
            "",
            ("model" if level == "cluster" else labels[0], "state"),
            _source(level, labels[0], "gpu_owner_gpu_seconds"),
            f"Cost of GPU time by state of the {level},",
        )
        for level, labels in LEVELS
    ),
    record(
        "team:gpu_owner_cost:increase",
        ("team",),
        'sum by (cluster, team) (team_state:gpu_owner_cost:increase{team!="",state!="free"})',
        "Cost of allocated GPU time of the team, in the currency of the site's price file.",
    ),
    _cost(
        "team",
        "busy_",
        ("team",),
        _source("team", "team", "gpu_owner_busy_gpu_seconds"),
        "Cost of GPU time in which kernels ran of the team,",
    ),
)
"""Rules of one group, in this order: the increase reads the last recorded value before it is replaced."""

_DAY = "gpu_accounting_day_gpu_seconds > 0"
_RECORDED = "cluster_state:gpu_owner_gpu_seconds:increase"
DIFFERENCE = record(
    "cluster:gpu_accounting_difference:ratio",
    (),
    f"abs(sum by (cluster) ({grown_in('1d')(_RECORDED)}) * 3600 / max by (cluster) ({_DAY}) - 1)"
    f" and on (cluster) last_over_time({_RECORDED}[{_LATEST}] offset {_REACH})",
    "GPU time of the last day that the recorded totals and the accounting service count differently, of all.",
)
