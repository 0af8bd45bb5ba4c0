"""The way from an alert to the dashboard that shows it and to the rules of `gpu-exporter check` that judge it."""

from __future__ import annotations

from deploy.prometheus.alerts_exporter import EXPORTER
from deploy.prometheus.alerts_fleet import FLEET
from deploy.prometheus.alerts_hardware import HARDWARE
from deploy.prometheus.alerts_incident import INCIDENT
from deploy.prometheus.alerts_workload import OWNER_WASTE
from deploy.prometheus.declaration import Alert, Audience
from exporter.faults.rules import NAMES, runbook

_NODE = "var-cluster=$cluster&var-instance=$instance"
_KEPT = ("fault", "fault_degraded")
_WORKLOAD = "var-cluster=$cluster&var-workload=$workload"


def dashboards(alert: Alert) -> tuple[tuple[str, str], ...]:
    """Title and address below Grafana's, with labels of the alert in their places."""
    if alert is OWNER_WASTE:
        return (("Waste", "/d/gpu-waste?var-cluster=$cluster"),)
    if alert.audience is Audience.OWNER:
        return (
            ("Workload (Slurm)", f"/d/gpu-workload-slurm?{_WORKLOAD}"),
            ("Workload (Kubernetes)", f"/d/gpu-workload-kubernetes?{_WORKLOAD}"),
        )
    if alert in HARDWARE:
        return (("GPU", f"/d/gpu-device?{_NODE}&var-gpu=$gpu"), ("Health", f"/d/gpu-health?{_NODE}"))
    if alert in EXPORTER:
        return (("Exporter", f"/d/gpu-exporter?{_NODE}"), ("Node", f"/d/gpu-node?{_NODE}"))
    if alert in (*FLEET, *INCIDENT):
        return (("Fleet", "/d/gpu-fleet?var-cluster=$cluster"), ("Health", "/d/gpu-health?var-cluster=$cluster"))
    return (("Node", f"/d/gpu-node?{_NODE}"), ("Fleet", "/d/gpu-fleet?var-cluster=$cluster"))


def rules(alert: Alert) -> tuple[str, ...]:
    """Rules of the check that lead to the same page; a fault that stands is named by `fault`, whatever it was."""
    kept = _KEPT if "gpu_fault_timestamp_seconds" in alert.expr else ()
    return tuple(name for name in NAMES if runbook(name) == alert.runbook or name in kept)


def text(alert: Alert) -> str:
    """Return the places to check, for the alert's page."""
    shown = ", ".join(f"{title} (`{address}`)" for title, address in dashboards(alert))
    named = rules(alert)
    check = f" On the node: `gpu-exporter check` (rules {', '.join(named)})." if named else ""
    return f"Dashboards: {shown}.{check}\n"
