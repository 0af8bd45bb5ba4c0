"""Rule files from declarations: with their defaults, with a site's values, or with placeholders a chart fills in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy.prometheus.alerts_exporter import EXPORTER
from deploy.prometheus.alerts_fabric import FABRIC
from deploy.prometheus.alerts_fleet import FLEET
from deploy.prometheus.alerts_hardware import HARDWARE
from deploy.prometheus.alerts_incident import INCIDENT
from deploy.prometheus.alerts_ranks import RANKS
from deploy.prometheus.alerts_unallocated import UNALLOCATED
from deploy.prometheus.alerts_waste import OWNER_WASTE
from deploy.prometheus.alerts_workload import WORKLOAD_ALERTS
from deploy.prometheus.declaration import Alert, Recording, fill, minutes
from deploy.prometheus.overrides import Override, Scope, overridable, scopes
from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.recordings_common import record_each
from deploy.prometheus.targets import chosen
from deploy.prometheus.walk import link, report
from exporter import RUNBOOKS

_SUBJECTS = {
    "gpu-workload.alerts": (*WORKLOAD_ALERTS, OWNER_WASTE, *RANKS, *UNALLOCATED),
    # In one group and in this order: what correlates alerts reads those that were just evaluated.
    "gpu-hardware.alerts": (*HARDWARE, *FABRIC, *INCIDENT),
    "gpu-exporter.alerts": EXPORTER,
    "gpu-fleet.alerts": FLEET,
}
ALERTS = tuple(rule for rules in _SUBJECTS.values() for rule in rules if isinstance(rule, Alert))
MEANINGS = record_each(
    "alert:gpu_alert:index",
    ("alertname", "title", "meaning"),
    (
        ({"alertname": alert.name, "title": alert.title, "meaning": alert.meaning}, f"vector({place})")
        for place, alert in enumerate(ALERTS)
    ),
    "The place of each alert in this list. Dashboards read its title and its sentence.",
)
CORRELATION = (
    *(rule for rules in _SUBJECTS.values() for rule in rules if isinstance(rule, Recording)),
    MEANINGS,
)
"""Rules recorded beside alerts: they are made of alerts, or explain them."""

_MUTES_FOR = {"GpuIncident": "GpuIncidentNode"}
"""Alerts that mute others because the key reports them: switched off with it, as in the chart."""

_LOOKBACK = 5
"""Minutes for which Prometheus finds a series after its last sample; version 3 no longer finds one just as old."""
_FORGETS = "what they stood on when a node fell silent would be forgotten"


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    slow: bool
    rules: tuple[Alert | Recording, ...]


def _groups() -> Iterator[_Group]:
    """Rules of one subject that are evaluated together."""
    for name, rules in (*_SUBJECTS.items(), ("gpu-meaning.alerts", (MEANINGS,))):
        for slow in (False, True):
            chosen = tuple(rule for rule in rules if (isinstance(rule, Alert) and rule.slow) is slow)
            if chosen:
                yield _Group(name.replace(".", "-slow.") if slow else name, slow, chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a site. `values` maps an alert's name to `for`, `keepFiringFor`, `severity` or a parameter."""

    values: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict[str, Mapping[str, float | str]])
    disabled: Collection[str] = ()
    overrides: Sequence[Override] = ()
    """Values that differ for some workloads, in order."""
    runbooks: str = ""
    """URL of a runbook; `{name}` is the alert's name in lower case. Empty: the page of the exporter it is about."""
    interval: str = "1m"
    """Shorter than five minutes."""
    slow_interval: str = "5m"
    """Interval of alerts that are `slow`."""


def defaults(alert: Alert) -> dict[str, float | str]:
    """Everything of an alert that can be changed, as the chart's values name it."""
    fixed: dict[str, float | str] = {
        "severity": alert.severity.value,
        "for": alert.for_,
        "keepFiringFor": alert.keep_firing_for,
    }
    return fixed | {param.name: param.default for param in alert.params}


def render(settings: Settings | None = None) -> dict[str, Any]:
    """The alert groups with `settings`; ValueError names what they set and nobody knows."""
    settings = settings or Settings()
    known = {alert.name: set(defaults(alert)) for alert in ALERTS}
    disabled = {*settings.disabled, *(_MUTES_FOR[name] for name in settings.disabled if name in _MUTES_FOR)}
    strange = [
        f"{name}.{key}" for name, keys in settings.values.items() for key in keys if key not in known.get(name, ())
    ]
    strange += [name for name in settings.disabled if name not in known]
    mine = {alert.name: known[alert.name] for alert in ALERTS if overridable(alert)}
    strange += [
        f"{each.alert}.{key} where {each.where}"
        for each in settings.overrides
        for key in (*each.values, *(() if each.alert in mine else ("where",)))
        if key not in mine.get(each.alert, ())
    ]
    if strange:
        raise ValueError(f"unknown in the alerts' settings: {', '.join(sorted(strange))}")
    if minutes(settings.interval) >= _LOOKBACK:
        raise ValueError(
            f"alerts are evaluated more often than every 5m, and not every {settings.interval}: {_FORGETS}"
        )
    return {
        "groups": [
            {
                "name": group.name,
                "interval": settings.slow_interval if group.slow else settings.interval,
                "rules": [
                    rule
                    for each in group.rules
                    if isinstance(each, Recording) or each.name not in disabled
                    for rule in _rules(each, settings)
                ],
            }
            for group in _groups()
        ]
    }


def render_templates() -> dict[str, Any]:
    """The alert groups with placeholders: `<Alert.key>` for values, `<runbooks>`, `<interval>`, `<slowInterval>`."""
    return {
        "groups": [
            {
                "name": group.name,
                "interval": "<slowInterval>" if group.slow else "<interval>",
                "rules": [made for each in group.rules for made in _marked(each)],
            }
            for group in _groups()
        ]
    }


def _marked(rule: Alert | Recording) -> Iterator[dict[str, Any]]:
    if isinstance(rule, Recording):
        yield from recorded(rule)
        return
    values = {key: f"<{rule.name}.{key}>" for key in defaults(rule)}
    yield _rule(rule, values, _while_up(_ANY_EXPORTER, f"<runbooks>{rule.runbook}", rule))


def render_recordings(interval: str | None = None) -> dict[str, Any]:
    """The recording groups, at their own intervals or all at one. Hours are sums of minutes: only 1m is right."""
    return {
        "groups": [
            {
                "name": group.name,
                "interval": interval or group.interval,
                "rules": [made for rule in group.rules for made in recorded(rule)],
            }
            for group in GROUPS
        ]
    }


def recorded(rule: Recording) -> Iterator[dict[str, Any]]:
    """Yield the rules of this name."""
    if not rule.rules:
        yield {"record": rule.record, "expr": rule.expr}
    for labels, expr in rule.rules:
        yield {"record": rule.record, "expr": expr, "labels": dict(labels)}


def chart_values() -> dict[str, dict[str, Any]]:
    """Return the chart's values of each alert: its switch, and what can be changed of it."""
    return {alert.name: {"enabled": True, **defaults(alert)} for alert in ALERTS}


def to_yaml(content: object) -> str:
    return yaml.dump(content, Dumper=_Blocks, sort_keys=False, width=1_000_000, allow_unicode=True)


class _Blocks(yaml.SafeDumper):
    """Text of several lines is written as a block, as people write it."""


def _text(_: _Blocks, text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Blocks.add_representer(str, _text)


def _rules(rule: Alert | Recording, settings: Settings) -> Iterator[dict[str, Any]]:
    """The rule, and once more for each override of an alert."""
    if isinstance(rule, Recording):
        yield from recorded(rule)
        return
    for scope, values in scopes(rule, settings.overrides):
        page = settings.runbooks.format(name=rule.runbook) or _while_up(_ITS_EXPORTER, _OWN_PAGE + rule.runbook, rule)
        yield _rule(rule, _values(rule, settings, values), page, scope)


# An alert must not lead to an exporter that is down, nor to an `instance` that was relabelled to a node without a port.
_OWN_PAGE = "http://{{ $labels.instance }}/runbooks/"
_ITS_EXPORTER = (
    'and (match ":[0-9]+$" $labels.instance) '
    f"(printf `max{chosen('cluster=%[1]q,instance=%[2]q')} == 1` $labels.cluster $labels.instance | query)"
)
_ANY_EXPORTER = f"printf `max{chosen('cluster=%[1]q')} == 1` $labels.cluster | query"


def _while_up(condition: str, page: str, alert: Alert) -> str:
    """Return the template of a URL: `page` while the exporter answers, else the page of the repository."""
    return f"{{{{ if {condition} }}}}{page}{{{{ else }}}}{RUNBOOKS.format(name=alert.runbook)}{{{{ end }}}}"


def _values(alert: Alert, settings: Settings, others: Mapping[str, float | str]) -> dict[str, str]:
    chosen = defaults(alert) | dict(settings.values.get(alert.name, {})) | dict(others)
    return {key: _number(value) for key, value in chosen.items()}


_ALL = Scope()


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _rule(alert: Alert, values: dict[str, str], runbook: str, scope: Scope = _ALL) -> dict[str, Any]:
    keep = values["keepFiringFor"]
    return {
        "alert": alert.name,
        "expr": scope.narrow(fill(alert.expr, values)),
        "for": values["for"],
        # Rulers older than this key refuse a file that has it.
        **({} if keep == "0s" else {"keep_firing_for": keep}),
        "labels": {"severity": values["severity"], "audience": alert.audience.value, "runbook": alert.runbook},
        "annotations": {
            "meaning": alert.meaning,
            "summary": fill(alert.summary, values),
            "description": fill(alert.description, values),
            "runbook_url": runbook,
            "dashboard": link(alert),
            **({"report": command} if (command := report(alert)) else {}),
        },
    }
