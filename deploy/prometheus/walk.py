"""The way from an alert to the dashboard that shows it and to the rules of `gpu-exporter check` that judge it."""

from __future__ import annotations

import re

from deploy.prometheus.alerts_exporter import EXPORTER
from deploy.prometheus.alerts_fleet import FLEET
from deploy.prometheus.alerts_hardware import HARDWARE
from deploy.prometheus.alerts_incident import INCIDENT
from deploy.prometheus.alerts_waste import OWNER_WASTE
from deploy.prometheus.declaration import Alert, Audience
from deploy.prometheus.recordings_alert import OWNER_WASTE_TIME
from exporter.faults.rules import NAMES, runbooks_of

_NODE = "var-cluster=$cluster&var-instance=$instance"
_LABEL = re.compile(r"[$](?!__all)([a-z_]+)")
_JOBS = f'count(last_over_time({OWNER_WASTE_TIME.record}{{cluster=%q,user=%q,user!="",kind="slurm"}}[1d]))'
_WORKLOAD = "var-cluster=$cluster&var-account=$__all&var-user=$__all&var-workload=$workload"
_POD = "var-cluster=$cluster&var-namespace=$__all&var-workload=$workload"


def dashboards(alert: Alert) -> tuple[tuple[str, str], ...]:
    """Title and address below Grafana's, with labels of the alert in their places."""
    if alert is OWNER_WASTE:
        jobs = "var-cluster=$cluster&var-account=$__all&var-user=$user&var-workload=$__all"
        pods = "var-cluster=$cluster&var-namespace=$workload_namespace&var-workload=$__all"
        return (
            ("Workload (Slurm)", f"/d/gpu-workload-slurm?{jobs}"),
            ("Workload (Kubernetes)", f"/d/gpu-workload-kubernetes?{pods}"),
        )
    if alert.audience is Audience.OWNER:
        return (
            ("Workload (Slurm)", f"/d/gpu-workload-slurm?{_WORKLOAD}"),
            ("Workload (Kubernetes)", f"/d/gpu-workload-kubernetes?{_POD}"),
        )
    if alert in HARDWARE:
        return (("GPU", f"/d/gpu-device?{_NODE}&var-gpu=$gpu"), ("Health", f"/d/gpu-health?{_NODE}"))
    if alert in EXPORTER:
        return (("Exporter", f"/d/gpu-exporter?{_NODE}"), ("Node", f"/d/gpu-node?{_NODE}"))
    if alert in (*FLEET, *INCIDENT):
        return (("Fleet", "/d/gpu-fleet?var-cluster=$cluster"), ("Health", "/d/gpu-health?var-cluster=$cluster"))
    return (("Node", f"/d/gpu-node?{_NODE}"), ("Fleet", "/d/gpu-fleet?var-cluster=$cluster"))


def link(alert: Alert) -> str:
    """Return the template of the dashboard's address below Grafana's, with the alert's labels as its variables."""
    first, *others = (
        _LABEL.sub(r"{{ or $labels.\1 `$__all` | urlquery }}", address) for _, address in dashboards(alert)
    )
    if alert is OWNER_WASTE:
        condition = f"with printf `{_JOBS}` $labels.cluster $labels.user | query"
    elif alert in HARDWARE or alert.audience is Audience.OWNER:
        condition = "if $labels.gpu" if alert in HARDWARE else "if $labels.slurm_job"
    else:
        return first
    return f"{{{{ {condition} }}}}{first}{{{{ else }}}}{others[0]}{{{{ end }}}}"


def report(alert: Alert) -> str:
    """Return the template of the command that reports on the owner or workload; nothing for alerts about nodes."""
    if alert is OWNER_WASTE:
        user = f"--user {_word('$labels.user')}"
        owner = f"{{{{ if $labels.user }}}}{user}{{{{ else }}}}--namespace {{{{ $labels.workload_namespace }}}}"
        return f"gpu-exporter report {owner}{{{{ end }}}} --since 1d"
    return f"gpu-exporter report {_word('$labels.workload')}" if alert.audience is Audience.OWNER else ""


def _word(value: str) -> str:
    """Return the template of one word of a command line: its owner may have chosen a name that a shell would run."""
    return f"{{{{ {value} | reReplaceAll `[^A-Za-z0-9:._/+@-]` `` }}}}"


def rules(alert: Alert) -> tuple[str, ...]:
    """Rules of the check that lead to the same page."""
    return tuple(name for name in NAMES if alert.runbook in runbooks_of(name))


def text(alert: Alert) -> str:
    """Return the places to check, for the alert's page."""
    shown = ", ".join(f"{title} (`{address}`)" for title, address in dashboards(alert))
    named = rules(alert)
    check = f" On the node: `gpu-exporter check` (rules {', '.join(named)})." if named else ""
    return f"Dashboards: {shown}.{check}\n"
