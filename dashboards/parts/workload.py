"""The body of the two workload dashboards: they differ in how a workload is found, not in what is said of it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, look, panel, price, states, workload_resources
from dashboards.parts.query import GPU_HOURS, dominant, hours, now, over_time, rate, worst
from dashboards.parts.table import Key, Table, Value, advice, gauge, lost_state
from dashboards.parts.workload_kind import BY_WORKLOAD, Kind


def body(made: build.Dashboard, kind: Kind) -> None:
    made.with_row(build.Row(f"{kind.noun.capitalize()}s in the selection"))
    _numbers(made, kind)
    made.with_panel(_table(kind))
    made.with_row(build.Row("Why the GPUs are not busy, and what to do"))
    _causes(made, kind)
    made.with_row(build.Row("The GPUs it holds"))
    made.with_panel(workload_resources.gpus(kind))
    workload_resources.gpu_lines(made, kind)
    made.with_row(build.Row("The host side"))
    workload_resources.host(made, kind)
    made.with_row(build.Row("What the program reports of itself"))
    workload_resources.progress(made, kind)
    made.with_row(build.Row("Processes and alerts"))
    made.with_panel(block.processes(kind.scope, size=(24, 8)))
    made.with_panel(block.firing(_alert_scope(kind), size=(24, 6)))


def _alert_scope(kind: Kind) -> str:
    return f'{kind.scope}, workload!=""'


def _numbers(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.scope
    seconds = f"workload_state:gpu_workload_gpu_seconds:rate5m{{{scope}}}"
    busy = f'sum(sum_over_time(workload_state:gpu_workload_gpu_seconds:rate5m{{{scope}, state=~"{states.BUSY_REGEX}"}}[$__range]))'
    made.with_panel(
        panel.number(
            "GPUs held",
            "GPUs that the selection holds now, used or not.",
            now(f"sum(gpu_workload_gpus{{{scope}}})"),
            size=(3, 4),
            decimals=1,
            empty="none now",
        )
    )
    made.with_panel(
        panel.number(
            "Utilization",
            "Share of the held GPU time of the whole range in which a kernel ran.",
            now(f"{busy} / (sum(sum_over_time({seconds}[$__range])) > 0)"),
            units.PercentUnit,
            steps=look.GOOD_IS_HIGH,
            size=(4, 4),
            decimals=0,
            empty="held none",
        )
    )
    made.with_panel(
        panel.number(
            "GPU hours held",
            "In the time range.",
            now(f"sum({hours(seconds)})"),
            GPU_HOURS,
            size=(4, 4),
            decimals=1,
            empty="held none",
        )
    )
    made.with_panel(
        panel.number(
            "GPU hours wasted",
            "Held and idle, waiting or throttled, in the time range.",
            now(f"sum({hours(f'workload:gpu_waste:rate5m{{{scope}}}')})"),
            GPU_HOURS,
            steps=look.SOME_IS_WORTH_A_LOOK,
            size=(4, 4),
            decimals=1,
            empty="held none",
        )
    )
    made.with_panel(
        panel.number(
            "Price of the waste",
            "At the prices set above; MIG instances are not in it.",
            now(f"sum({price.lost(scope)})"),
            units.Dollars,
            steps=look.SOME_IS_WORTH_A_LOOK,
            size=(3, 4),
            decimals=0,
            empty="no whole GPU held",
        )
    )
    made.with_panel(
        panel.number(
            "Energy",
            "Of the GPUs, in the time range, by its share of each.",
            now(f"sum(sum_over_time(workload:gpu_workload_energy_joules:rate5m{{{scope}}}[$__range])) * 60"),
            units.Joule,
            size=(3, 4),
            decimals=1,
            empty="not reported",
        )
    )
    made.with_panel(
        panel.number(
            "Idle for",
            "Since the longest-idle workload of the selection last ran a kernel.",
            now(f"max(gpu_workload_idle_seconds{{{scope}}})"),
            units.Seconds,
            steps=((None, look.GREEN), (600, look.YELLOW), (3600, look.ORANGE)),
            size=(3, 4),
            decimals=0,
            empty="holds none now",
        )
    )


def _table(kind: Kind) -> table.Panel:
    scope = kind.scope
    state = f'workload_state:gpu_workload_gpu_seconds:rate5m{{{scope}, state=~"{states.LOST_REGEX}"}} > 0.2'
    return Table(
        title=f"{kind.noun.capitalize()}s",
        description=f"One row per {kind.noun} that holds GPUs now, those that waste most first. Click one to select it.",
        keys=(Key("workload", kind.noun.capitalize(), (kind.onward,)), *kind.owner_keys),
        columns=(
            Value("GPUs", f"workload:gpu_workload_gpus:sum{{{scope}}}", "short", decimals=1, width=65, reduce="sum"),
            gauge("Utilization", f"workload:gpu_utilization:ratio_rate5m{{{scope}}}", look.GOOD_IS_HIGH, width=130),
            Value(
                "Wasted",
                f"workload:gpu_waste:rate5m{{{scope}}}",
                "short",
                look.SOME_IS_WORTH_A_LOOK,
                decimals=1,
                width=85,
                reduce="sum",
            ),
            lost_state("Wasted on", state, 160),
            advice("What to do", state),
            Value(
                "GPU memory",
                f"workload:gpu_workload_memory_bytes:sum{{{scope}}}",
                units.BytesIEC,
                width=105,
                reduce="sum",
            ),
            Value("Idle for", f"gpu_workload_idle_seconds{{{scope}}}", units.Seconds, decimals=0, width=85),
            Value(
                "Running for",
                f"time() - gpu_workload_start_time_seconds{{{scope}}}",
                units.Seconds,
                decimals=0,
                width=100,
            ),
        ),
        sort="Wasted",
        size=(24, 9),
        empty=f"No {kind.noun} in this selection holds a GPU now",
    ).build()


def _causes(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.scope
    seconds = f"gpu_workload_gpu_seconds_total{{{scope}}}"
    empty = f"No {kind.noun} of the selection held a GPU in the time range"
    made.with_panel(
        panel.ledger(
            "Held GPUs by state",
            "GPUs' worth of time in each state; the stack is as high as the selection holds GPUs.",
            over_time(f"sum by (state) ({rate(seconds)})"),
            size=(14, 9),
            empty=empty,
        )
    )
    recorded = f"workload_state:gpu_workload_gpu_seconds:rate5m{{{scope}}}"
    made.with_panel(
        Table(
            title="GPU hours by state, and what to do",
            description="The held GPU hours of the time range by state, the largest first, and what the owner should do about each.",
            keys=(Key("state", "State", width=165, mappings=tuple(states.by_name())),),
            columns=(
                Value("GPU hours", f"{hours(recorded)} > 0", GPU_HOURS, decimals=1, width=110, reduce="sum"),
                gauge(
                    "Share",
                    f"sum by (state) (sum_over_time({recorded}[$__range])) / on () group_left () (sum(sum_over_time({recorded}[$__range])) > 0) > 0",
                    look.PLAIN,
                    width=110,
                ),
                advice("What to do", f"{hours(recorded)} > 0"),
            ),
            sort="GPU hours",
            size=(10, 9),
            empty=empty,
        ).build()
    )
    made.with_panel(
        panel.timeline(
            "What each one mostly did",
            "The state in which each workload spent most of each step; of many, the 12 that wasted most.",
            over_time(
                dominant(f"({rate(seconds)} and on (cluster, workload) {worst(scope)})", "workload"), BY_WORKLOAD
            ),
            states.by_code(),
            size=(24, 7),
            empty=empty,
        )
    )
