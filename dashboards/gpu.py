"""GPU: everything known of one device. What it does not report is said in words."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.common import BigValueColorMode

from dashboards.parts import block, gpu_errors, gpu_lines, link, panel, states, style, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.gpu_lines import NOT_REPORTED
from dashboards.parts.query import (
    DEVICE,
    ONE_NODE,
    answering,
    gpu_busy,
    main_states,
    notable_state,
    now,
    over_time,
    rate,
    some,
)
from dashboards.parts.table import Key, Table, Text, gauge, lost_state


def gpu() -> build.Dashboard:
    variables = (
        variable.node(),
        variable.one("gpu", "GPU", f"label_values(gpu_up{{{ONE_NODE}}}, gpu)"),
    )
    made = dashboard(
        "GPU",
        uid.GPU,
        "One GPU: its model, its owner, its states and its health.",
        variables,
        scope=DEVICE,
        span="now-3h",
    )
    made.with_row(build.Row("Now"))
    _numbers(made)
    _ledger(made)
    made.with_row(build.Row("Load"))
    gpu_lines.load(made)
    made.with_row(build.Row("Heat, power and clocks"))
    gpu_lines.heat(made)
    made.with_row(build.Row("Errors and links"))
    gpu_errors.errors(made)
    made.with_row(build.Row("Processes and MIG instances"))
    made.with_panel(block.processes(DEVICE, size=(24, 7)))
    made.with_panel(_instances())
    made.with_row(build.Row("What it is"))
    _identity(made)
    return made


def _identity(made: build.Dashboard) -> None:
    info = f"gpu_info{{{DEVICE}}}"
    for title, label, description, width in (
        ("Model", "model", "Product name of the GPU.", 6),
        ("UUID", "uuid", "Identity of the GPU, the same after it moved to another slot or node.", 8),
        ("PCI bus id", "pci_bus_id", "Where it sits: for lspci, nvidia-smi and the kernel's log.", 4),
        ("Serial number", "serial", "For the vendor, when it must be replaced.", 3),
        ("VBIOS", "vbios", "Firmware of the board.", 3),
    ):
        made.with_panel(panel.facts(title, description, now(f"max by ({label}) ({info})"), label, size=(width, 3)))


def _numbers(made: build.Dashboard) -> None:
    up = f"min(gpu_up{{{DEVICE}}})"
    onward = (link.to_node("$instance"),)
    made.with_panel(
        panel.number(
            "Reachable",
            "Whether the driver reaches this GPU. LOST: it fell off the bus, needs a reset, or gives no reading in time. Click for the node.",
            now(up),
            "none",
            mappings=style.ANSWERS,
            size=(3, 4),
            links=onward,
        )
    )
    made.with_panel(
        panel.number(
            "State",
            "Its largest loss where that takes a tenth of its time, else the state that takes most.",
            now(notable_state(lambda more: rate(f"gpu_state_seconds_total{{{DEVICE}{more}}}"), "gpu")),
            "none",
            mappings=states.by_code(),
            size=(4, 4),
        ).color_mode(BigValueColorMode.BACKGROUND_SOLID)
    )
    made.with_panel(
        panel.number(
            "Busy",
            "Fraction of the observed time in which a kernel ran.",
            now(gpu_busy(DEVICE, "gpu")),
            units.PercentUnit,
            size=(3, 4),
            decimals=0,
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.number(
            "Memory used",
            "Fraction of its memory in use.",
            now(f"gpu_memory_used_bytes{{{DEVICE}}} / gpu_memory_total_bytes{{{DEVICE}}}"),
            units.PercentUnit,
            steps=style.FULL,
            size=(3, 4),
            decimals=0,
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.number(
            "Temperature",
            "Temperature of the chip.",
            now(f'gpu_temperature_celsius{{{DEVICE}, sensor="gpu"}}'),
            units.Celsius,
            steps=style.HEAT,
            size=(3, 4),
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.number(
            "Margin",
            "Degrees left before it slows itself down.",
            now(f"gpu_temperature_margin_celsius{{{DEVICE}}}"),
            units.Celsius,
            steps=style.MARGIN,
            size=(2, 4),
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.number(
            "Power",
            "Power it draws now.",
            now(f"gpu_power_watts{{{DEVICE}}}"),
            units.Watt,
            size=(3, 4),
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.name_series(
            panel.facts(
                "Recovery action",
                "The recovery action that the driver reports for this GPU.",
                now(f"max by (action) (gpu_recovery_action{{{DEVICE}}})"),
                "action",
                size=(3, 4),
            ),
            style.RECOVERY_NAMES,
        )
    )


def _ledger(made: build.Dashboard) -> None:
    seconds = f"gpu_state_seconds_total{{{DEVICE}}}"
    allocated = f"max by (cluster, workload) (gpu_allocation_ratio{{{DEVICE}}} > 0)"
    allocated_mig = f"sum by (cluster, workload) (gpu_mig_allocation_ratio{{{DEVICE}}} > 0)"
    made.with_panel(
        panel.timeline(
            "Allocated to",
            "The workloads that had the GPU allocated. Several rows: it is shared.",
            over_time(f"ceil({allocated} or {allocated_mig})", "{{workload}}"),
            style.words({"1": ("allocated", style.BLUE)}),
            size=(12, 6),
            empty="This GPU was not allocated in the time range",
        )
    )
    made.with_panel(
        panel.name_series(
            panel.timeline(
                "Clock throttling",
                "Reasons for which the clocks were lowered at that moment. A software power cap is normal under full load; heat and power brake are not.",
                over_time(f"max by (reason) (gpu_throttle_active{{{DEVICE}}})", "{{reason}}"),
                style.THROTTLE,
                size=(12, 9),
                empty="This GPU does not report throttling",
            ),
            style.REASONS,
        )
    )
    made.with_panel(
        panel.ledger(
            "Its time by state",
            "Fraction of time in each state. Always sums to 100 %.",
            over_time(some(f"sum by (state) ({rate(seconds)})")),
            unit=units.PercentUnit,
            size=(12, 9),
            ceiling=1,
        )
    )
    made.with_panel(
        panel.state_bars(
            "Time in the range, by state",
            "The same ledger, summed over the time range.",
            now(f"sort_desc(sum by (state) (increase({seconds}[$__range])) > 0)"),
            units.Seconds,
            size=(12, 6),
        )
    )


def _instances() -> table.Panel:
    return Table(
        title="MIG instances",
        description="The MIG instances of the GPU, each with its own owner and states.",
        keys=(
            Key("gi", "GI", width=60),
            Key("ci", "CI", width=60),
            Key("profile", "Profile", width=120),
            Key("uuid", "UUID"),
        ),
        columns=(
            Text("Allocated to", f"gpu_mig_allocation_ratio{{{DEVICE}}}", "workload"),
            lost_state(
                "State",
                main_states(
                    lambda more: rate(f"gpu_mig_state_seconds_total{{{DEVICE}{more}}}"), "gi, ci, profile, uuid"
                ),
            ),
            gauge(
                "Memory",
                f"gpu_mig_memory_used_bytes{{{DEVICE}}} / gpu_mig_memory_total_bytes{{{DEVICE}}}",
                style.FULL,
                width=150,
            ),
            gauge(
                "SM active",
                answering(rate(f"gpu_mig_sm_active_seconds_total{{{DEVICE}}}"), DEVICE, gpu="gpu"),
                style.PLAIN,
                width=150,
            ),
        ),
        sort="GI",
        ascending=True,
        size=(24, 6),
        empty="MIG is off on this GPU",
    ).build()
