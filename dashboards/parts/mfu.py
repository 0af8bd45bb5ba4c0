"""Model FLOPs utilization, to stand beside utilization: what programs report over what their GPUs could do at most."""

from __future__ import annotations

from grafana_foundation_sdk.builders import prometheus

from dashboards.parts import style
from dashboards.parts.query import RANGE, now
from dashboards.parts.table import Value, gauge
from exporter.tools.report.progress import bound, reported

MEANING = (
    "MFU: reported model FLOPs divided by the peak of the GPUs. Without a report, MFU bound is an upper limit "
    "from tensor activity and clock."
)


def beside(utilization: prometheus.Dataquery, scope: str, window: str = RANGE) -> list[prometheus.Dataquery]:
    """The queries of one panel: utilization, and what there is of these two; of now without a window."""
    return [utilization, now(reported(scope, "", window), "MFU"), now(bound(scope, "", window), "MFU bound")]


def columns(scope: str, by: str, only: str = "", window: str = RANGE) -> tuple[Value, Value]:
    return column(scope, by, only, window), bound_column(scope, by, only, window)


def column(scope: str, by: str, only: str = "", window: str = RANGE) -> Value:
    return gauge("MFU", reported(scope, by, window) + only, style.PLAIN, width=70)


def bound_column(scope: str, by: str, only: str = "", window: str = RANGE) -> Value:
    return gauge("MFU bound", bound(scope, by, window) + only, style.PLAIN, width=105)


NOW = ""
"""The window of tables that show the last minutes."""
