"""The tables of the fleet: nodes, GPU models, and who holds GPUs."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, look
from dashboards.parts.query import ALERTS, CLUSTER, owners
from dashboards.parts.states import LOST_REGEX
from dashboards.parts.table import Key, Table, Value, gauge, lost_state, of_mark
from exporter.report.definitions import UTILIZATION, WASTED, as_it_is, of_mark_promql


def nodes() -> table.Panel:
    node = link.cell("Node")

    def of(name: str) -> str:
        return f"node:{name}{{{CLUSTER}}}"

    lost = f'node_state:gpu_time_seconds:rate5m{{{CLUSTER}, state=~"{LOST_REGEX}"}} > 0.2'
    fires = f'ALERTS{{{ALERTS}, {CLUSTER}, instance!="", severity!="info"}}'
    return Table(
        title="Nodes",
        description="One row per node, those with most alerts first. Click a node to see its GPUs.",
        keys=(
            Key("cluster", "Cluster", width=80),
            Key("instance", "Node", (link.to_node(node, link.cell("Cluster")),)),
        ),
        columns=(
            Value(
                "Alerts",
                f"count by (cluster, instance) ({fires}) or 0 * sum by (cluster, instance) ({of('gpu_up:count')})",
                look.COUNT,
                look.SOME_IS_BAD,
                width=90,
            ),
            Value("GPUs", of("gpu_up:count"), look.COUNT, width=65),
            Value("Lost", f"{of('gpu_up:count')} - {of('gpu_up:sum')}", look.COUNT, look.SOME_IS_BAD, width=65),
            Value("Held", of("gpu_workload_gpus:sum"), look.COUNT, decimals=1, width=65),
            gauge("Busy", of("gpu_utilization:ratio_rate5m"), look.PLAIN, width=140),
            gauge(
                "Memory",
                f"{of('gpu_memory_used_bytes:sum')} / {of('gpu_memory_total_bytes:sum')}",
                look.FULL,
                width=140,
            ),
            Value("Wasted", of("gpu_waste:rate5m"), look.COUNT, look.SOME_IS_WORTH_A_LOOK, decimals=1, width=80),
            lost_state("Wasted on", lost),
            gauge("Held down by heat", of("gpu_thermal_throttle:ratio_rate5m"), look.SHARE_OF_TIME, width=145),
            Value("Hottest GPU", of("gpu_temperature_celsius:max"), units.Celsius, look.HEAT, decimals=0, width=110),
            Value("Power", of("gpu_power_watts:sum"), units.Watt, width=95),
        ),
        sort="Alerts",
        size=(24, 11),
        empty="No node reports GPUs: is gpu-exporter scraped, and are the recording rules loaded?",
    ).build()


def models_and_owners(made: build.Dashboard) -> None:
    def of(name: str) -> str:
        return f"model:{name}{{{CLUSTER}}}"

    made.with_panel(
        Table(
            title="Models",
            description="One row per GPU model: how many there are, how many are held, how busy all of them are.",
            keys=(Key("model", "Model"),),
            columns=(
                Value("GPUs", of("gpu_up:count"), look.COUNT, width=75, reduce="sum"),
                Value("Held", of("gpu_owner_share:sum"), look.COUNT, decimals=1, width=65, reduce="sum"),
                gauge("Busy", of("gpu_utilization:ratio_rate5m"), look.PLAIN, reduce="avg", width=105),
                Value(
                    "Wasted",
                    of("gpu_waste:rate5m"),
                    look.COUNT,
                    look.SOME_IS_WORTH_A_LOOK,
                    decimals=1,
                    width=90,
                    reduce="sum",
                ),
            ),
            sort="GPUs",
            size=(8, 8),
        ).build()
    )
    made.with_panel(
        Table(
            title="Namespaces",
            description="One row per namespace that holds GPUs. Of its mark: utilization beside what is good for its classes of work. A dash: nothing of it can be observed. Click one for its workloads.",
            keys=(Key("namespace", "Namespace", (link.to_namespace(link.cell("Namespace")),)),),
            columns=_owner_columns("namespace"),
            sort="Wasted",
            size=(8, 8),
            empty="No pod holds a GPU",
        ).build()
    )
    made.with_panel(
        Table(
            title="Slurm accounts",
            description="One row per account that holds GPUs. Of its mark: utilization beside what is good for its classes of work. A dash: nothing of it can be observed. Click one for its jobs.",
            keys=(Key("account", "Account", (link.to_account(link.cell("Account")),)),),
            columns=_owner_columns("account"),
            sort="Wasted",
            size=(8, 8),
            empty="No Slurm job holds a GPU",
        ).build()
    )


def _owner_columns(level: str) -> tuple[Value, ...]:
    mine = owners(level, CLUSTER, level, as_it_is)
    return (
        Value("GPUs", f"{level}:gpu_workload_gpus:sum{{{CLUSTER}}}", look.COUNT, decimals=1, width=65, reduce="sum"),
        gauge("Utilization", UTILIZATION.promql(mine), look.PLAIN, width=105),
        of_mark(of_mark_promql(mine)),
        Value(
            "Wasted",
            WASTED.promql(mine),
            look.COUNT,
            look.SOME_IS_WORTH_A_LOOK,
            decimals=1,
            width=90,
            reduce="sum",
        ),
    )
