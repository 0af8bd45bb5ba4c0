"""Blocks that stand on more than one dashboard."""

from __future__ import annotations

from collections.abc import Callable

from grafana_foundation_sdk.builders import statetimeline, table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, mfu, states, style
from dashboards.parts.link import Link
from dashboards.parts.panel import timeline
from dashboards.parts.query import (
    ALERTS,
    CLUSTER,
    NODE,
    THERMAL,
    answering,
    counted,
    gpu_busy,
    known,
    main_states,
    notable_state,
    over_time,
    owner_states,
    owners,
    rate,
)
from dashboards.parts.table import Key, Table, Text, Value, gauge, lost_state, meaning, runbook, target_ratio
from exporter.tools.report.definitions import LOST, UTILIZATION, WASTED, among, identity, target_ratio_promql


def alerts(scope: str, *, size: tuple[int, int] = (14, 9)) -> table.Panel:
    """One row per alert that fires, however many things it fires for."""
    fires = _firing(scope)
    return Table(
        title="Alerts",
        description="GPU alerts that fire now (those of severity info left out), the worst first: on how many GPUs, nodes or workloads, "
        "for how long its condition holds, and where it lasts longest. Click Runbook for what to do.",
        keys=(
            Key("severity", "Severity", width=88, mappings=tuple(style.SEVERITIES)),
            Key("alertname", "Name", hidden=True),
        ),
        columns=(
            Value("Times", fires, style.COUNT, width=56, reduce="count"),
            Value("Firing for", _since(fires, scope), units.Seconds, decimals=1, width=80),
            Text("Where", _on(_since(fires, scope)), "thing", width=128, links=_THINGS, jobs=fires),
            meaning(fires, link.to_health(), wrapped=True),
            runbook(fires),
        ),
        sort="Severity",
        ascending=True,
        size=size,
        empty="No GPU alert fires",
    ).build()


_THINGS = (
    link.to_node(link.cell("Where")),
    link.to_pod(link.cell("Where")),
    link.to_job(link.cell("Where")),
)


def _on(alerts: str) -> str:
    """Return the alerts with the node of each, or the workload of one that is of no node, as the label `thing`."""
    workload = f'label_replace({alerts}, "thing", "$1", "workload", "(.*)")'
    return f'label_replace({workload}, "thing", "$1", "instance", "(.+)")'


def _since(fires: str, scope: str) -> str:
    return f"(time() - ALERTS_FOR_STATE{{{scope}}}) and ignoring (alertstate) {fires}"


def firing(scope: str, *, size: tuple[int, int] = (24, 8)) -> table.Panel:
    """One row per thing that an alert fires for."""
    return _one_by_one(_firing(scope), scope, "Everything a GPU alert fires for now", "No GPU alert fires", size)


def firing_for_owner(owner: str) -> table.Panel:
    """The same of workloads: of their own, of their allocated GPUs, and of the nodes these are in.

    A hidden variable of their dashboards has those nodes.
    """
    allocated = f"(gpu_allocation_ratio{{{owner}}} > 0)"
    of_gpus = f"{_firing(CLUSTER)} and on (cluster, instance, gpu) {allocated}"
    of_nodes = _firing(f'{NODE}, gpu="", instance!=""')
    return _one_by_one(
        f"""({_firing(f'{owner}, workload!=""')} or {of_gpus} or {of_nodes})""",
        CLUSTER,
        "The alerts that fire now for the selection, for its allocated GPUs and for their nodes",
        "No GPU alert fires for the selection, its GPUs or its nodes",
        (24, 6),
    )


def _firing(scope: str) -> str:
    return f'ALERTS{{{ALERTS}, {scope}, severity!="info"}}'


def _one_by_one(fires: str, scope: str, what: str, empty: str, size: tuple[int, int]) -> table.Panel:
    node, gpu, workload = link.cell("Node"), link.cell("GPU"), link.cell("Workload")
    cluster = link.cell("Cluster")
    return Table(
        title="Alerts, one by one",
        description=f"{what}, the worst first. Active for: how long its condition holds, which is longer than it fires. Click the node, the GPU or the workload to go there.",
        keys=(
            Key("severity", "Severity", width=92, mappings=tuple(style.SEVERITIES)),
            Key("alertname", "Name", hidden=True),
            Key("cluster", "Cluster", width=80),
            Key("instance", "Node", (link.to_node(node, cluster),), width=150),
            Key("gpu", "GPU", (link.to_gpu(node, gpu, cluster),), width=60),
            Key("workload", "Workload", (link.to_pod(workload, cluster), link.to_job(workload, cluster)), width=160),
            Key("user", "User", (link.to_user(link.cell("User")),), width=110),
        ),
        columns=(
            Value("Active for", _since(fires, scope), units.Seconds, decimals=1, width=100),
            meaning(fires),
            runbook(fires),
        ),
        rows=fires,
        sort="Severity",
        ascending=True,
        size=size,
        empty=empty,
    ).build()


def gpus(scope: str, *, size: tuple[int, int]) -> table.Panel:
    """One row per GPU of the node that is chosen: its owner, its use and its health."""
    by, allocated = "cluster, instance, gpu", link.cell("Allocated to")
    state = main_states(lambda more: rate(f"gpu_state_seconds_total{{{scope}{more}}}"), by)
    return Table(
        title="GPU by GPU",
        description="One row per GPU, lost GPUs first. State: its largest loss where that takes a tenth of its time, "
        "else what takes most. A dash: not reported, or unknown while it is unreachable. Click a GPU to open it.",
        keys=(
            Key("cluster", "Cluster", hidden=True),
            Key("instance", "Node", hidden=True),
            Key("gpu", "GPU", (link.to_gpu("$instance", link.cell("GPU")),), width=60),
        ),
        columns=(
            Value("Reachable", known(scope, "gpu"), "none", mappings=tuple(style.ANSWERS), width=105, reduce="min"),
            Text("Model", f"gpu_info{{{scope}}}", "model", width=190, links=(link.to_model(link.cell("Model")),)),
            Text(
                "Allocated to",
                f"gpu_allocation_ratio{{{scope}}}",
                "workload",
                links=(link.to_pod(allocated), link.to_job(allocated)),
            ),
            lost_state("State", state),
            gauge("Busy", gpu_busy(scope, by), style.PLAIN, width=120),
            gauge(
                "Memory", f"gpu_memory_used_bytes{{{scope}}} / gpu_memory_total_bytes{{{scope}}}", style.FULL, width=120
            ),
            gauge(
                "Power of limit",
                f"gpu_power_watts{{{scope}}} / gpu_power_limit_watts{{{scope}}}",
                style.FULL,
                width=120,
            ),
            Value("Temp.", f'gpu_temperature_celsius{{{scope}, sensor="gpu"}}', units.Celsius, style.HEAT, width=75),
            Value("Margin", f"gpu_temperature_margin_celsius{{{scope}}}", units.Celsius, style.MARGIN, width=75),
            gauge(
                "Thermal throttling",
                answering(rate(f"gpu_throttled_seconds_total{{{scope}, {THERMAL}}}"), scope),
                style.FRACTION_OF_TIME,
                width=140,
            ),
            Value(
                "XIDs",
                f"sum by ({by}) ({counted(f'gpu_xid_errors_total{{{scope}}}')})",
                style.COUNT,
                style.RED_FROM_ONE,
                decimals=0,
                width=65,
            ),
            Value(
                "ECC unc.",
                f'gpu_ecc_errors_total{{{scope}, type="uncorrected"}}',
                style.COUNT,
                style.RED_FROM_ONE,
                decimals=0,
                width=80,
            ),
        ),
        sort="Reachable",
        ascending=True,
        size=size,
        empty="No GPU in this selection",
    ).build()


def told(
    title: str,
    description: str,
    seconds: Callable[[str], str],
    by: str,
    legend: str,
    *,
    only: str = "",
    whole: str = "",
    size: tuple[int, int] = (12, 8),
    empty: str = "",
) -> statetimeline.Panel:
    """Return a timeline of each row: its largest loss where that took a tenth, else what took most.

    `whole` is the time of each row that is not one GPU.
    """
    query = over_time(notable_state(seconds, by, only, whole), legend)
    return timeline(title, f"{description} {TOLD}", query, states.by_code(), size=size, empty=empty)


TOLD = (
    "A step takes the colour of the largest loss if that took a tenth of it or more, else of the state that took most."
)


def workloads(
    title: str,
    description: str,
    scope: str,
    *,
    owner_keys: tuple[Key, ...],
    onward: Link,
    size: tuple[int, int] = (24, 8),
    empty: str,
    at_most: int = 25,
) -> table.Panel:
    """One row per workload, those that waste most now first, from recorded series."""
    by = ", ".join(("cluster", "workload", *(key.label for key in owner_keys)))
    mine = owners("workload", scope, by, identity)
    lost = owner_states("workload", scope, f"{by}, state", identity).of(among(LOST))
    return Table(
        title=title,
        description=description,
        keys=(Key("cluster", "Cluster", width=75), Key("workload", "Workload", (onward,)), *owner_keys),
        columns=(
            Value(
                "Wasted",
                WASTED.promql(mine),
                style.COUNT,
                style.WASTE,
                decimals=1,
                width=85,
                reduce="sum",
                wrap=f"topk({at_most}, {{}})",
            ),
            Value(
                "GPUs",
                f"workload:gpu_workload_allocated_gpus:sum{{{scope}}}",
                style.COUNT,
                decimals=1,
                width=60,
                reduce="sum",
            ),
            gauge("Utilization", UTILIZATION.promql(mine), style.PLAIN, width=105),
            *mfu.columns(scope, by, window=mfu.NOW),
            target_ratio(target_ratio_promql(mine)),
            lost_state("Wasted on", f"{lost} > 0.2"),
        ),
        sort="Wasted",
        size=size,
        empty=empty,
        order=("GPUs", "Utilization", "MFU", "MFU bound", "Target ratio", "Wasted"),
    ).build()


def processes(scope: str, *, size: tuple[int, int] = (24, 8)) -> table.Panel:
    node, workload = link.cell("Node"), link.cell("Workload")
    return Table(
        title="Processes",
        description="Processes on the GPUs of this selection, and their owners. "
        "Those beyond the exporter's limit are summed up as pid 'other'. Memory is a dash where the driver does not report it.",
        keys=(
            Key("cluster", "Cluster", hidden=True),
            Key("instance", "Node", (link.to_node(node),), width=140),
            Key("gpu", "GPU", (link.to_gpu(node, link.cell("GPU")),), width=60),
            Key("pid", "PID", width=90),
            Key("command", "Command", width=160),
            Key("user", "User", width=110),
            Key("workload", "Workload", (link.to_pod(workload), link.to_job(workload))),
        ),
        columns=(
            Value("GPU memory", f"gpu_process_memory_bytes{{{scope}}}", units.BytesIEC, width=130, reduce="sum"),
            gauge("SM", f'gpu_process_utilization_ratio{{{scope}, engine="sm"}}', style.PLAIN, width=120),
            Value("CPU cores", rate(f"gpu_process_cpu_seconds_total{{{scope}}}"), style.COUNT, decimals=2, width=95),
            Value("Host memory", f"gpu_process_resident_memory_bytes{{{scope}}}", units.BytesIEC, width=110),
            Value(
                "Running for",
                f"time() - gpu_process_start_time_seconds{{{scope}}}",
                units.Seconds,
                decimals=1,
                width=110,
            ),
        ),
        sort="GPU memory",
        size=size,
        empty="No process on these GPUs",
    ).build()
