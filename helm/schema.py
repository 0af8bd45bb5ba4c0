"""values.schema.json: closed where the chart knows every key, open where a value is handed on to Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from exporter.config.option import Option

Schema = dict[str, Any]

DURATION = "^([0-9]+(ms|s|m|h|d|w|y))+$"
MAYBE_DURATION = "^(([0-9]+(ms|s|m|h|d|w|y))+)?$"
ABSOLUTE = "^/[^ ]*$"
MAYBE_ABSOLUTE = "^(/[^ ]*)?$"

# What a default cannot tell of a value: by its path.
RULES: dict[str, Schema] = {
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "attribution.pods.kubeletDir": {"pattern": ABSOLUTE},
    "attribution.pods.labels": {"items": {"type": "string"}},
    "attribution.slurm.mode": {"enum": ["auto", "on", "off"]},
    "attribution.slurm.mappingHostPath": {"pattern": MAYBE_ABSOLUTE},
    "progress.hostPath": {"pattern": MAYBE_ABSOLUTE},
    "extraArgs": {"items": {"type": "string", "pattern": "^--"}},
    "extraObjects": {"items": {"type": ["object", "string"]}},
    "port": {"minimum": 1, "maximum": 65535},
    "web.telemetryPath": {"pattern": "^/[A-Za-z0-9_./-]+$"},
    "web.basicAuth.username": {"minLength": 1, "pattern": "^[^:]+$"},
    "web.basicAuth.passwordHash": {"pattern": r"^(\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53})?$"},
    "driver.hostPath": {"pattern": MAYBE_ABSOLUTE},
    "driver.mountPath": {"pattern": ABSOLUTE},
    "security.runAsUser": {"type": ["string", "integer"], "pattern": "^(auto|cluster)$", "minimum": 0},
    "security.addCapabilities": {"items": {"type": "string", "pattern": "^[A-Z_]+$"}},
    "security.seccomp": {"enum": ["RuntimeDefault", "Unconfined", ""]},
    "updateStrategy.type": {"enum": ["RollingUpdate", "OnDelete"]},
    "revisionHistoryLimit": {"minimum": 0},
    "terminationGracePeriodSeconds": {"minimum": 0},
    "service.type": {"enum": ["ClusterIP", "NodePort"]},
    "service.internalTrafficPolicy": {"enum": ["", "Cluster", "Local"]},
    "serviceMonitor.interval": {"pattern": MAYBE_DURATION},
    "serviceMonitor.scrapeTimeout": {"pattern": MAYBE_DURATION},
    "podMonitor.interval": {"pattern": MAYBE_DURATION},
    "podMonitor.scrapeTimeout": {"pattern": MAYBE_DURATION},
    "prometheusRule.alerts.interval": {"pattern": DURATION},
    "prometheusRule.alerts.runbooks": {"pattern": "/$"},
    "verticalPodAutoscaler.updateMode": {"enum": ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"]},
}

# Maps of strings: labels, annotations, selectors.
STRINGS = ("labels", "annotations", "commonLabels", "commonAnnotations", "podLabels", "podAnnotations", "nodeSelector")

# Values handed on as they are, whose default holds keys that do not close them.
OPEN = ("resources", "updateStrategy.rollingUpdate")


def schema(values: Mapping[str, Any], options: Iterable[Option], alerts: Mapping[str, Mapping[str, Any]]) -> Schema:
    """The schema of values.yaml, of the exporter's options below `config`, and of each alert's parameters."""
    made = _of(values, "")
    made["properties"]["config"] = config(options)
    made["properties"]["prometheusRule"]["properties"]["alerts"]["properties"]["rules"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _alert(settings) for name, settings in alerts.items()},
    }
    made["properties"]["global"] = {"type": "object"}  # Helm hands it to every chart
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "gpu-exporter", **made}


def _of(value: Any, path: str) -> Schema:
    made = _kind(value, path)
    return {**made, **RULES.get(path, {})}


def _kind(value: Any, path: str) -> Schema:
    if isinstance(value, dict):
        return _map(cast("Mapping[str, Any]", value), path)
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "object"}}
    return {"type": "string"}


def _map(value: Mapping[str, Any], path: str) -> Schema:
    if path.rpartition(".")[2] in STRINGS:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if path in OPEN or (path and not value):
        return {"type": "object"}
    properties = {key: _of(child, f"{path}.{key}".lstrip(".")) for key, child in value.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _alert(settings: Mapping[str, Any]) -> Schema:
    properties = {key: _parameter(key, value) for key, value in settings.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _parameter(key: str, value: Any) -> Schema:
    if key == "severity":
        return {"enum": ["critical", "warning", "info"]}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, (int, float)):
        return {"type": "number"}
    return {"type": "string", "pattern": DURATION}


# Options the chart sets itself, from values of its own.
SET_BY_CHART = frozenset(
    {
        "web.listen-address",
        "web.telemetry-path",
        "web.config.file",
        "path.cgroupfs",
        "collector.processes",
        "attribution.kubernetes",
        "attribution.kubernetes.pod-resources-socket",
        "attribution.kubernetes.api",
        "attribution.kubernetes.pod-labels",
        "attribution.slurm",
        "attribution.slurm.mapping-dir",
        "progress.dir",
    }
)


def config(options: Iterable[Option]) -> Schema:
    """The exporter's configuration file as a schema: nested maps, and `value` where an option has others below it."""
    table = {option.name: option for option in options if option.name not in SET_BY_CHART}
    root: Schema = {"type": "object", "additionalProperties": False, "properties": {}}
    for name, option in table.items():
        at = root
        *parents, last = name.split(".")
        for parent in parents:
            child = at["properties"].setdefault(parent, {})
            if "properties" not in child:  # an option that turns out to have others below it
                below = {"value": dict(child)} if child else {}
                child.clear()
                child.update({"type": "object", "additionalProperties": False, "properties": below})
            at = child
        at["properties"][last] = _option(option)
    return root


def _option(option: Option) -> Schema:
    described = {"description": option.help}
    if option.switch:
        return {"type": "boolean", **described}
    words = _choices(option)
    if words:
        return {"enum": words, **described}
    if isinstance(option.default, tuple) and _refuses(option, "no address") is None:
        return {"type": ["array", "string"], **described}
    if _refuses(option, "no number") is None:
        return {"type": "string", **described}
    return {"type": ["number", "string"], **described}


def _choices(option: Option) -> list[str]:
    complaint = _refuses(option, "none of them") or ""
    prefix = "one of "
    return complaint.removeprefix(prefix).split(", ") if complaint.startswith(prefix) else []


def _refuses(option: Option, text: str) -> str | None:
    try:
        option.parse(text)
    except ValueError as error:
        return str(error)
    return None
