"""What a workload holds and uses: its GPUs, its part of the host, and what it gets done."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, look, panel
from dashboards.parts.query import GPU_LABELS, NODE, THERMAL, now, over_time, rate
from dashboards.parts.table import Key, Table, Value, gauge
from dashboards.parts.workload_kind import BY_WORKLOAD, Kind


def gpus(kind: Kind) -> table.Panel:
    """NODE in its queries takes the hidden variable of the nodes that the selection is on."""
    node, gpu = link.cell("Node"), link.cell("GPU")
    held = f" and on ({GPU_LABELS}) (gpu_owner_share{{{kind.scope}}} > 0)"
    by = "cluster, instance, gpu"
    return Table(
        title="Its GPUs",
        description="One row per GPU the selection holds, the least used first: a straggler or a crashed rank stands out. "
        "Click a GPU to open it.",
        keys=(
            Key("workload", kind.noun.capitalize()),
            Key("instance", "Node", (link.to_node(node),), width=140),
            Key("gpu", "GPU", (link.to_gpu(node, gpu),), width=60),
        ),
        columns=tuple(
            Value(
                made.title,
                f"(gpu_owner_share{{{kind.scope}}} > 0) * 0 + on ({by}) group_left () max by ({by}) ({made.expr})",
                made.unit,
                made.steps,
                made.gauge,
                made.ceiling,
                made.decimals,
                width=made.width,
            )
            for made in (
                gauge("Utilization", rate(f"gpu_busy_seconds_total{{{NODE}}}") + held, look.GOOD_IS_HIGH, width=140),
                gauge("SM active", rate(f"gpu_sm_active_seconds_total{{{NODE}}}") + held, look.PLAIN, width=140),
                gauge(
                    "Memory",
                    f"(gpu_memory_used_bytes{{{NODE}}} / gpu_memory_total_bytes{{{NODE}}}){held}",
                    look.FULL,
                    width=140,
                ),
                Value(
                    "Temp.",
                    f'gpu_temperature_celsius{{{NODE}, sensor="gpu"}}{held}',
                    units.Celsius,
                    look.HEAT,
                    width=75,
                ),
                gauge(
                    "Held down by heat",
                    f"sum by ({GPU_LABELS}) ({rate(f'gpu_throttled_seconds_total{{{NODE}, {THERMAL}}}')}){held}",
                    look.SHARE_OF_TIME,
                    width=130,
                ),
                Value("Power", f"gpu_power_watts{{{NODE}}}{held}", units.Watt, width=80),
            )
        ),
        sort="Utilization",
        ascending=True,
        size=(24, 8),
        empty="The selection holds no whole GPU now (MIG instances are on the GPU dashboard)",
    ).build()


def gpu_lines(made: build.Dashboard, kind: Kind) -> None:
    held = f"and on ({GPU_LABELS}) (gpu_owner_share{{{kind.scope}}} > 0)"
    busy = f"({rate(f'gpu_busy_seconds_total{{{NODE}}}')} {held})"
    names = ("least used GPU", "mean", "most used GPU")
    made.with_panel(
        panel.band(
            "Utilization over its GPUs",
            "From the least to the most used of the GPUs it holds, and their mean. A wide band is an imbalance.",
            (
                over_time(f"min({busy})", names[0]),
                over_time(f"avg({busy})", names[1]),
                over_time(f"max({busy})", names[2]),
            ),
            units.PercentUnit,
            names,
            ceiling=1,
        ).no_value("The selection held no whole GPU in the time range")
    )
    made.with_panel(
        panel.lines(
            "GPU memory",
            "That its processes use, over all its GPUs.",
            over_time(f"sum by (workload) (gpu_workload_memory_bytes{{{kind.scope}}})", BY_WORKLOAD),
            units.BytesIEC,
            empty="No process of the selection is on a GPU",
        )
    )


def host(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.scope
    made.with_panel(
        panel.lines(
            "CPU",
            "Cores in use, and the limit. At its limit, the GPU waits for CPU.",
            [
                over_time(
                    f"sum by (workload) ({rate(f'gpu_workload_cpu_seconds_total{{{scope}}}')})", f"{BY_WORKLOAD} used"
                ),
                over_time(f"sum by (workload) (gpu_workload_cpu_limit_cores{{{scope}}})", f"{BY_WORKLOAD} limit"),
            ],
            units.Short,
            size=(8, 8),
            empty="The host tells nothing of its CPU",
        )
    )
    made.with_panel(
        panel.lines(
            "Pressure",
            "Share of time some of its tasks were stalled for CPU, storage (io) or memory. The cause behind waiting GPUs.",
            over_time(
                f"max by (workload, resource) ({rate(f'gpu_workload_pressure_seconds_total{{{scope}}}')})",
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
            over_time(f"sum by (workload) ({rate(f'gpu_workload_read_bytes_total{{{scope}}}')})", BY_WORKLOAD),
            units.BytesPerSecondSI,
            size=(8, 8),
            empty="The host tells nothing of its reads",
        )
    )
    made.with_panel(
        panel.lines(
            "Host memory",
            "Resident, and the limit. At the limit its processes are killed.",
            [
                over_time(f"sum by (workload) (gpu_workload_resident_memory_bytes{{{scope}}})", f"{BY_WORKLOAD} used"),
                over_time(f"sum by (workload) (gpu_workload_memory_limit_bytes{{{scope}}})", f"{BY_WORKLOAD} limit"),
            ],
            units.BytesIEC,
            size=(12, 7),
            empty="The host tells nothing of its memory",
        )
    )
    made.with_panel(
        panel.lines(
            "GPUs held",
            "By each workload.",
            over_time(f"sum by (workload) (gpu_workload_gpus{{{scope}}})", BY_WORKLOAD),
            units.Short,
            size=(12, 7),
            empty="The selection held no GPU in the time range",
        )
    )


def progress(made: build.Dashboard, kind: Kind) -> None:
    scope = kind.scope
    silent = "No program of the selection reports its progress"
    made.with_panel(
        panel.lines(
            "Steps per second",
            "As the program reports. The truest utilization there is.",
            over_time(f"max by (workload) ({rate(f'gpu_workload_steps_total{{{scope}}}')})", BY_WORKLOAD),
            units.OpsPerSecond,
            size=(8, 7),
            empty=silent,
        )
    )
    made.with_panel(
        panel.lines(
            "Samples per second",
            "Samples or tokens, as the program reports.",
            over_time(f"sum by (workload) ({rate(f'gpu_workload_samples_total{{{scope}}}')})", BY_WORKLOAD),
            units.OpsPerSecond,
            size=(8, 7),
            empty=silent,
        )
    )
    made.with_panel(
        panel.bars(
            "Progress",
            "How far it is, as the program reports.",
            now(f"max by (workload) (gpu_workload_progress_ratio{{{scope}}})", BY_WORKLOAD),
            units.PercentUnit,
            size=(8, 7),
            ceiling=1,
            empty=silent,
        )
    )
