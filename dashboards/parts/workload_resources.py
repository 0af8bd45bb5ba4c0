"""Resources of a workload: its GPUs, its use of the host, and its work."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, panel, reported, style
from dashboards.parts.query import (
    NODE,
    NOTABLE,
    THERMAL,
    answering,
    devices,
    main_states,
    now,
    over_time,
    owners,
    rate,
)
from dashboards.parts.table import Key, Table, Value, gauge, lost_state
from dashboards.parts.workload_kind import BY_WORKLOAD, Kind
from exporter.tools.report.definitions import UTILIZATION, identity

_WAITS = f"gpu:gpu_rank_wait:ratio_rate5m{{{NODE}}}"
"""Fraction of its time that each GPU waits for another one of the same workload."""


def gpus(kind: Kind) -> table.Panel:
    """NODE in its queries takes the hidden variable of the nodes that the selection is on."""
    node, gpu, cluster = link.cell("Node"), link.cell("GPU"), link.cell("Cluster")
    by = "cluster, instance, gpu"
    main_state = main_states(lambda more: rate(f"gpu_state_seconds_total{{{NODE}{more}}}"), by)

    def own(expr: str, *more: str) -> str:
        """A number of each GPU, on the rows of its owner."""
        labels = ", ".join((by, *more))
        joined = f"group_left ({', '.join(more)}) max by ({labels}) ({expr})"
        return f"(gpu_allocation_ratio{{{kind.shown}}} > 0) * 0 + on ({by}) {joined}"

    return Table(
        title="Its GPUs: which one the others wait for, which one is not used",
        description="One row per GPU allocated to the selection; the one that the others wait for comes first, then the least used. Others wait: how much "
        "more of its time some other GPU of the workload waits for its peers than this one does. Busy: of its allocated and observed time. What a row shows is "
        "of the whole GPU, with whatever others do on a shared one. Click a GPU to open it.",
        keys=(
            Key("cluster", "Cluster", width=75),
            Key("workload", kind.noun.capitalize()),
            Key("instance", "Node", (link.to_node(node, cluster),), width=140),
            Key("gpu", "GPU", (link.to_gpu(node, gpu, cluster),), width=60),
        ),
        columns=(
            gauge("Busy", own(UTILIZATION.promql(devices("gpu", NODE, by, identity))), style.PLAIN, width=130),
            gauge("Others wait", _lead(own(_WAITS)), style.FRACTION_OF_TIME, width=130),
            lost_state("State", own(f"topk by ({by}) (1, {main_state})", "state")),
            gauge(
                "SM active",
                own(answering(rate(f"gpu_sm_active_seconds_total{{{NODE}}}"), NODE)),
                style.PLAIN,
                width=130,
            ),
            gauge(
                "Memory",
                own(f"gpu_memory_used_bytes{{{NODE}}} / gpu_memory_total_bytes{{{NODE}}}"),
                style.FULL,
                width=130,
            ),
            Value(
                "Temp.",
                own(f'gpu_temperature_celsius{{{NODE}, sensor="gpu"}}'),
                units.Celsius,
                style.HEAT,
                width=75,
            ),
            gauge(
                "Thermal throttling",
                own(answering(rate(f"gpu_throttled_seconds_total{{{NODE}, {THERMAL}}}"), NODE)),
                style.FRACTION_OF_TIME,
                width=145,
            ),
            Value("Power", own(f"gpu_power_watts{{{NODE}}}"), units.Watt, width=80),
        ),
        rows=f"gpu_allocation_ratio{{{kind.shown}}} > 0",
        sort="Others wait",
        then="Busy",
        order=("Others wait", "State"),
        size=(24, 8),
        empty="The selection has no GPU allocated now",
    ).build()


def _lead(own: str) -> str:
    """Return how much longer the GPU that waits most waits than each of the others; of no use under a tenth."""
    by = "cluster, workload"
    return f"(max by ({by}) ({own}) - on ({by}) group_right () ({own})) >= {NOTABLE}"


def gpu_lines(made: build.Dashboard, kind: Kind) -> None:
    names = ("least used GPU", "mean", "most used GPU")
    used = f"workload:gpu_utilization:{{}}{{{{{kind.scope}}}}}"
    made.with_panel(
        panel.band(
            "How busy its GPUs are",
            "From the least to the most used of the GPUs allocated to the selection, and its utilization. A wide band is an imbalance.",
            (
                over_time(f"min({used.format('min')})", names[0]),
                over_time(UTILIZATION.promql(owners("workload", kind.scope, "", identity)), names[1]),
                over_time(f"max({used.format('max')})", names[2]),
            ),
            units.PercentUnit,
            names,
            ceiling=1,
        ).no_value("The selection had no whole GPU allocated in the time range")
    )
    made.with_panel(
        panel.lines(
            "GPU memory",
            "That its processes use, over all its GPUs. Of many, the 12 that wasted most; so in all graphs below.",
            over_time(
                f"sum by (cluster, workload) (gpu_workload_memory_bytes{{{kind.shown}}})",
                BY_WORKLOAD,
            ),
            units.BytesIEC,
            empty="No process of the selection is on a GPU",
        )
    )


def host(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.shown
    made.with_panel(
        panel.lines(
            "CPU",
            "Cores in use, and the limit. At its limit, the GPU waits for CPU.",
            [
                over_time(
                    f"sum by (cluster, workload) ({rate(f'gpu_workload_cpu_seconds_total{{{scope}}}')})",
                    f"{BY_WORKLOAD} used",
                ),
                over_time(
                    f"sum by (cluster, workload) (gpu_workload_cpu_limit_cores{{{scope}}})",
                    f"{BY_WORKLOAD} limit",
                ),
            ],
            style.COUNT,
            size=(8, 8),
            empty="The host does not report its CPU",
        )
    )
    made.with_panel(
        panel.lines(
            "Pressure",
            "Fraction of time some of its tasks were stalled for CPU, storage (io) or memory. The cause behind waiting GPUs.",
            over_time(
                f"max by (cluster, workload, resource) ({rate(f'gpu_workload_pressure_seconds_total{{{scope}}}')})",
                f"{BY_WORKLOAD} {{{{resource}}}}",
            ),
            units.PercentUnit,
            size=(8, 8),
            empty="This host's kernel does not report pressure (PSI)",
        )
    )
    made.with_panel(
        panel.lines(
            "Read from storage",
            "Bytes per second.",
            over_time(
                f"sum by (cluster, workload) ({rate(f'gpu_workload_read_bytes_total{{{scope}}}')})",
                BY_WORKLOAD,
            ),
            units.BytesPerSecondSI,
            size=(8, 8),
            empty="The host does not report its reads",
        )
    )
    made.with_panel(
        panel.lines(
            "Host memory",
            "Resident, and the limit. At the limit its processes are killed.",
            [
                over_time(
                    f"sum by (cluster, workload) (gpu_workload_resident_memory_bytes{{{scope}}})",
                    f"{BY_WORKLOAD} used",
                ),
                over_time(
                    f"sum by (cluster, workload) (gpu_workload_memory_limit_bytes{{{scope}}})",
                    f"{BY_WORKLOAD} limit",
                ),
            ],
            units.BytesIEC,
            size=(12, 7),
            empty="The host does not report its memory",
        )
    )
    made.with_panel(
        panel.lines(
            "Allocated GPUs",
            "By each workload.",
            over_time(f"sum by (cluster, workload) (gpu_workload_allocated_gpus{{{scope}}})", BY_WORKLOAD),
            style.COUNT,
            size=(12, 7),
            empty="The selection had no GPU allocated in the time range",
        )
    )


def progress(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.shown
    made.with_panel(
        reported.lines(
            "Work per second",
            "As the program reports, a line for each unit that it reports. The truest utilization there is.",
            reported.work(scope),
            units.OpsPerSecond,
            size=(8, 8),
        )
    )
    made.with_panel(reported.steps_lines(scope, size=(8, 8)))
    made.with_panel(
        panel.bars(
            "Progress",
            "How far it is, as the program reports; of many, the twelve furthest.",
            now(f"topk(12, max by (cluster, workload) (gpu_workload_progress_ratio{{{kind.scope}}}))", BY_WORKLOAD),
            units.PercentUnit,
            size=(8, 8),
            ceiling=1,
            empty=reported.SILENT,
        )
    )
