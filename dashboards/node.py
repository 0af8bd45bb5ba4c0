"""Node: the GPUs of one machine side by side, their owners, and what they do."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, link, mfu, panel, ports, style, uid, variable
from dashboards.parts.absence import ZERO
from dashboards.parts.frame import dashboard
from dashboards.parts.query import (
    CLUSTER,
    ONE_NODE,
    THERMAL,
    answering,
    gpu_busy,
    known,
    main_states,
    now,
    over_time,
    rate,
    some,
)
from dashboards.parts.table import Key, Table, Value, gauge, lost_state
from exporter.tools.report.definitions import UTILIZATION, Ledger

BY_GPU = "GPU {{gpu}}"


def node() -> build.Dashboard:
    made = dashboard(
        "Node",
        uid.NODE,
        "The GPUs of one node: their owners, their states and their health.",
        (variable.node(),),
        scope=ONE_NODE,
        span="now-3h",
    )
    made.with_row(build.Row("Now"))
    _numbers(made)
    made.with_panel(block.gpus(ONE_NODE, size=(24, 10)))
    made.with_panel(block.alerts(ONE_NODE, size=(24, 7)))
    made.with_panel(_owners())
    made.with_row(build.Row("What the GPUs did"))
    _ledger(made)
    made.with_row(build.Row("Load"))
    _load(made)
    made.with_row(build.Row("Heat and power"))
    _heat(made)
    made.with_row(build.Row("Network"))
    made.with_panel(ports.ports())
    made.with_panel(ports.traffic())
    made.with_row(build.Row("Processes"))
    made.with_panel(block.processes(ONE_NODE))
    return made


def _numbers(made: build.Dashboard) -> None:
    onward = (link.to_health(),)
    made.with_panel(
        panel.number("GPUs", "GPUs of the exporter, reachable or not.", now(f"count({known(ONE_NODE)})"), size=(3, 4))
    )
    made.with_panel(
        panel.number(
            "Lost",
            "GPUs that the PCI bus shows or the exporter knew, and that the driver reports lost or gives no reading of.",
            now(f"count({known(ONE_NODE)}) - sum({known(ONE_NODE)})"),
            steps=style.RED_FROM_ONE,
            size=(3, 4),
            links=onward,
        )
    )
    made.with_panel(
        panel.number(
            "Allocated",
            "Allocated GPUs. A fraction of a GPU counts as a fraction.",
            now(f"sum(gpu_workload_allocated_gpus{{{ONE_NODE}}}){ZERO}"),
            size=(3, 4),
            decimals=1,
        )
    )
    made.with_panel(
        panel.number(
            "Busy",
            "Fraction of the observed time in which a kernel ran, over all GPUs of the node. Lost GPUs are not in it.",
            over_time(gpu_busy(ONE_NODE, "")),
            units.PercentUnit,
            size=(4, 4),
            spark=True,
            decimals=0,
        )
    )
    made.with_panel(
        panel.number(
            "Power",
            "Drawn by the node's GPUs.",
            over_time(f"sum(gpu_power_watts{{{ONE_NODE}}})"),
            units.Watt,
            size=(3, 4),
            spark=True,
            empty="not reported by these GPUs",
        )
    )
    made.with_panel(
        panel.number(
            "Last sample",
            "Age of the exporter's last look at the GPUs. More than some seconds: the numbers here are old.",
            now(f"time() - max(gpu_exporter_last_sample_timestamp_seconds{{{ONE_NODE}}})"),
            units.Seconds,
            steps=style.STALENESS,
            size=(3, 4),
            decimals=1,
            links=(link.to_exporter(),),
        )
    )
    made.with_panel(
        panel.facts(
            "Driver",
            "Version of the NVIDIA driver.",
            now(f"max by (driver) (gpu_driver_info{{{ONE_NODE}}})"),
            "driver",
            size=(5, 4),
        )
    )


def _ledger(made: build.Dashboard) -> None:
    seconds = f"gpu_state_seconds_total{{{ONE_NODE}}}"
    made.with_panel(
        block.told(
            "What each GPU did",
            "One row per GPU.",
            lambda more: rate(f"gpu_state_seconds_total{{{ONE_NODE}{more}}}"),
            "gpu",
            BY_GPU,
            size=(12, 9),
        )
    )
    made.with_panel(
        panel.ledger(
            "GPUs by state",
            "GPUs' worth of time in each state; the stack is as high as the node has GPUs.",
            over_time(some(f"sum by (state) ({rate(seconds)})")),
            size=(12, 9),
        )
    )
    made.with_panel(
        panel.timeline(
            "Thermal throttling",
            "GPUs whose clocks were lowered because of heat at that moment.",
            over_time(f"max by (gpu) (gpu_throttle_active{{{ONE_NODE}, {THERMAL}}})", BY_GPU),
            style.THROTTLE,
            size=(24, 5),
            empty="These GPUs do not report throttling",
        )
    )


def _owners() -> table.Panel:
    mine = Ledger("gpu_workload_gpu_seconds_total", ONE_NODE, "workload, user", rate)
    by = "workload, user"
    allocated = f"sum by ({by}) (gpu_workload_allocated_gpus{{{ONE_NODE}}})"
    main_state = main_states(lambda more: rate(f"gpu_workload_gpu_seconds_total{{{ONE_NODE}{more}}}"), by, allocated)
    workload = link.cell("Workload")
    return Table(
        title="Owners on this node",
        description="One row per workload with allocated GPUs of this node. State: its largest loss here where that takes a tenth of its time, "
        "else what takes most. Click a workload to see why.",
        keys=(
            Key("workload", "Workload", (link.to_pod(workload), link.to_job(workload))),
            Key("user", "User", (link.to_user(link.cell("User")),), width=80),
        ),
        columns=(
            Value(
                "GPUs",
                f"gpu_workload_allocated_gpus{{{ONE_NODE}}}",
                style.COUNT,
                decimals=1,
                width=70,
                reduce="sum",
                wrap="{} > 0",
            ),
            gauge("Utilization", UTILIZATION.promql(mine), style.PLAIN, width=110),
            *mfu.columns(
                CLUSTER,
                "cluster, workload, user",
                f" and on (cluster, workload) gpu_workload_allocated_gpus{{{ONE_NODE}}}",
                mfu.NOW,
            ),
            lost_state("State", main_state),
        ),
        sort="GPUs",
        size=(24, 6),
        empty="No GPU of this node is allocated",
    ).build()


def _load(made: build.Dashboard) -> None:
    made.with_panel(
        panel.lines(
            "Busy",
            "Fraction of the observed time a kernel ran, per GPU, integrated on the node. An unreachable GPU has no line.",
            over_time(gpu_busy(ONE_NODE, "cluster, instance, gpu"), BY_GPU),
            units.PercentUnit,
            ceiling=1,
            links=_onward(),
        )
    )
    made.with_panel(
        panel.lines(
            "Memory used",
            "Used memory per GPU.",
            over_time(f"gpu_memory_used_bytes{{{ONE_NODE}}}", BY_GPU),
            units.BytesIEC,
            links=_onward(),
        )
    )
    made.with_panel(
        panel.lines(
            "SM activity",
            "Fraction of the multiprocessors that had work: a truer utilization than the driver's. Hopper and newer.",
            over_time(answering(rate(f"gpu_sm_active_seconds_total{{{ONE_NODE}}}"), ONE_NODE), BY_GPU),
            units.PercentUnit,
            ceiling=1,
            empty="These GPUs are older than Hopper and do not report SM activity",
            links=_onward(),
        )
    )
    made.with_panel(
        panel.lines(
            "NVLink and PCIe traffic",
            "Bytes per second over all links of the node's GPUs.",
            [
                over_time(
                    f"sum by (direction) ({rate(f'gpu_nvlink_bytes_total{{{ONE_NODE}}}')})", "NVLink {{direction}}"
                ),
                over_time(f"sum by (direction) ({rate(f'gpu_pcie_bytes_total{{{ONE_NODE}}}')})", "PCIe {{direction}}"),
            ],
            units.BytesPerSecondSI,
            empty="These GPUs do not report link traffic",
        )
    )


def _heat(made: build.Dashboard) -> None:
    made.with_panel(
        panel.lines(
            "Temperature",
            "Per GPU. The dashed lines are rules of thumb; the margin to the GPU's own threshold is in the table above.",
            over_time(f'gpu_temperature_celsius{{{ONE_NODE}, sensor="gpu"}}', BY_GPU),
            units.Celsius,
            floor=20,
            steps=style.HEAT,
            links=_onward(),
        )
    )
    made.with_panel(
        panel.lines(
            "Power",
            "Per GPU. At its limit is normal under full load.",
            over_time(f"gpu_power_watts{{{ONE_NODE}}}", BY_GPU),
            units.Watt,
            links=_onward(),
            empty="These GPUs do not report power",
        )
    )


def _onward() -> tuple[link.Link, ...]:
    return (link.to_gpu(link.label("instance"), link.label("gpu")),)
