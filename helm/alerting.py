"""deploy/alertmanager for kube-prometheus-stack: as an AlertmanagerConfig, and as values with the plain configuration.

Both are made from the same example, so that routes, inhibition and wording are written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

SOURCE = Path("deploy/alertmanager")
SECRET = "gpu-alerts"  # noqa: S105 - the name of one
NOTICE = "# Made from deploy/alertmanager by `make chart`; change that.\n"
_OUR_ALERTS = 'alertname=~"Gpu.+"'
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"(.*)"')

Map = dict[str, Any]


def files(root: Path) -> dict[Path, str]:
    source = root / SOURCE
    config: Map = yaml.safe_load((source / "alertmanager.yaml").read_text())
    templates = {path.name: path.read_text() for path in sorted(source.glob("*.tmpl"))}
    folder = Path("deploy/kubernetes/alerting")
    return {
        folder / "alertmanagerconfig.yaml": NOTICE + _dump(alertmanager_config(config)),
        folder / "kube-prometheus-stack-values.yaml": NOTICE + _dump(stack_values(templates)),
        folder / "kube-prometheus-stack-plain-values.yaml": NOTICE + _dump(plain_values(config, templates)),
    }


def alertmanager_config(config: Mapping[str, Any]) -> Map:
    """The custom resource. What the example keeps in files is a key of the secret `gpu-alerts`."""
    return {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": "gpu-exporter", "namespace": "monitoring"},
        "spec": {
            # A route of its own below the cluster's: other alerts pass it by.
            "route": {**_route(config["route"]), "matchers": [_matcher(_OUR_ALERTS)]},
            "inhibitRules": [_inhibition(rule) for rule in config["inhibit_rules"]],
            "receivers": [_receiver(receiver, config["global"]) for receiver in config["receivers"]],
        },
    }


def stack_values(templates: Mapping[str, str]) -> Map:
    """Return values of kube-prometheus-stack that give the AlertmanagerConfig all alerts, and its wording.

    The label `namespace` of our alerts is the GPU user's, not that of the object, so the operator's default drops them.
    The stack's selector is left alone: a new one would drop the objects of every other team.
    """
    spec = {"alertmanagerConfigMatcherStrategy": {"type": "OnNamespaceExceptForAlertmanagerNamespace"}}
    return {"alertmanager": {"alertmanagerSpec": spec, "templateFiles": dict(templates)}}


def plain_values(config: Mapping[str, Any], templates: Mapping[str, str]) -> Map:
    """Values of kube-prometheus-stack with the example as Alertmanager's own configuration."""
    mounted = cast("Map", _with_files(config, lambda name: f"/etc/alertmanager/secrets/{SECRET}/{name}"))
    own = {**mounted, "templates": ["/etc/alertmanager/config/*.tmpl"]}
    values = {"alertmanagerSpec": {"secrets": [SECRET]}, "config": own, "templateFiles": dict(templates)}
    return {"alertmanager": values}


def _with_files(at: object, place: Callable[[str], str]) -> object:
    if isinstance(at, Mapping):
        entries = cast("Mapping[str, Any]", at).items()
        return {
            key: place(Path(str(value)).name) if key.endswith("_file") else _with_files(value, place)
            for key, value in entries
        }
    if isinstance(at, Sequence) and not isinstance(at, str):
        return [_with_files(each, place) for each in cast("Sequence[object]", at)]
    return at


def _route(route: Mapping[str, Any]) -> Map:
    made: Map = {_camel(key): value for key, value in route.items() if key not in {"matchers", "routes"}}
    if "matchers" in route:
        made["matchers"] = [_matcher(each) for each in route["matchers"]]
    if "routes" in route:
        made["routes"] = [_route(each) for each in route["routes"]]
    return made


def _inhibition(rule: Mapping[str, Any]) -> Map:
    return {
        "sourceMatch": [_matcher(each) for each in rule["source_matchers"]],
        # Other teams may have a label of ours, such as `audience`, on alerts of the same node.
        "targetMatch": [_matcher(each) for each in (_OUR_ALERTS, *rule["target_matchers"])],
        "equal": rule["equal"],
    }


def _matcher(text: str) -> Map:
    match = _MATCHER.fullmatch(text.strip())
    if not match:
        raise ValueError(f"deploy/alertmanager/alertmanager.yaml: not a matcher: {text}")
    return {"name": match[1], "matchType": match[2], "value": match[3]}


def _receiver(receiver: Mapping[str, Any], settings: Mapping[str, Any]) -> Map:
    made: Map = {"name": receiver["name"]}
    for kind, entries in receiver.items():
        if kind != "name":
            shared = _shared(kind, settings)
            made[_camel(kind)] = [{**shared, **_integration(entry)} for entry in cast("Sequence[Map]", entries)]
    return made


def _shared(kind: str, settings: Mapping[str, Any]) -> Map:
    """Return what the example states once for all receivers of a kind: an AlertmanagerConfig has no such place."""
    if kind == "email_configs":
        return {"from": settings["smtp_from"], "smarthost": settings["smtp_smarthost"]}
    if kind == "slack_configs":
        return {"apiURL": _secret(settings["slack_api_url_file"])}
    return {}


def _integration(entry: Mapping[str, Any]) -> Map:
    made: Map = {}
    for key, value in entry.items():
        if key.endswith("_file"):
            made[_camel(key.removesuffix("_file"))] = _secret(value)
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[str, str]", value).items()
            made[_camel(key)] = [{"key": name, "value": text} for name, text in pairs]
        else:
            made[_camel(key)] = value
    return made


def _secret(file: str) -> Map:
    return {"name": SECRET, "key": Path(file).name}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return yaml.ScalarNode("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _dump(document: Map) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
