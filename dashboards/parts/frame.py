"""The frame around every dashboard, and the small things the SDK leaves to its user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.parts import absence, uid, variable
from dashboards.parts.job_names import name_jobs
from dashboards.parts.lines import lines
from dashboards.parts.once import once
from dashboards.parts.query import ALERTS, SOURCE, with_text
from dashboards.parts.style import ORANGE, RED

SCHEMA = 39
"""Schema of Grafana 10 and newer. Nothing here needs more, and newer ones convert it when they load it."""


def dashboard(
    title: str,
    identity: str,
    description: str,
    variables: Sequence[Builder[model.VariableModel]],
    *,
    scope: str,
    span: str = "now-6h",
    refresh: str = "1m",
) -> build.Dashboard:
    """An empty dashboard. `scope` are the label matchers of the alerts that are annotated on its graphs."""
    live = not span.endswith("d")
    frame = (
        build.Dashboard(f"GPU / {title}")
        .uid(identity)
        .description(description)
        .tags([uid.TAG, uid.LIVE_TAG if live else uid.ACCOUNTING_TAG])
        .readonly()
        .refresh(refresh)
        .time(span, "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            build.DashboardLink("GPU dashboards")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([uid.LIVE_TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(live)
        )
        .link(  # an hour of a live dashboard is no month of a bill, and the other way round
            build.DashboardLink("Cost and capacity")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([uid.ACCOUNTING_TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(not live)
        )
        .link(
            build.DashboardLink("Cost of last month")
            .type(model.DashboardLinkType.LINK)
            .url(f"/d/{uid.SHOWBACK}?from=now-1M/M&to=now-1M/M")
            .include_vars(True)
        )
        .annotation(_firing("Critical alerts", "critical", RED, scope))
        .annotation(_firing("Warnings", "warning", ORANGE, scope))
        .with_variable(variable.datasource())
        .with_variable(variable.cluster())
        .with_variable(variable.docs())
    )
    for each in (*variable.constants(), *variables):
        frame.with_variable(each)
    return frame


def _firing(name: str, severity: str, colour: str, scope: str) -> build.AnnotationQuery:
    """One annotation per alert that fires in the range, at the moment its trouble began. The value is that moment in ms."""
    fires = f'ALERTS{{{ALERTS}, severity="{severity}", {scope}}}'
    since = f'ALERTS_FOR_STATE{{severity="{severity}", {scope}}}'
    began = f'label_replace({since} * 1000 and ignoring (alertstate) {fires}, "gpu", "GPU $1", "gpu", "(.+)")'
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(colour)
        .expr(f"{once(began)} {with_text('meaning')}")
        .use_value_for_time(True)
        .step("60s")
        .title_format("{{meaning}}")
        .text_format("{{instance}} {{gpu}} {{workload}}")
    )


def to_json(made: build.Dashboard) -> str:
    """The text that is committed."""
    data: dict[str, Any] = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    data["schemaVersion"] = SCHEMA
    for link in data["links"]:
        link.pop("placement", None)  # hides the link in a menu
    _number(data["panels"], 1)
    for panel in absence.panels(data["panels"]):
        name_jobs(panel)
    absence.explain(data)
    _name_constants(data["panels"])
    _drop_unused_constants(data)
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _name_constants(panels: list[dict[str, Any]]) -> None:
    """Long lists stand in a variable, so that an expression can be read, and a site can change them once."""
    for panel in panels:
        _name_constants(panel.get("panels") or [])
        targets: list[dict[str, str]] = panel.get("targets") or []
        for target in targets:
            for name, text in variable.CONSTANTS.items():
                target["expr"] = target["expr"].replace(text, f"${name}")
            target["expr"] = lines(target["expr"])


def _drop_unused_constants(data: dict[str, Any]) -> None:
    shown = json.dumps(data["panels"])
    unused = {name for name in variable.CONSTANTS if f"${name}" not in shown}
    data["templating"]["list"] = [each for each in data["templating"]["list"] if each["name"] not in unused]


def _number(panels: list[dict[str, Any]], first: int) -> int:
    """Panel ids in order of appearance: links to a panel, and Grafana's own bookkeeping, need them."""
    for panel in panels:
        panel["id"] = first
        first = _number(panel.get("panels") or [], first + 1)
        links: list[dict[str, Any]] = panel.get("links") or []
        for link in links:
            link.pop("placement", None)
    return first
