"""The body of the two workload dashboards: they differ in how a workload is found, not in what is said of it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import statetimeline, table, timeseries
from grafana_foundation_sdk.models import units

from dashboards.parts import block, mfu, panel, price, style, workload_resources
from dashboards.parts.query import CLUSTER, GPU_HOURS, JOULES_PER_KWH, KWH, now, over_time, owner_states, owners, some
from dashboards.parts.table import Key, Table, Value, cause, gauge, lost_state, step, target_ratio
from dashboards.parts.workload_kind import BY_WORKLOAD, Kind
from exporter.tools.report.definitions import ALLOCATED, LOST, UTILIZATION, WASTED, among, identity, target_ratio_promql


def body(made: build.Dashboard, kind: Kind) -> None:
    made.with_row(build.Row(f"{kind.noun.capitalize()}s in the selection, why their GPUs are not busy, and what to do"))
    _numbers(made, kind)
    made.with_panel(_table(kind))
    made.with_panel(_states(kind))
    made.with_panel(_ledger(kind))
    made.with_panel(workload_resources.gpus(kind))
    made.with_row(build.Row("Over time"))
    made.with_panel(_back(kind))
    workload_resources.gpu_lines(made, kind)
    made.with_row(build.Row("The host side"))
    workload_resources.host(made, kind)
    made.with_row(build.Row("What the program reports of itself"))
    workload_resources.progress(made, kind)
    made.with_row(build.Row("Processes and alerts"))
    made.with_panel(block.processes(kind.scope, size=(24, 8)))
    made.with_panel(block.firing_for_owner(kind.scope))


def _numbers(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.scope
    everything = owners("workload", scope, "")
    made.with_panel(
        panel.number(
            "Allocated GPUs",
            "GPUs allocated to the selection now, used or not.",
            now(f"sum(gpu_workload_allocated_gpus{{{scope}}})"),
            size=(3, 4),
            decimals=1,
            empty="none now",
        )
    )
    made.with_panel(
        panel.number(
            "Utilization",
            f"Fraction of the allocated and observed GPU time of the whole range in which a kernel ran. {mfu.MEANING}",
            mfu.beside(now(UTILIZATION.promql(everything), "kernel ran"), scope),
            units.PercentUnit,
            size=(3, 4),
            decimals=0,
            empty="not observed",
        )
    )
    made.with_panel(
        panel.number(
            "Target ratio",
            "Utilization divided by the target of its class: batch 70 %, service 35 %, interactive 14 %. Below 43 % is bad.",
            now(target_ratio_promql(everything)),
            units.PercentUnit,
            steps=style.TARGET_RATIO,
            size=(3, 4),
            decimals=0,
            empty="not observed",
        )
    )
    made.with_panel(
        panel.number(
            "Allocated GPU h",
            "In the time range.",
            now(ALLOCATED.promql(everything)),
            GPU_HOURS,
            size=(3, 4),
            decimals=1,
            empty="none allocated",
        )
    )
    made.with_panel(
        panel.number(
            "GPU hours wasted",
            "Allocated and idle, waiting or throttled, in the time range.",
            now(WASTED.promql(everything)),
            GPU_HOURS,
            steps=style.WASTE,
            size=(3, 4),
            decimals=1,
            empty="not observed",
        )
    )
    made.with_panel(
        panel.number(
            "Price of the waste",
            price.SOURCE,
            now(price.total(price.lost(scope))),
            style.MONEY,
            mappings=price.MAPPINGS,
            steps=style.WASTE,
            size=(3, 4),
            decimals=0,
            empty="not observed",
        )
    )
    made.with_panel(
        panel.number(
            "Energy",
            "Of the GPUs, in the time range, by its fraction of each.",
            now(
                f"sum(sum_over_time(workload:gpu_workload_energy_joules:rate5m{{{scope}}}[$__range])) * 60 / {JOULES_PER_KWH}"
            ),
            KWH,
            size=(3, 4),
            decimals=1,
            empty="not reported",
        )
    )
    made.with_panel(
        panel.number(
            "Idle for",
            "Since the longest-idle workload of the selection last ran a kernel, on any of its nodes.",
            now(f"max(min by (cluster, workload) (gpu_workload_idle_seconds{{{scope}}}))"),
            units.Seconds,
            steps=((None, style.GREEN), (600, style.YELLOW), (3600, style.ORANGE)),
            size=(3, 4),
            decimals=1,
            empty="none allocated",
        )
    )


def _table(kind: Kind) -> table.Panel:
    scope = kind.scope
    by = ", ".join(("cluster", "workload", *(key.label for key in kind.owner_keys)))
    mine = owners("workload", scope, by)
    lost = owner_states("workload", scope, f"{by}, state").of(among(LOST))
    return Table(
        title=f"{kind.noun.capitalize()}s",
        description=f"One row per {kind.noun} with GPUs allocated in the time range, those that wasted most of it first; utilization and waste "
        "are of the range. A dash: not observed, or no longer there. Click one to select it.",
        keys=(
            Key("cluster", "Cluster", width=75),
            Key("workload", kind.noun.capitalize(), (kind.onward,)),
            *kind.owner_keys,
        ),
        columns=(
            Value(
                "Wasted",
                WASTED.promql(mine),
                GPU_HOURS,
                style.WASTE,
                decimals=1,
                width=95,
                reduce="sum",
                wrap="topk(50, {})",
            ),
            gauge("Utilization", UTILIZATION.promql(mine), style.PLAIN, width=110),
            *mfu.columns(scope, by),
            target_ratio(target_ratio_promql(mine)),
            lost_state("Wasted on", f"{lost} > 0.01"),
            Value(
                "GPUs now",
                f"workload:gpu_workload_allocated_gpus:sum{{{scope}}}",
                style.COUNT,
                decimals=1,
                width=85,
                reduce="sum",
            ),
            Value(
                "Running for",
                f"time() - gpu_workload_start_time_seconds{{{scope}}}",
                units.Seconds,
                decimals=1,
                width=100,
            ),
        ),
        sort="Wasted",
        size=(24, 6),
        empty=f"No {kind.noun} in this selection had a GPU allocated in the time range",
    ).build()


def _states(kind: Kind) -> table.Panel:
    by_state = f"{owner_states('workload', kind.scope, 'state').of()} > 0"
    return Table(
        title="GPU hours by state, and what to do",
        description="The allocated GPU hours of the time range by state, the largest first, and what helps first. Click a state for the whole advice.",
        keys=(cause("State"),),
        columns=(
            Value("GPU hours", by_state, GPU_HOURS, decimals=1, width=105, reduce="sum"),
            gauge(
                "Fraction",
                f"({by_state}) / on () group_left () (sum({by_state}) > 0)",
                style.PLAIN,
                width=100,
                reduce="sum",
            ),
            step("What to do first", by_state),
        ),
        sort="GPU hours",
        size=(10, 8),
        empty=f"No {kind.noun} of the selection had a GPU allocated in the time range",
    ).build()


def _ledger(kind: Kind) -> timeseries.Panel:
    return panel.ledger(
        "Allocated GPUs by state",
        "GPUs' worth of time in each state; the stack is as high as the number of allocated GPUs.",
        over_time(some(owner_states("workload", kind.scope, "state", identity).of())),
        size=(14, 8),
        empty=f"No {kind.noun} of the selection had a GPU allocated in the time range",
    )


def _back(kind: Kind) -> statetimeline.Panel:
    return block.told(
        "What limited each one",
        "One row per workload; of many, the 12 that wasted most.",
        lambda more: f"workload_state:gpu_workload_gpu_seconds:rate5m{{{kind.shown}{more}}}",
        "cluster, workload",
        BY_WORKLOAD,
        # By id alone: a short query, which what is lost narrows to the selection.
        whole=f'sum by (cluster, workload) (workload:gpu_workload_allocated:rate5m{{{CLUSTER}, workload=~"$shown"}})',
        size=(24, 10),
        empty=f"No {kind.noun} of the selection had a GPU allocated in the time range",
    )
