"""GPU: everything known of one device. What it does not report is said in words."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, gpu_lines, link, look, panel, states, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.gpu_lines import NOT_REPORTED
from dashboards.parts.query import DEVICE, NODE, dominant, now, over_time, rate
from dashboards.parts.table import Key, Table, Text, Value, gauge, lost_state


def gpu() -> build.Dashboard:
    variables = (
        variable.node(),
        variable.one("gpu", "GPU", f"label_values(gpu_up{{{NODE}}}, gpu)"),
    )
    made = dashboard(
        "GPU",
        uid.GPU,
        "One GPU: what it is, who holds it, what it does, how it fares.",
        variables,
        scope=DEVICE,
        span="now-3h",
    )
    made.with_row(build.Row("What it is"))
    _identity(made)
    made.with_row(build.Row("Now"))
    _numbers(made)
    made.with_row(build.Row("Who held it, and what it did"))
    _ledger(made)
    made.with_row(build.Row("Load"))
    gpu_lines.load(made)
    made.with_row(build.Row("Heat, power and clocks"))
    gpu_lines.heat(made)
    made.with_row(build.Row("Errors and links"))
    _errors(made)
    made.with_row(build.Row("Processes and MIG instances"))
    made.with_panel(block.processes(DEVICE, size=(24, 7)))
    made.with_panel(_instances())
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
            "Answers",
            "Whether the driver answers for this GPU. LOST: it fell off the bus or wants a reset. Click for the node.",
            now(up),
            "none",
            mappings=look.ANSWERS,
            size=(3, 4),
            links=onward,
        )
    )
    made.with_panel(
        panel.number(
            "Mostly",
            "The state in which it spent most of the last step.",
            now(dominant(rate(f"gpu_time_seconds_total{{{DEVICE}}}"), "gpu")),
            "none",
            mappings=states.by_code(),
            size=(4, 4),
        )
    )
    made.with_panel(
        panel.number(
            "Utilization",
            "Share of time a kernel ran.",
            now(rate(f"gpu_busy_seconds_total{{{DEVICE}}}")),
            units.PercentUnit,
            size=(3, 4),
            decimals=0,
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.number(
            "Memory used",
            "Share of its memory in use.",
            now(f"gpu_memory_used_bytes{{{DEVICE}}} / gpu_memory_total_bytes{{{DEVICE}}}"),
            units.PercentUnit,
            steps=look.FULL,
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
            steps=look.HEAT,
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
            steps=look.MARGIN,
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
        panel.facts(
            "The driver advises",
            "What the driver itself says must be done with this GPU.",
            now(f"max by (action) (gpu_recovery_action{{{DEVICE}}})"),
            "action",
            size=(3, 4),
        )
    )


def _ledger(made: build.Dashboard) -> None:
    seconds = f"gpu_time_seconds_total{{{DEVICE}}}"
    held = f"max by (workload) (gpu_owner_share{{{DEVICE}}} > 0)"
    held_mig = f"sum by (workload) (gpu_mig_owner_share{{{DEVICE}}} > 0)"
    made.with_panel(
        panel.timeline(
            "Held by",
            "Who held the GPU. Several rows: it is shared.",
            over_time(f"ceil({held} or {held_mig})", "{{workload}}"),
            look.words({"1": ("holds it", look.BLUE)}),
            size=(12, 6),
            empty="Nobody held this GPU in the time range",
        )
    )
    made.with_panel(
        panel.timeline(
            "Clocks held down",
            "Reasons for which the clocks were lowered at that moment. A software power cap is normal under full load; heat and power brake are not.",
            over_time(f"max by (reason) (gpu_throttle_active{{{DEVICE}}})", "{{reason}}"),
            look.THROTTLE,
            size=(12, 9),
            empty="This GPU does not report throttling",
        )
    )
    made.with_panel(
        panel.ledger(
            "Its time by state",
            "Share of time in each state. Always sums to 100 %.",
            over_time(f"sum by (state) ({rate(seconds)})"),
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


def _errors(made: build.Dashboard) -> None:
    made.with_panel(
        Table(
            title="XIDs in the range",
            description="Errors the driver logged for this GPU, by NVIDIA's number and class. reset_gpu and restart_bm are on-call's, restart_app the owner's.",
            keys=(Key("xid", "XID", width=80), Key("class", "Class")),
            columns=(
                Value(
                    "Times",
                    f"increase(gpu_xid_errors_total{{{DEVICE}}}[$__range]) > 0",
                    "short",
                    look.SOME_IS_BAD,
                    decimals=0,
                    width=80,
                ),
                Value(
                    "Last seen",
                    f"gpu_xid_last_timestamp_seconds{{{DEVICE}}} * 1000 * on (xid) group_left (class) max by (xid, class) (increase(gpu_xid_errors_total{{{DEVICE}}}[$__range]) > bool 0)",
                    units.DatetimeISO,
                    width=170,
                ),
            ),
            sort="Times",
            size=(8, 8),
            empty="No XID in the time range",
        ).build()
    )
    made.with_panel(
        panel.number(
            "ECC errors",
            "Since the driver was loaded. Corrected ones are normal in small numbers.",
            now(f"gpu_ecc_errors_total{{{DEVICE}}}", "{{type}}"),
            units.Short,
            size=(4, 4),
            decimals=0,
            steps=look.SOME_IS_WORTH_A_LOOK,
            empty="no ECC",
        )
    )
    made.with_panel(
        panel.number(
            "Remapped rows",
            "Rows of memory replaced by spares, ever.",
            now(f"gpu_remapped_rows_total{{{DEVICE}}}", "{{cause}}"),
            units.Short,
            size=(4, 4),
            decimals=0,
            steps=look.SOME_IS_WORTH_A_LOOK,
            empty="no row remapping",
        )
    )
    made.with_panel(
        panel.number(
            "NVLinks down",
            "Links of this GPU that are not up.",
            now(f"count(gpu_nvlink_link_up{{{DEVICE}}} == 0) or 0 * count(gpu_nvlink_link_up{{{DEVICE}}})"),
            "none",
            size=(4, 4),
            steps=look.SOME_IS_BAD,
            empty="no NVLink",
        )
    )
    made.with_panel(
        panel.number(
            "PCIe link",
            "Width of the link now and at most: a smaller number now is a bad slot, riser or cable.",
            [
                now(f"gpu_pcie_link_width{{{DEVICE}}}", "width"),
                now(f"gpu_pcie_link_max_width{{{DEVICE}}}", "most"),
            ],
            "none",
            size=(4, 4),
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.lines(
            "Link errors",
            "PCIe replays and NVLink errors per second. A steady rate is a bad link.",
            [
                over_time(rate(f"gpu_pcie_replays_total{{{DEVICE}}}"), "PCIe replays"),
                over_time(rate(f"gpu_pcie_errors_total{{{DEVICE}}}"), "PCIe {{type}}"),
                over_time(f"sum by (type) ({rate(f'gpu_nvlink_errors_total{{{DEVICE}}}')})", "NVLink {{type}}"),
            ],
            units.CountsPerSecond,
            size=(24, 6),
            empty="This GPU does not report link errors",
        )
    )


def _instances() -> table.Panel:
    seconds = f"gpu_mig_time_seconds_total{{{DEVICE}}}"
    return Table(
        title="MIG instances",
        description="The parts a GPU is divided into under MIG, each with its own holder and ledger.",
        keys=(
            Key("gi", "GI", width=60),
            Key("ci", "CI", width=60),
            Key("profile", "Profile", width=120),
            Key("uuid", "UUID"),
        ),
        columns=(
            Text("Held by", f"gpu_mig_owner_share{{{DEVICE}}}", "workload"),
            lost_state("Mostly", rate(seconds)),
            gauge(
                "Memory",
                f"gpu_mig_memory_used_bytes{{{DEVICE}}} / gpu_mig_memory_total_bytes{{{DEVICE}}}",
                look.FULL,
                width=150,
            ),
            gauge("SM active", rate(f"gpu_mig_sm_active_seconds_total{{{DEVICE}}}"), look.PLAIN, width=150),
        ),
        sort="GI",
        ascending=True,
        size=(24, 6),
        empty="MIG is off on this GPU",
    ).build()
