"""Every metric a dashboard may ask for, with its type and labels: declared, recorded, or of somebody else."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.render import CORRELATION
from exporter.attribution.owner import OWNER_LABELS
from exporter.sampling.families import families

TARGET = frozenset({"cluster", "job", "instance", "node", "endpoint", "service"})
"""Labels that Prometheus, or its operator, adds when it scrapes."""


@dataclass(frozen=True)
class Metric:
    """`type` is counter, gauge or info."""

    type: str
    labels: frozenset[str]


ALERT = frozenset(
    {"alertname", "alertstate", "severity", "audience", "runbook", "gpu", "uuid", "xid", "class", *OWNER_LABELS}
)
# fmt: off
EXTERNAL = {
    # Prometheus's own, about rules and scrapes
    "ALERTS":                    Metric("gauge",   ALERT),
    "ALERTS_FOR_STATE":          Metric("gauge",   ALERT - {"alertstate"}),
    "up":                        Metric("gauge",   frozenset()),
    "scrape_samples_scraped":    Metric("gauge",   frozenset()),
    "scrape_duration_seconds":   Metric("gauge",   frozenset()),
    # the site's price file, as rules
    "gpu:price_per_hour":        Metric("gauge",   frozenset({"cluster", "model", "profile", "pool", "currency"})),
    # the accounting service's
    **{f"gpu_accounting_month_{name}": Metric("gauge", frozenset({"team"})) for name in ("cost", "budget", "forecast")},
    # prometheus-client's, about the exporter's process
    "process_cpu_seconds_total":     Metric("counter", frozenset()),
    "process_resident_memory_bytes": Metric("gauge",   frozenset()),
}
# fmt: on


def _declared() -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for family in families():
        found[family.name] = Metric(family.type.value, frozenset(family.all_labels))
    return found


def _recorded() -> dict[str, Metric]:
    rules = (*(rule for group in GROUPS for rule in group.rules), *CORRELATION)
    return {rule.record: Metric("gauge", frozenset(rule.by)) for rule in rules}


METRICS = _declared() | _recorded() | EXTERNAL
RECORDED = frozenset({*_recorded(), "gpu:price_per_hour"})
