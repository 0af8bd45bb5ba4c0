"""Blocks that stand on more than one dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.builders import statetimeline, table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, look, states
from dashboards.parts.link import Link
from dashboards.parts.panel import timeline
from dashboards.parts.query import ALERTS, THERMAL, dominant, over_time, rate
from dashboards.parts.table import Key, Table, Text, Value, advice, gauge, lost_state


def firing(scope: str, *, size: tuple[int, int] = (24, 8), all_links: bool = True) -> table.Panel:
    """Alerts that fire now, the worst first, each with a link to what it is about."""
    node, gpu, workload = link.cell("Node"), link.cell("GPU"), link.cell("Workload")
    links: tuple[Link, ...] = (link.to_node(node),) if all_links else ()
    return Table(
        title="Alerts that fire now",
        description="Every GPU alert that fires (those of severity info left out), what it is about, and since when. "
        "Click the GPU or the workload to go there; the alert's runbook says what to do.",
        keys=(
            Key("severity", "Severity", width=95, mappings=tuple(look.SEVERITIES)),
            Key("alertname", "Alert", width=230),
            Key("instance", "Node", links, width=150),
            Key("gpu", "GPU", (link.to_gpu(node, gpu),), width=70),
            Key("workload", "Workload", (link.to_pod(workload), link.to_job(workload))),
            Key("user", "User", width=110),
        ),
        columns=(
            Value(
                "Firing for",
                f'(time() - ALERTS_FOR_STATE{{{scope}}}) and ignoring (alertstate) ALERTS{{{ALERTS}, {scope}, severity!="info"}}',
                units.Seconds,
                decimals=0,
                width=110,
            ),
        ),
        sort="Severity",
        ascending=True,
        size=size,
        empty="No GPU alert fires",
    ).build()


def gpus(scope: str, *, size: tuple[int, int]) -> table.Panel:
    """One row per GPU of the node that is chosen: who holds it, how it is used, how it fares."""
    by = "cluster, instance, gpu"
    state = f"sum by ({by}, state) ({rate(f'gpu_time_seconds_total{{{scope}}}')})"
    return Table(
        title="GPU by GPU",
        description="One row per GPU, those that do not answer first. A dash: the GPU does not report it. Click a GPU to open it.",
        keys=(
            Key("cluster", "Cluster", hidden=True),
            Key("instance", "Node", hidden=True),
            Key("gpu", "GPU", (link.to_gpu("$instance", link.cell("GPU")),), width=60),
        ),
        columns=(
            Value("Answers", f"gpu_up{{{scope}}}", "none", mappings=tuple(look.ANSWERS), width=85, reduce="min"),
            Text("Model", f"gpu_info{{{scope}}}", "model", width=190),
            Text("Held by", f"gpu_owner_share{{{scope}}}", "workload"),
            lost_state("Mostly", state, 140),
            gauge("Utilization", rate(f"gpu_busy_seconds_total{{{scope}}}"), look.PLAIN, width=120),
            gauge(
                "Memory", f"gpu_memory_used_bytes{{{scope}}} / gpu_memory_total_bytes{{{scope}}}", look.FULL, width=120
            ),
            gauge(
                "Power of limit", f"gpu_power_watts{{{scope}}} / gpu_power_limit_watts{{{scope}}}", look.FULL, width=120
            ),
            Value("Temp.", f'gpu_temperature_celsius{{{scope}, sensor="gpu"}}', units.Celsius, look.HEAT, width=75),
            Value("Margin", f"gpu_temperature_margin_celsius{{{scope}}}", units.Celsius, look.MARGIN, width=75),
            gauge(
                "Held down by heat",
                rate(f"gpu_throttled_seconds_total{{{scope}, {THERMAL}}}"),
                look.SHARE_OF_TIME,
                width=130,
            ),
            Value(
                "XIDs",
                f"sum by ({by}) (increase(gpu_xid_errors_total{{{scope}}}[$__range]))",
                "short",
                look.SOME_IS_BAD,
                decimals=0,
                width=65,
            ),
            Value(
                "ECC unc.",
                f'gpu_ecc_errors_total{{{scope}, type="uncorrected"}}',
                "short",
                look.SOME_IS_BAD,
                decimals=0,
                width=80,
            ),
        ),
        sort="Answers",
        ascending=True,
        size=size,
        empty="No GPU in this selection",
    ).build()


def mostly(
    title: str,
    description: str,
    selector: str,
    by: str,
    legend: str,
    *,
    size: tuple[int, int] = (12, 8),
    empty: str = "",
) -> statetimeline.Panel:
    """The state in which each row spent most, over time."""
    query = over_time(dominant(rate(selector), by), legend)
    return timeline(title, description, query, states.by_code(), size=size, empty=empty)


def workloads(
    title: str,
    description: str,
    scope: str,
    *,
    owner_keys: tuple[Key, ...],
    onward: Link,
    size: tuple[int, int] = (12, 11),
    empty: str,
    at_most: int = 25,
    with_advice: bool = False,
) -> table.Panel:
    """One row per workload, those that waste most first, from recorded series."""
    state = f'workload_state:gpu_workload_gpu_seconds:rate5m{{{scope}, state=~"{states.LOST_REGEX}"}} > 0.2'
    memory = f"workload:gpu_workload_memory_bytes:sum{{{scope}}}"
    columns: list[Value | Text] = [
        Value(
            "Wasted",
            f"workload:gpu_waste:rate5m{{{scope}}}",
            "short",
            look.SOME_IS_WORTH_A_LOOK,
            decimals=1,
            width=90,
            reduce="sum",
            wrap=f"topk({at_most}, {{}})",
        ),
        Value("GPUs", f"workload:gpu_workload_gpus:sum{{{scope}}}", "short", decimals=1, width=65, reduce="sum"),
        gauge("Utilization", f"workload:gpu_utilization:ratio_rate5m{{{scope}}}", look.GOOD_IS_HIGH, width=130),
        lost_state("Wasted on", state),
    ]
    if with_advice:
        columns += [advice("What to do", state), Value("GPU memory", memory, units.BytesIEC, width=100, reduce="sum")]
    return Table(
        title=title,
        description=description,
        keys=(Key("workload", "Workload", (onward,)), *owner_keys),
        columns=tuple(columns),
        sort="Wasted",
        size=size,
        empty=empty,
        order=("GPUs", "Utilization", "Wasted"),
    ).build()


def processes(scope: str, *, size: tuple[int, int] = (24, 8)) -> table.Panel:
    return Table(
        title="Processes",
        description="Processes on the GPUs of this selection, and whose they are. "
        "Those beyond the exporter's limit are summed up as pid 'other'. Memory is a dash where the driver does not tell it.",
        keys=(
            Key("instance", "Node", width=140),
            Key("gpu", "GPU", width=60),
            Key("pid", "PID", width=90),
            Key("command", "Command", width=160),
            Key("user", "User", width=110),
            Key("workload", "Workload"),
        ),
        columns=(
            Value("GPU memory", f"gpu_process_memory_bytes{{{scope}}}", units.BytesIEC, width=130, reduce="sum"),
            gauge("SM", f'gpu_process_utilization_ratio{{{scope}, engine="sm"}}', look.PLAIN, width=120),
            Value("CPU cores", rate(f"gpu_process_cpu_seconds_total{{{scope}}}"), "short", decimals=2, width=95),
            Value("Host memory", f"gpu_process_resident_memory_bytes{{{scope}}}", units.BytesIEC, width=110),
            Value(
                "Running for",
                f"time() - gpu_process_start_time_seconds{{{scope}}}",
                units.Seconds,
                decimals=0,
                width=110,
            ),
        ),
        sort="GPU memory",
        size=size,
        empty="No process on these GPUs",
    ).build()
