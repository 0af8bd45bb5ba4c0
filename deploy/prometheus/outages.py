"""Alerts on what an exporter reports, while it is unreachable: its faults are not cleared by its silence.

Prometheus ends the series of a target with the first scrape that fails, and an alert on them would be sent as resolved.
"""

from __future__ import annotations

from deploy.prometheus.targets import chosen, exporters

_SILENT = f"on (cluster, instance) max by (cluster, instance) {exporters()}"


_OF_RULERS = "rule_replica, ruler_replica, thanos_ruler_replica"
"""Labels that rulers with a shared database put on the series they write, such as those of the Prometheus operator."""


def keep_while_silent(alert: str, expr: str) -> str:
    """`expr`, and what `alert` stood on when the target was last scraped, until it answers or is no target any more.

    The value is then the time at which the alert began, in Unix seconds.
    """
    return f"{expr}\nor\n{_as_given(_stood(alert))}"


def keep_firing_while_silent(alert: str, expr: str) -> str:
    """Keep an alert with a `for`, as `keep_while_silent` does: a pending one does not become a page by the silence.

    One that only its `keep_firing_for` still kept when the target fell silent is kept too: no newer value exists.
    """
    fires = f'ignoring (alertstate) ALERTS{{alertname="{alert}",alertstate="firing"}}'
    return f"{expr}\nor\n{_as_given(_stood(alert, f' and {fires}'))}"


def _stood(alert: str, more: str = "") -> str:
    return f'ALERTS_FOR_STATE{{alertname="{alert}"}}{more} and {_SILENT} == 0'


def _as_given(stood: str) -> str:
    """Keep the labels that the expression gave: what it still gives is not given twice, which would end the whole rule.

    Nothing marks the end of the series of a node that fell silent while Prometheus itself was away.
    """
    return f"max without (alertname, severity, audience, runbook, {_OF_RULERS}) ({stood})"


def lately(selector: str) -> str:
    """The series of `selector`; where their target is unreachable, as they were within the last six minutes."""
    return f"{selector}\nor\nlast_over_time({selector}[6m]) unless {_SILENT} == 1"


def unless_silent(text: str) -> str:
    """`text` of an alert that asks for other series of the target, where there are any."""
    target = chosen("cluster=%[1]q,instance=%[2]q")
    query = f"printf `max{target} == 0` $labels.cluster $labels.instance | query"
    return f"{{{{ with {query} }}}}Its node is unreachable now.{{{{ else }}}}{text}{{{{ end }}}}"
