"""The reason a panel shows instead of an empty answer: a missing scrape or missing rules are no good news."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dashboards.parts.once import once
from dashboards.parts.query import CLUSTER, NODE, ONE_NODE
from dashboards.parts.style import BLUE, GREEN
from deploy.prometheus.recordings_common import STATE_INDEX

ZERO = " or vector(0)"
"""The end of an expression that counts 0 where it finds none."""


@dataclass(frozen=True, slots=True)
class Reason:
    code: int
    """The value of its sample. No quantity of a panel has it."""
    text: str
    short: str
    """Mappings for a stat panel and the cells of a state timeline."""

    def sample(self, present: str) -> str:
        """Return PromQL for one sample with the reason in its label `missing`, where `present` is a vector of one 1."""
        return f"label_replace({self.code} * {present}, {self.label})"

    @property
    def label(self) -> str:
        # In backticks: Grafana may escape the quotes in the value of a variable.
        return f"`missing`, `{self.text}`, ``, ``"


NOT_SCRAPED = Reason(-1001, "No exporter is scraped", "not scraped")
NO_RULES = Reason(-1002, "Recording rules are missing", "no rules")
NO_ALERTS = Reason(-1003, "GpuWatchdog does not fire: no alert rules", "no alert rules")
YOUNG = Reason(-1004, "Recorded for less than 5 min", "< 5 min of data")
UNREACHABLE = Reason(-1005, "Unreachable nodes are left out", "unreachable")
REASONS = (NOT_SCRAPED, NO_RULES, NO_ALERTS, YOUNG, UNREACHABLE)
"""The first that applies is shown."""

# As at the end of the time range: what has been missing at its begin is no reason today.
_RULES = f"{STATE_INDEX.record} @ end()"
_ALERTS = "ALERTS{alertname=`GpuWatchdog`} @ end()"
_EXPORTERS = "cluster:gpu_exporters:count @ end()"
_UNREACHABLE_GPUS = "node:gpu_unreachable:count"
_WINDOW = "offset 5m"
"""The window of most recording rules. Rules or exporters that are younger have recorded less."""


def _absent(series: str) -> str:
    return f"absent(max({series}))"


CONSTANTS = {
    "no_rules": f"{NO_RULES.sample(_absent(_RULES))} or {YOUNG.sample(_absent(f'{_EXPORTERS} {_WINDOW}'))}",
    "no_alerts": f"{NO_ALERTS.sample(_absent(_ALERTS))} or {YOUNG.sample(_absent(f'{_ALERTS} {_WINDOW}'))}",
    "not_scraped": NOT_SCRAPED.label,
    "unreachable": UNREACHABLE.label,
}
"""Texts that every expression has, named by a variable. Grafana fills no variable inside a variable: none has matchers."""

_COVERS = "covers"
"""Label of a total: how many GPUs are not in it."""
_RECORDED_NAME = re.compile(r"\b[a-z]\w*:\w+:\w+")
_LABEL = re.compile(r"{{\s*(\w+)\s*}}")


def missing(expr: str, scope: str) -> str:
    """Return PromQL: the samples of what `expr` needs and is missing, each with the reason in its label `missing`."""
    alerts = "ALERTS" in expr
    found = [NOT_SCRAPED.sample(_absent(f"gpu_exporter_build_info{{{scope}}} @ end()"))]
    if alerts or _RECORDED_NAME.search(expr):
        found.append(CONSTANTS["no_rules"])
    if alerts:
        found.append(CONSTANTS["no_alerts"])
    if not expr.endswith(ZERO):  # a count of 0 is of the reachable nodes, beside the number of the others
        found.append(UNREACHABLE.sample(f"sum({_UNREACHABLE_GPUS}{{{scope}}} @ end() > 0) ^ 0"))
    return " or ".join(found)


def explain(data: dict[str, Any]) -> None:
    """Give each panel of a dashboard's JSON its reasons."""
    variables = {each["name"]: each for each in data["templating"]["list"]}
    scope = _scope(variables)
    for panel in panels(data["panels"]):
        if panel.get("targets"):
            total = scope != ONE_NODE and _is_total(panel)
            _explain(panel, scope)
            if total:
                _say_what_it_covers(panel, NODE if "instance" in variables else CLUSTER)


def panels(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the panels, also those inside of collapsed rows."""
    for panel in panels:
        yield panel
        inside: list[dict[str, Any]] = panel.get("panels") or []
        yield from inside


def _scope(variables: dict[str, dict[str, Any]]) -> str:
    """The exporters that the dashboard is of. A hidden variable holds the nodes of the workloads that were found."""
    instance = variables.get("instance")
    if instance is None or instance.get("hide"):
        return CLUSTER
    return NODE if instance["multi"] else ONE_NODE


def _explain(panel: dict[str, Any], scope: str) -> None:
    target = panel["targets"][0]
    expr: str = target["expr"]
    reasons = missing(expr, scope)
    reason = f"topk(1, {reasons})"
    if panel["type"] == "timeseries":
        reason = f"NaN * {reason}"
    if panel["type"] == "table":
        _organize(panel)["excludeByName"]["missing"] = True
        reason = _named(reason, _widest_key(panel))
    elif panel["type"] != "stat" or _LABEL.search(target["legendFormat"]):
        reason = _in_legend(reason, target)
    else:  # one series with the numbers before and after
        reason = f"max({reasons})"
    zero = " or on () vector(0)" if expr.endswith(ZERO) else ""
    target["expr"] = f"({expr.removesuffix(ZERO)}) or on () {reason}{zero}"
    _show(panel, target["refId"])


def _is_total(panel: dict[str, Any]) -> bool:
    """Return whether it is one number, and does not count the unreachable GPUs."""
    (target, *others) = panel["targets"]
    number = panel["type"] == "stat" and not others and not _LABEL.search(target["legendFormat"])
    return number and _UNREACHABLE_GPUS not in target["expr"]


def _say_what_it_covers(panel: dict[str, Any], scope: str) -> None:
    """Name the GPUs that are not in a number while they are unreachable, and show good news as a plain number."""
    target, defaults = panel["targets"][0], panel["fieldConfig"]["defaults"]
    silent = once(f"sum({_UNREACHABLE_GPUS}{{{scope}}} @ end())")
    left_out = _named(f'count_values("{_COVERS}", {silent} > 0)', _COVERS, "without $1 unreachable", _COVERS)
    everything = f'label_replace(vector(1), "{_COVERS}", " ", "", "")'
    target["expr"] = f"({target['expr']}) * on () group_left ({_COVERS}) ({left_out} or on () {everything})"
    target["legendFormat"] = f"{{{{{_COVERS}}}}}"
    panel["options"]["textMode"] = "value_and_name"
    steps = [{**step, "color": BLUE} if step["color"] == GREEN else step for step in defaults["thresholds"]["steps"]]
    panel["fieldConfig"]["overrides"].append(
        {
            "matcher": {"id": "byRegexp", "options": "/^without .* unreachable$/"},
            "properties": [{"id": "thresholds", "value": {"mode": "absolute", "steps": steps}}],
        }
    )


def _named(reason: str, label: str, form: str = "$1", source: str = "missing") -> str:
    return f'label_replace({reason}, "{label}", "{form}", "{source}", "(.+)")'


def _in_legend(reason: str, target: dict[str, Any]) -> str:
    """The first label of the legend is the reason. Beside words the reason stands in parentheses behind them."""
    legend = target["legendFormat"]
    if (found := _LABEL.match(legend)) and legend.endswith("}}"):
        return _named(reason, found[1])
    target["legendFormat"] = f"{legend}{{{{missing}}}}"
    return _named(reason, "missing", " ($1)")


def _organize(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
    return found


def _widest_key(panel: dict[str, Any]) -> str:
    """The label of the first key without a fixed width, or of the widest."""
    organize = _organize(panel)
    names: list[str] = [name for name in organize["renameByName"] if not name.startswith("Value")]
    texts = [name for name in names if not organize["excludeByName"].get(name)]
    widths = {name: _property(panel, organize["renameByName"][name], "custom.width") for name in texts}
    return next((name for name in texts if widths[name] is None), max(texts, key=lambda name: widths[name] or 0))


def _property(panel: dict[str, Any], title: str, name: str) -> Any:
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == title:
            return next((each["value"] for each in override["properties"] if each["id"] == name), None)
    return None


def _show(panel: dict[str, Any], ref: str) -> None:
    """Words in place of the codes, a dash where the reason stands beside them."""
    words = panel["type"] in {"stat", "state-timeline"}
    colour = "text" if panel["type"] in {"stat", "table"} else "transparent"
    mapped = {str(each.code): {"text": each.short if words else "-", "color": colour} for each in REASONS}
    mapping = {"type": "value", "options": mapped}
    if panel["type"] == "timeseries":
        return
    if panel["type"] != "table":
        defaults = panel["fieldConfig"]["defaults"]
        defaults["mappings"] = [*(defaults.get("mappings") or []), mapping]
        return
    names = _organize(panel)["renameByName"]
    title = names.get(f"Value #{ref}") or names.get("Value")
    for override in panel["fieldConfig"]["overrides"]:
        if title and override["matcher"]["options"] == title:
            _add_mapping(override["properties"], mapping)


def _add_mapping(properties: list[dict[str, Any]], mapping: dict[str, Any]) -> None:
    for each in properties:
        if each["id"] == "mappings":
            each["value"] = [*each["value"], mapping]
            return
    properties.append({"id": "mappings", "value": [mapping]})
