"""Errors that the driver logged and memory counted, one table each."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, style
from dashboards.parts.health_links import keys
from dashboards.parts.query import NODE, counted, in_range, latest
from dashboards.parts.table import Column, Key, Table, Value

HARDWARE_CLASSES = "reset_gpu|reset_when_idle|restart_bm|workflow|contact_support|page"
"""NVIDIA's classes of XID that are not the program's fault."""
# fmt: off
XID_ADVICE = style.words({
    "1 reset_gpu":       ("Drain, reset the GPU",      style.RED),
    "1 restart_bm":      ("Drain, restart the node",   style.RED),
    "1 workflow":        ("Follow NVIDIA's workflow",  style.RED),
    "1 contact_support": ("Drain, contact the vendor", style.RED),
    "2 restart_app":     ("Owner: fix the program",    style.ORANGE),
    "3 ignore":          ("Nothing by itself",         style.GREY),
    "3 injected":        ("A test",                    style.GREY),
    "2 unknown":         ("Not in the catalogue",      style.ORANGE),
    "1 page":            ("By the site's own list",    style.RED),
    "1 reset_when_idle": ("Reset the GPU when idle",   style.RED),
})
# fmt: on

_XID = "cluster, instance, gpu, uuid, xid, class"


def worst_first(expr: str) -> str:
    """Classes begin with a digit: a table that is sorted by them begins with the hardware's."""
    for rank, classes in enumerate((HARDWARE_CLASSES, "restart_app|unknown", "ignore|injected"), start=1):
        expr = f'label_replace({expr}, "class", "{rank} $1", "class", "({classes})")'
    return expr


def xids() -> table.Panel:
    stamp = f"gpu_xid_last_timestamp_seconds{{{NODE}}}"
    return Table(
        title="XIDs in the time range",
        description="Errors the driver logged, by NVIDIA's number and class, and NVIDIA's advice for the class: the hardware's first.",
        keys=(
            *keys(),
            Key("xid", "XID", (link.XID,), width=55),
            Key("class", "What to do", width=195, mappings=tuple(XID_ADVICE)),
        ),
        columns=(
            Value(
                "Times",
                worst_first(
                    f"{counted(f'gpu_xid_errors_total{{{NODE}}}', _XID)} > 0 and on (cluster, instance, gpu, xid) {in_range(stamp)}"
                ),
                style.COUNT,
                decimals=0,
                width=75,
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
        size=(12, 9),
        empty="No XID in the time range",
    ).build()


def memory() -> table.Panel:
    def where(expr: str) -> str:
        return f"{expr} > 0"

    columns: tuple[Column, ...] = (
        Value(
            "Uncorrected",
            where(f'gpu_ecc_errors_total{{{NODE}, type="uncorrected"}}'),
            style.COUNT,
            style.RED_FROM_ONE,
            decimals=0,
            width=125,
        ),
        Value(
            "Corrected", where(f'gpu_ecc_errors_total{{{NODE}, type="corrected"}}'), style.COUNT, decimals=0, width=95
        ),
        Value(
            "Remapped",
            where(f"sum by (cluster, instance, gpu) (gpu_remapped_rows_total{{{NODE}}})"),
            style.COUNT,
            decimals=0,
            width=90,
        ),
        Value(
            "Pending",
            where(f"gpu_row_remap_pending{{{NODE}}}"),
            "none",
            mappings=tuple(style.YES_IS_BAD),
            width=80,
        ),
        Value("Failed", where(f"gpu_row_remap_failed{{{NODE}}}"), "none", mappings=tuple(style.YES_IS_BAD), width=70),
        Value(
            "Retired",
            where(f"sum by (cluster, instance, gpu) (gpu_retired_pages_total{{{NODE}}})"),
            style.COUNT,
            decimals=0,
            width=80,
        ),
    )
    return Table(
        title="GPU memory errors",
        description="GPUs with ECC errors, remapped rows or retired pages. Corrected errors are normal in small numbers; a remap that is pending wants a reset; one that failed wants a new GPU.",
        keys=keys(),
        columns=columns,
        sort="Uncorrected",
        size=(24, 8),
        empty="No GPU has memory errors",
    ).build()
