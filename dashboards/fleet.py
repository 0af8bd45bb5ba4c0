"""Fleet: is anything broken, is anything wasted, and where. All from recorded series, so that 1,000 nodes are quick."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import block, fleet_tables, link, mfu, panel, states, style, uid, variable
from dashboards.parts.absence import ZERO
from dashboards.parts.frame import dashboard
from dashboards.parts.query import ALERTS, CLUSTER, GPU_HOURS, devices, now, over_time, some
from dashboards.parts.table import Key
from exporter.tools.report.definitions import UTILIZATION, WASTED, identity

_UNREACHABLE = f"sum(node:gpu_unreachable:count{{{CLUSTER}}})"
_AS_STATE = f'label_replace({_UNREACHABLE}, "state", "{states.UNREACHABLE}", "", "")'


def fleet() -> build.Dashboard:
    made = dashboard(
        "Fleet",
        uid.FLEET,
        "All GPUs of all clusters: what is broken, what is wasted, and where.",
        (variable.models(),),
        scope=CLUSTER,
    )
    made.with_row(build.Row("Now"))
    _numbers(made)
    made.with_panel(block.alerts(CLUSTER))
    made.with_panel(
        panel.ledger(
            "GPUs by state",
            "GPUs' worth of time in each state. The stack is as high as there are GPUs: nothing is left out.",
            over_time(f"{some(devices('cluster', CLUSTER, 'state', identity).of())} or {_AS_STATE}"),
            size=(10, 9),
            links=(link.to_waste(),),
        )
    )
    _workloads(made)
    made.with_row(build.Row("Nodes and models"))
    made.with_panel(fleet_tables.nodes())
    fleet_tables.owners_and_models(made)
    made.with_row(build.Row("Spread, and the hours of the time range"))
    _spread(made)
    return made


def _numbers(made: build.Dashboard) -> None:
    def total(name: str) -> str:
        return f"sum(cluster:{name}{{{CLUSTER}}})"

    health, waste = (link.to_health(),), (link.to_waste(),)
    known, answer = total("gpu_up:count"), total("gpu_up:sum")
    everything = devices("cluster", CLUSTER, "", identity)
    made.with_panel(
        panel.number(
            "GPUs",
            "GPUs of all nodes, also of those that are unreachable.",
            now(f"{known} + ({_UNREACHABLE} or vector(0)) or {_UNREACHABLE}"),
            size=(2, 4),
        )
    )
    made.with_panel(
        panel.number(
            "Unreachable",
            "GPUs of nodes whose exporters reported within seven days and report nothing now. The table of nodes names them "
            "first. Nodes that were removed from Kubernetes, are in maintenance or powered down by Slurm do not count.",
            now(f"{_UNREACHABLE}{ZERO}"),
            steps=style.RED_FROM_ONE,
            size=(3, 4),
        )
    )
    made.with_panel(
        panel.number(
            "Lost",
            "GPUs of reachable nodes that the driver reports lost, or gives no reading of. Click for Health.",
            now(f"{known} - {answer}"),
            steps=style.RED_FROM_ONE,
            size=(2, 4),
            links=health,
        )
    )
    made.with_panel(
        panel.number(
            "Critical",
            "GPU alerts of severity critical that fire now.",
            now(f'count(ALERTS{{{ALERTS}, severity="critical", {CLUSTER}}}){ZERO}'),
            steps=style.RED_FROM_ONE,
            size=(3, 4),
            links=health,
        )
    )
    made.with_panel(
        panel.number(
            "Warnings",
            "GPU alerts of severity warning that fire now.",
            now(f'count(ALERTS{{{ALERTS}, severity="warning", {CLUSTER}}}){ZERO}'),
            steps=style.ORANGE_FROM_ONE,
            size=(3, 4),
            links=health,
        )
    )
    made.with_panel(
        panel.number(
            "Allocated",
            "Fraction of the GPUs of reachable nodes that is allocated, used or not. A fraction of a GPU counts as a fraction.",
            over_time(f"{total('gpu_workload_allocated_gpus:sum')} / {known}"),
            units.PercentUnit,
            size=(3, 4),
            decimals=0,
            spark=True,
            ceiling=1,
        )
    )
    made.with_panel(
        panel.number(
            "Utilization",
            f"Fraction of the observed GPU time that is not free in which a kernel ran, also of programs that no scheduler started. Free GPUs are the scheduler's matter. {mfu.MEANING}",
            mfu.beside(over_time(UTILIZATION.promql(everything), "kernel ran"), CLUSTER, mfu.NOW),
            units.PercentUnit,
            size=(3, 4),
            decimals=0,
            spark=True,
            ceiling=1,
        )
    )
    made.with_panel(
        panel.number(
            "GPUs wasted",
            "GPUs' worth of allocated time that is idle, waiting or throttled. 12 means: as if 12 GPUs were switched off. Click to see the owners.",
            over_time(WASTED.promql(everything)),
            steps=style.WASTE,
            size=(3, 4),
            decimals=1,
            spark=True,
            links=waste,
        )
    )
    made.with_panel(
        panel.number(
            "Power", "Drawn by all GPUs.", over_time(total("gpu_power_watts:sum")), units.Watt, size=(2, 4), spark=True
        )
    )


def _workloads(made: build.Dashboard) -> None:
    name = link.cell("Workload")
    made.with_panel(
        block.workloads(
            "Pods that waste most",
            f"Pods (and containers and units outside Slurm) with allocated GPUs, those that waste most of them now first. {mfu.MEANING} Click one to see why.",
            f'{CLUSTER}, kind!="slurm"',
            owner_keys=(),
            onward=link.to_pod(name, link.cell("Cluster")),
            empty="No pod has a GPU allocated",
        )
    )
    made.with_panel(
        block.workloads(
            "Slurm jobs that waste most",
            f"Slurm jobs with allocated GPUs, those that waste most of them now first. {mfu.MEANING} Click one to see why.",
            f'{CLUSTER}, kind="slurm"',
            owner_keys=(Key("user", "User", (link.to_user(link.cell("User")),), width=80),),
            onward=link.to_job(name, link.cell("Cluster")),
            empty="No Slurm job has a GPU allocated",
        )
    )


def _spread(made: build.Dashboard) -> None:
    utilization = f"node:gpu_utilization:ratio_rate5m{{{CLUSTER}}}"
    hottest = f"node:gpu_temperature_celsius:max{{{CLUSTER}}}"
    made.with_panel(
        panel.band(
            "How busy the nodes are",
            "The band covers the middle 80 % of the nodes, the line is the median. A wide band shows badly spread work.",
            (
                over_time(f"quantile(0.1, {utilization})", "tenth lowest"),
                over_time(f"quantile(0.5, {utilization})", "median node"),
                over_time(f"quantile(0.9, {utilization})", "tenth highest"),
            ),
            units.PercentUnit,
            ("tenth lowest", "median node", "tenth highest"),
            size=(8, 11),
            ceiling=1,
        )
    )
    made.with_panel(
        panel.band(
            "Hottest GPU over nodes",
            "Each node counts with its hottest GPU: the median node, the coolest, and the hottest GPU of all. A mean would hide the one that is too hot.",
            (
                over_time(f"min({hottest})", "coolest node"),
                over_time(f"quantile(0.5, {hottest})", "median node"),
                over_time(f"max({hottest})", "hottest GPU"),
            ),
            units.Celsius,
            ("coolest node", "median node", "hottest GPU"),
            size=(8, 11),
            steps=style.HEAT,
            links=(link.to_health(),),
        )
    )
    made.with_panel(
        panel.state_bars(
            "GPU hours by state",
            "Every GPU hour of the time range is in exactly one bar.",
            now(f"sort_desc({devices('cluster', CLUSTER, 'state').of()} > 0)"),
            GPU_HOURS,
            size=(8, 11),
            links=(link.to_waste(),),
        )
    )
