"""A runbook as the demo shows it: on top, what its alert fires for now, with the way on to dashboards and the node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import quote

from deploy.demo.prometheus import Prometheus, QueryError
from deploy.prometheus import walk
from deploy.prometheus.declaration import Alert
from deploy.prometheus.render import ALERTS
from exporter.web import runbooks

_VARIABLE = re.compile(r"[?&]var-\w+=\$(\w+)")
_SHOWN = 20
"""Things an alert fires for that are listed."""


def body(name: str, prometheus: Prometheus, status_pages: Mapping[str, str]) -> str:
    """Return the body of the page `name`, empty if there is none; `status_pages` are those of the exporters by node."""
    page = runbooks.pages().get(name)
    found = [_fires(alert, prometheus, status_pages) for alert in ALERTS if alert.runbook == name]
    return f"{''.join(found)}{page['html']}" if page else ""


def _fires(alert: Alert, prometheus: Prometheus, status_pages: Mapping[str, str]) -> str:
    try:
        things = prometheus.instant(f'ALERTS{{alertname="{alert.name}", alertstate="firing"}}')[:_SHOWN]
    except QueryError:
        things = ()
    rows = "".join(f"<li>{_where(each.labels)}: {_ways(alert, each.labels, status_pages)}</li>" for each in things)
    return f"<h2>{escape(alert.name)} fires now</h2><ul>{rows}</ul>" if rows else ""


def _where(labels: Mapping[str, str]) -> str:
    words = (labels.get("workload"), labels.get("instance"), f"GPU {labels['gpu']}" if "gpu" in labels else "")
    return escape(", ".join(word for word in words if word) or labels.get("cluster", "everywhere"))


def _ways(alert: Alert, labels: Mapping[str, str], status_pages: Mapping[str, str]) -> str:
    other = "Kubernetes" if labels.get("workload", "").startswith("slurm:") else "Slurm"
    shown = ((title, address) for title, address in walk.dashboards(alert) if f"({other})" not in title)
    ways = [(title, filled(address, labels)) for title, address in shown]
    node = labels.get("instance", "")
    ways += [("status page of the node", f"{status_pages[node]}/")] if node in status_pages else []
    links = [f'<a href="{escape(address)}">{escape(title)}</a>' for title, address in ways]
    rules = walk.rules(alert)
    check = [f"on the node <code>gpu-exporter check</code> ({escape(', '.join(rules))})"] if rules else []
    return " · ".join((*links, *check))


def filled(address: str, labels: Mapping[str, str]) -> str:
    """The address with an alert's labels in their places; what it has no label for is left out."""
    path = address.partition("?")[0]
    names = _VARIABLE.findall(address)
    pairs: Sequence[str] = [f"var-{name}={quote(labels[name], safe='')}" for name in names if labels.get(name)]
    return f"{path}?{'&'.join(pairs)}" if pairs else path
