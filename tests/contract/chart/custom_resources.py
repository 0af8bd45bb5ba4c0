"""Schemas of the custom resources the chart makes, each closed: an unknown key is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

Schema = dict[str, Any]

FETCHED = Path(__file__).resolve().parents[3] / ".cache/monitoring-schemas"
"""Put there by `make setup-chart`."""

_BOOLEAN, _STRING = {"type": "boolean"}, {"type": "string"}
_STRINGS, _TYPED = {"type": "array", "items": _STRING}, {"type": "object", "properties": {"type": _STRING}}

# No registry package has these: the fields the chart uses, by their projects' API references.
_AUTOSCALER: Schema = {
    "required": ["spec"],
    "properties": {
        "spec": {
            "required": ["targetRef"],
            "properties": {
                "targetRef": {
                    "properties": {"apiVersion": _STRING, "kind": {"const": "DaemonSet"}, "name": _STRING},
                    "required": ["apiVersion", "kind", "name"],
                },
                "updatePolicy": {
                    "properties": {"updateMode": {"enum": ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"]}}
                },
                "resourcePolicy": {"properties": {"containerPolicies": {"type": "array"}}},
            },
        }
    },
}
_GRAFANA_DASHBOARD: Schema = {
    "required": ["spec"],
    "properties": {
        "spec": {
            "required": ["instanceSelector", "configMapRef"],
            "properties": {
                "instanceSelector": {"properties": {"matchLabels": {"type": "object"}}},
                "allowCrossNamespaceImport": _BOOLEAN,
                "folder": _STRING,
                "configMapRef": {"required": ["name", "key"], "properties": {"name": _STRING, "key": _STRING}},
            },
        }
    },
}
_FLAGS = (
    "allowHostDirVolumePlugin allowHostIPC allowHostNetwork allowHostPID allowHostPorts "
    "allowPrivilegeEscalation allowPrivilegedContainer readOnlyRootFilesystem"
)
_LISTS = "allowedCapabilities defaultAddCapabilities requiredDropCapabilities seccompProfiles users groups volumes"
_STRATEGIES = "runAsUser fsGroup supplementalGroups seLinuxContext"
_CONSTRAINTS: Schema = {
    "required": _FLAGS.split(),
    "properties": {
        **dict.fromkeys(_FLAGS.split(), _BOOLEAN),
        **dict.fromkeys(_LISTS.split(), _STRINGS),
        **dict.fromkeys(_STRATEGIES.split(), _TYPED),
    },
}


def closed(node: Any) -> Any:
    """The schema with every object that names its properties closed to others."""
    if isinstance(node, list):
        return [closed(child) for child in node]
    if not isinstance(node, dict):
        return node
    made = {key: closed(child) for key, child in node.items()}
    if isinstance(node.get("properties"), dict):
        made["properties"] = {key: closed(child) for key, child in node["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made


def _resource(schema: Schema) -> jsonschema.Draft202012Validator:
    made: Schema = closed(schema)
    made["properties"] |= {"apiVersion": _STRING, "kind": _STRING, "metadata": {"type": "object"}}
    return jsonschema.Draft202012Validator(made)


def _fetched(kind: str) -> jsonschema.Draft202012Validator:
    return _resource(json.loads((FETCHED / f"{kind}.json").read_text()))


VALIDATORS = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _fetched("ServiceMonitor"),
    ("monitoring.coreos.com/v1", "PodMonitor"): _fetched("PodMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"): _fetched("PrometheusRule"),
    ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"): _resource(_AUTOSCALER),
    ("grafana.integreatly.org/v1beta1", "GrafanaDashboard"): _resource(_GRAFANA_DASHBOARD),
    ("security.openshift.io/v1", "SecurityContextConstraints"): _resource(_CONSTRAINTS),
}


def errors(document: dict[str, Any]) -> Iterator[str]:
    validator = VALIDATORS[document["apiVersion"], document["kind"]]
    for error in validator.iter_errors(document):
        yield f"{document['kind']} {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
