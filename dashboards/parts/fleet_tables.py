"""The tables of the fleet: nodes, GPU models, and the owners of GPUs."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, mfu, style
from dashboards.parts.query import ALERTS, CLUSTER, devices, owners
from dashboards.parts.states import LOST_REGEX
from dashboards.parts.table import Key, Table, Value, gauge, lost_state, target_ratio
from exporter.tools.report import promql
from exporter.tools.report.definitions import BUSY_RATIO, UTILIZATION, WASTED, identity, target_ratio_promql


def nodes() -> table.Panel:
    node = link.cell("Node")

    def of(name: str) -> str:
        return f"node:{name}{{{CLUSTER}}}"

    chosen = f'count by (cluster, instance) (gpu:gpu_info:first{{{CLUSTER}, model=~"$model"}})'
    shown = f"{chosen} or {of('gpu_unreachable:count')}"
    lost = f'node_state:gpu_state_seconds:rate5m{{{CLUSTER}, state=~"{LOST_REGEX}"}} > 0.2'
    fires = f'ALERTS{{{ALERTS}, {CLUSTER}, instance!="", severity!="info"}}'
    return Table(
        title="Nodes",
        description="One row per node that has a GPU of the model chosen above: unreachable nodes first, then those with most alerts. "
        "Of unreachable nodes only their last known GPUs are shown, whatever the model. Click a node to see its GPUs.",
        keys=(
            Key("cluster", "Cluster", width=80),
            Key("instance", "Node", (link.to_node(node, link.cell("Cluster")),)),
        ),
        columns=(
            Value(
                "Unreachable",
                f"{of('gpu_unreachable:count')} or 0 * {of('gpu_up:count')}",
                style.COUNT,
                style.RED_FROM_ONE,
                width=125,
                wrap=f"{{}} and on (cluster, instance) ({shown.replace('{', '{{').replace('}', '}}')})",
            ),
            Value(
                "Alerts",
                f"count by (cluster, instance) ({fires})",
                style.COUNT,
                style.RED_FROM_ONE,
                empty="0",
                width=85,
            ),
            Value("GPUs", of("gpu_up:count"), style.COUNT, width=65),
            Value("Lost", f"{of('gpu_up:count')} - {of('gpu_up:sum')}", style.COUNT, style.RED_FROM_ONE, width=65),
            Value("Allocated", of("gpu_workload_allocated_gpus:sum"), style.COUNT, decimals=1, width=80),
            gauge("Busy", of("gpu_utilization:ratio_rate5m"), style.PLAIN, width=140),
            gauge(
                "Memory",
                f"{of('gpu_memory_used_bytes:sum')} / {of('gpu_memory_total_bytes:sum')}",
                style.FULL,
                width=140,
            ),
            Value("Wasted", of("gpu_waste:rate5m"), style.COUNT, style.WASTE, decimals=1, width=80),
            lost_state("Wasted on", lost),
            gauge("Thermal throttling", of("gpu_thermal_throttle:ratio_rate5m"), style.FRACTION_OF_TIME, width=145),
            Value("Hottest GPU", of("gpu_temperature_celsius:max"), units.Celsius, style.HEAT, decimals=0, width=110),
            Value("Power", of("gpu_power_watts:sum"), units.Watt, width=95),
        ),
        sort="Unreachable",
        then="Alerts",
        then_ascending=False,
        size=(24, 11),
        empty="No node reports GPUs: is gpu-exporter scraped, and are the recording rules loaded?",
    ).build()


def owners_and_models(made: build.Dashboard) -> None:
    for level, title, onward, empty in (
        ("namespace", "Namespaces", link.to_namespace(link.cell("Namespace")), "No pod has a GPU allocated"),
        ("account", "Slurm accounts", link.to_account(link.cell("Account")), "No Slurm job has a GPU allocated"),
    ):
        made.with_panel(
            Table(
                title=title,
                description=f"One row per {level} with allocated GPUs. Target ratio: utilization beside what is good for its classes of work. {mfu.MEANING} "
                "A dash: nothing of it can be observed, or is reported. Click one for its workloads.",
                keys=(Key(promql.label(level), level.capitalize(), (onward,)),),
                columns=_owner_columns(level),
                sort="Wasted",
                size=(12, 8),
                empty=empty,
            ).build()
        )
    made.with_panel(_models())


def _models() -> table.Panel:
    def of(name: str) -> str:
        return f"model:{name}{{{CLUSTER}}}"

    busy = BUSY_RATIO.promql(devices("model", CLUSTER, "model", identity))
    heat, answer = of("gpu_thermal_throttle:ratio_rate5m"), of("gpu_up:sum")
    hot = f"sum by (model) ({heat} * {answer}) / (sum by (model) ({answer} and {heat}) > 0)"
    return Table(
        title="Models",
        description="One row per GPU model: how many there are, how many are allocated, how busy all of them are. Click one for the nodes that have it.",
        keys=(Key("model", "Model", (link.to_model(link.cell("Model")),)),),
        columns=(
            Value("GPUs", of("gpu_up:count"), style.COUNT, width=75, reduce="sum"),
            Value("Allocated", of("gpu_allocation_ratio:sum"), style.COUNT, decimals=1, width=80, reduce="sum"),
            gauge("Busy", busy, style.PLAIN, width=160),
            gauge(
                "Memory",
                f"sum by (model) ({of('gpu_memory_used_bytes:sum')}) / sum by (model) ({of('gpu_memory_total_bytes:sum')})",
                style.FULL,
                width=160,
            ),
            Value(
                "Wasted",
                of("gpu_waste:rate5m"),
                style.COUNT,
                style.WASTE,
                decimals=1,
                width=90,
                reduce="sum",
            ),
            gauge("Thermal throttling", hot, style.FRACTION_OF_TIME, width=160),
            Value("Power", of("gpu_power_watts:sum"), units.Watt, width=95, reduce="sum"),
        ),
        sort="GPUs",
        size=(24, 7),
    ).build()


def _owner_columns(level: str) -> tuple[Value, ...]:
    scope = promql.owned(level, CLUSTER)
    mine = owners("workload", scope, promql.label(level), identity)
    return (
        Value(
            "GPUs",
            f"sum by ({promql.label(level)}) (workload:gpu_workload_allocated_gpus:sum{{{scope}}})",
            style.COUNT,
            decimals=1,
            width=65,
            reduce="sum",
        ),
        gauge("Utilization", UTILIZATION.promql(mine), style.PLAIN, width=105),
        *mfu.columns(scope, promql.label(level), window=mfu.NOW),
        target_ratio(target_ratio_promql(mine)),
        Value(
            "Wasted",
            WASTED.promql(mine),
            style.COUNT,
            style.WASTE,
            decimals=1,
            width=90,
            reduce="sum",
        ),
    )
