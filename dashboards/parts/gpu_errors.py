"""The errors of one GPU: XIDs, memory, links."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import link, panel, style
from dashboards.parts.gpu_lines import NOT_REPORTED
from dashboards.parts.health_errors import XID_ADVICE, worst_first
from dashboards.parts.health_links import links_down
from dashboards.parts.query import DEVICE, counted, in_range, latest, now, over_time, rate, some
from dashboards.parts.table import Key, Table, Value


def errors(made: build.Dashboard) -> None:
    stamp = f"gpu_xid_last_timestamp_seconds{{{DEVICE}}}"
    made.with_panel(
        Table(
            title="XIDs in the range",
            description="Errors the driver logged for this GPU, by NVIDIA's number, and NVIDIA's advice for their class.",
            keys=(
                Key("xid", "XID", (link.XID,), width=50),
                Key("class", "What to do", width=195, mappings=tuple(XID_ADVICE)),
            ),
            columns=(
                Value(
                    "Times",
                    worst_first(f"{counted(f'gpu_xid_errors_total{{{DEVICE}}}')} and on (xid) {in_range(stamp)}"),
                    style.COUNT,
                    style.RED_FROM_ONE,
                    decimals=0,
                    width=80,
                ),
                Value(
                    "Last seen",
                    worst_first(f"{latest(stamp)} * 1000 and {in_range(stamp)}"),
                    units.DatetimeISO,
                    width=160,
                ),
            ),
            sort="What to do",
            ascending=True,
            size=(8, 8),
            empty="No XID in the time range",
        ).build()
    )
    made.with_panel(
        panel.number(
            "ECC errors",
            "Since the driver was loaded. Corrected ones are normal in small numbers.",
            now(f"gpu_ecc_errors_total{{{DEVICE}}}", "{{type}}"),
            style.COUNT,
            size=(4, 4),
            decimals=0,
            steps=style.ORANGE_FROM_ONE,
            empty="no ECC",
        )
    )
    made.with_panel(
        panel.number(
            "Remapped rows",
            "Rows of memory replaced by spares, ever.",
            now(f"gpu_remapped_rows_total{{{DEVICE}}}", "{{cause}}"),
            style.COUNT,
            size=(4, 4),
            decimals=0,
            steps=style.ORANGE_FROM_ONE,
            empty="no row remapping",
        )
    )
    made.with_panel(
        panel.number(
            "NVLinks down",
            "Links of this GPU that are not up, where it has some up, or had.",
            now(f"sum({links_down(DEVICE)}) or 0 * count(gpu_nvlink_links_up{{{DEVICE}}})"),
            "none",
            size=(4, 4),
            steps=style.RED_FROM_ONE,
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
                over_time(some(rate(f"gpu_pcie_replays_total{{{DEVICE}}}")), "PCIe replays"),
                over_time(some(rate(f"gpu_pcie_errors_total{{{DEVICE}}}")), "PCIe {{type}}"),
                over_time(some(f"sum by (type) ({rate(f'gpu_nvlink_errors_total{{{DEVICE}}}')})"), "NVLink {{type}}"),
            ],
            units.CountsPerSecond,
            size=(24, 6),
            empty="No link error in the time range, or this GPU does not report them",
        )
    )
