"""Every metric a dashboard may ask for, with its type, unit and labels: declared, recorded, or of somebody else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deploy.prometheus.recordings import GROUPS
from exporter.attribution.owner import OWNER_LABELS
from exporter.core.families import AnyFamily
from exporter.sampling.families import families
from exporter.tools.report.model import WORK

TARGET = frozenset({"cluster", "job", "instance", "node", "endpoint", "service"})
"""Labels that Prometheus, or its operator, adds when it scrapes."""


@dataclass(frozen=True)
class Metric:
    """`type` is counter, gauge or info; `unit` a base unit, or empty for plain numbers."""

    type: str
    unit: str
    labels: frozenset[str]


ALERT = frozenset({"alertname", "alertstate", "severity", "audience", "gpu", "uuid", "xid", "class", *OWNER_LABELS})
# fmt: off
EXTERNAL = {
    # Prometheus's own, about rules and scrapes
    "ALERTS":                    Metric("gauge",   "",        ALERT),
    "ALERTS_FOR_STATE":          Metric("gauge",   "timestamp", ALERT - {"alertstate"}),
    "up":                        Metric("gauge",   "",        frozenset()),
    "scrape_samples_scraped":    Metric("gauge",   "",        frozenset()),
    "scrape_duration_seconds":   Metric("gauge",   "seconds", frozenset()),
    # prometheus-client's, about the exporter's process
    "process_cpu_seconds_total":     Metric("counter", "seconds", frozenset()),
    "process_resident_memory_bytes": Metric("gauge",   "bytes",   frozenset()),
}
# fmt: on


def _recorded_unit(record: str) -> str:
    """The unit of level:metric:operation, from its name as Prometheus's convention has it."""
    _, metric, operation = record.split(":")
    if "_per_" in metric:
        return ""
    if re.match(r"p\d\d_", operation):  # a quantile has the unit of its histogram
        return metric.rsplit("_", 1)[-1]
    if operation.startswith("ratio") or metric.endswith("_utilization"):
        return "ratio"
    if metric.removeprefix("gpu_workload_") in WORK:
        return "per second"
    if operation.startswith("rate"):
        return {"joules": "watts"}.get(metric.rsplit("_", 1)[-1], "")
    unit = metric.removeprefix("gpu_").rsplit("_", 1)[-1]
    return unit if unit in {"bytes", "watts", "celsius"} else ""


def _declared() -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for family in families():
        found[family.name] = Metric(family.type.value, _declared_unit(family), frozenset(family.all_labels))
    return found


def _declared_unit(family: AnyFamily) -> str:
    if family.name.endswith(("timestamp_seconds", "start_time_seconds")):
        return "timestamp"
    if family.name.endswith("_speed_bytes"):
        return "bytes per second"
    return "seconds" if family.name.endswith("_seconds_remaining") else family.unit.value


def _recorded() -> dict[str, Metric]:
    return {
        rule.record: Metric("gauge", _recorded_unit(rule.record), frozenset(rule.by))
        for group in GROUPS
        for rule in group.rules
    }


METRICS = _declared() | _recorded() | EXTERNAL
RECORDED = frozenset(_recorded())
