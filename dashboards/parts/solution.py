"""Time to solution: what is still needed to the end, and how the runs of one name compare."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, style, variable
from dashboards.parts.query import CLUSTER, JOULES_PER_KWH, KWH, RANGE, hours
from dashboards.parts.table import Key, Table, Text, Value, gauge
from exporter.tools.report.promql import WORKLOAD_PRICE

_SILENT = "No program of the selection reports its progress"
_ALONE = "No job name of the selection has runs that report what they get done"
_ON = "cluster, workload"
_NAME = "cluster, user, job_name, unit"


def changed() -> build.TextBoxVariable:
    return variable.text(
        "changed", "Changed, hours ago", "24", "Runs of one name are compared before and after so many hours ago"
    )


def to_the_end(scope: str) -> table.Panel:
    """Energy and cost go on at what they are now."""
    name = link.cell("Workload")
    done = f"max by ({_ON}) (gpu_workload_progress_ratio{{{scope}}})"
    elapsed = f"(time() - max by ({_ON}) (workload:gpu_workload_start_time_seconds:max{{{scope}}}))"
    told = f"max by ({_ON}) (gpu_workload_expected_seconds_remaining{{{scope}}})"
    left = f"({told} or {elapsed} * (1 - {done}) / ({done} > 0))"
    rate = f"workload_unit:gpu_workload_throughput:rate5m{{{scope}}}"
    summed = f"sum by ({_ON}) ({rate})"
    gpus = f"sum by ({_ON}) (workload:gpu_workload_allocated_gpus:sum{{{scope}}})"
    watts = f"sum by ({_ON}) (workload:gpu_workload_energy_joules:rate5m{{{scope}}})"
    hourly = f"{WORKLOAD_PRICE}{{{scope}}}"
    return Table(
        title="Estimated completion",
        description="Time to the end as the program reports, else at its mean pace; energy and cost of that time at what they are now, at the prices "
        "of the site's price file. Time to train is MLPerf Training's measure: from the program's start until its target quality was reached.",
        keys=(Key("cluster", "Cluster", hidden=True), Key("workload", "Workload", (link.to_pod(name), link.to_job(name)))),
        columns=(
            gauge("Progress", done, style.PLAIN, width=130),
            Value("To the end", left, units.Seconds, decimals=1, width=105),
            Value("Energy to it", f"{watts} * {left} / {JOULES_PER_KWH}", KWH, decimals=1, width=110),
            Value("Cost to it", f"sum by ({_ON}) ({hourly}) * {left} / 3600", style.MONEY, decimals=2, width=100),
            Value("A second", summed, style.COUNT, decimals=1, width=100),
            Value("Per GPU hour", f"{summed} * 3600 / ({gpus} > 0)", style.COUNT, decimals=0, width=125),
            Value("Per kWh", f"{summed} * {JOULES_PER_KWH} / ({watts} > 0)", style.COUNT, decimals=0, width=125),
            Text("Unit", rate, "unit", width=90),
            Value("Time to train", f"gpu_workload_time_to_target_seconds{{{scope}}}", units.Seconds, decimals=1, width=115),
        ),
        sort="To the end",
        size=(24, 7),
        empty=_SILENT,
    ).build()  # fmt: skip


def _runs(scope: str, named: str = "") -> str:
    """Return the work of each run per GPU hour, over the range."""
    amount = f"max by (cluster, workload, user, unit) (sum_over_time(workload_unit:gpu_workload_throughput:rate5m{{{scope}}}[{RANGE}]))"
    allocated = f"max by ({_ON}) (sum_over_time(workload:gpu_workload_allocated:rate5m{{{scope}}}[{RANGE}]))"
    named = (
        named
        or f'topk by ({_ON}) (1, max by ({_ON}, job_name) (last_over_time(gpu_workload_info{{{scope}, job_name!=""}}[{RANGE}:5m])))'
    )
    return f"3600 * {amount} / on ({_ON}) group_left () ({allocated} > 0) * on ({_ON}) group_left (job_name) {named}"


def _started(scope: str) -> str:
    return f"max by ({_ON}) (last_over_time(workload:gpu_workload_start_time_seconds:max{{{scope}}}[{RANGE}:5m]))"


def runs(scope: str) -> table.Panel:
    each = _runs(scope)
    best, middle = f"max by ({_NAME}) ({each})", f"quantile by ({_NAME}) (0.5, {each})"
    joules = f"sum by ({_ON}) (sum_over_time(workload:gpu_workload_energy_joules:rate5m{{{scope}}}[{RANGE}]) * 60)"
    allocated = f"sum by ({_ON}) ({hours(f'workload:gpu_workload_allocated:rate5m{{{scope}}}')})"
    reached = f"max by ({_ON}) (last_over_time(gpu_workload_time_to_target_seconds{{{scope}}}[{RANGE}]))"
    name = link.cell("Run")
    return Table(
        title="Runs of the same name and user",
        description="What each run of the time range got done in a GPU hour and with a kWh, beside the best and the median of its name, user and unit.",
        keys=(
            Key("cluster", "Cluster", hidden=True),
            Key("job_name", "Name"),
            Key("user", "User", width=100),
            Key("workload", "Run", (link.to_job(name),)),
            Key("unit", "Unit", width=90),
        ),
        columns=(
            Value("Per GPU hour", each, style.COUNT, decimals=0, width=130),
            gauge("Of the best", f"({each}) / on ({_NAME}) group_left () ({best})", style.PLAIN, width=130),
            Value("Of the median", f"({each}) / on ({_NAME}) group_left () ({middle})", units.PercentUnit, decimals=0, width=125),
            Value("Per kWh", f"({each}) * on ({_ON}) group_left () ({allocated} * {JOULES_PER_KWH} / ({joules} > 0))", style.COUNT, decimals=0, width=130),
            Value("GPU hours", f"({each}) * 0 + on ({_ON}) group_left () {allocated}", style.COUNT, decimals=1, width=100),
            Value("Started, ago", f"({each}) * 0 + on ({_ON}) group_left () (time() - {_started(scope)})", units.Seconds, decimals=1, width=115),
            Value("Time to train", f"({each}) * 0 + on ({_ON}) group_left () {reached}", units.Seconds, decimals=1, width=115),
        ),
        sort="Per GPU hour",
        size=(24, 8),
        empty=_ALONE,
    ).build()  # fmt: skip


def before_and_after(scope: str) -> table.Panel:
    started = f"topk by ({_ON}) (1, max by ({_ON}, job_name) (last_over_time(workload_job_name:gpu_workload_start_time_seconds:max{{{CLUSTER}}}[{RANGE}])))"
    before, after = (_runs(scope, f"({started} {sign} time() - 3600 * $changed) ^ 0") for sign in ("<", ">="))
    median_before, median_after = (f"quantile by ({_NAME}) (0.5, {some})" for some in (before, after))
    return Table(
        title="Before and after a change",
        description="Medians of the runs of one name that began before, and since, so many hours ago as set above: work per GPU hour.",
        keys=(
            Key("cluster", "Cluster", hidden=True),
            Key("job_name", "Name"),
            Key("user", "User", width=100),
            Key("unit", "Unit", width=90),
        ),
        columns=(
            Value("Runs since", f"count by ({_NAME}) ({after})", style.COUNT, decimals=0, width=110),
            Value("Since per before", f"{median_after} / {median_before}", units.PercentUnit, decimals=0, width=150),
            Value("Median before", median_before, style.COUNT, decimals=0, width=130),
            Value("Runs before", f"count by ({_NAME}) ({before})", style.COUNT, decimals=0, width=110),
            Value("Median since", median_after, style.COUNT, decimals=0, width=130),
        ),
        sort="Since per before",
        order=("Since per before", "Median before", "Runs before", "Median since"),
        size=(24, 5),
        empty=_ALONE,
    ).build()  # fmt: skip
