"""values.schema.json: closed where the chart knows every key, open where a value is handed on to Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from exporter.config.kinds import DurationUpTo, Pairs
from exporter.config.option import Option
from helm.alert_schema import DURATION, MAYBE_DURATION, OVERRIDES, Schema
from helm.alert_schema import RULES as ALERT_RULES

ABSOLUTE = "^/[^ ]*$"
MAYBE_ABSOLUTE = "^(/[^ ]*)?$"
LABEL = "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"
SERVICE = "^([a-z]([-a-z0-9]{0,61}[a-z0-9])?)?$"
NAME = "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$"
LABEL_VALUE = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
LABEL_KEY = "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
PROMETHEUS_LABEL = "^[a-zA-Z_][a-zA-Z0-9_]*$"
CONFIG_KEY = "^[-._A-Za-z0-9]*$"
REGISTRY = "^([A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*)?$"
QUANTITY = r"^[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$"
NUMBER = r"^[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$"
AMOUNT = r"^[+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$"
SHARE = r"^[+]?(0+(\.[0-9]+)?|\.[0-9]+|0*1(\.0+)?|[0-9]*\.?[0-9]+[eE]-[0-9]+)$"
SECONDS = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?$"
NO_TIME = r"^0+(\.0+)?(ms|s|m|h|d)?$"

_NAMED: Schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}}
_PART: Schema = {"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+%$"}
_AMOUNTS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"], "pattern": QUANTITY, "minimum": 0},
}

_DAY: Schema = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_PRICE: Schema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["per_gpu_hour"],
    "properties": {
        **{name: {"type": "string"} for name in ("model", "cluster", "pool")},
        "profile": {"type": "string", "pattern": r"^(([0-9]+c\.)?[0-9]+g\.[0-9]+gb\S*)?$"},
        "per_gpu_hour": {"type": "number", "minimum": 0},
        "from": _DAY,
        "to": _DAY,
    },
}
_AUTO: Schema = {"type": ["string", "boolean"], "enum": ["auto", True, False]}

# What a default cannot show of a value: by its path.
RULES: dict[str, Schema] = {
    "nameOverride": {"pattern": LABEL},
    "fullnameOverride": {"pattern": SERVICE},
    "namespaceOverride": {"pattern": LABEL},
    "image.registry": {"pattern": REGISTRY},
    "image.repository": {"pattern": "^[a-z0-9._-]+(:[0-9]+)?(/[a-z0-9._-]+)*$"},
    "image.tag": {"pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "imagePullSecrets": {"items": _NAMED},
    "attribution.pods.kubeletDir": {"pattern": ABSOLUTE, "not": {"pattern": "/pod-resources/*$"}},
    "attribution.pods.logsDir": {"pattern": MAYBE_ABSOLUTE},
    "attribution.pods.labels": {"items": {"type": "string"}},
    "attribution.slurm.mode": {"enum": ["auto", "on", "off"]},
    "attribution.slurm.mappingHostPath": {"pattern": MAYBE_ABSOLUTE},
    "progress.hostPath": {"pattern": MAYBE_ABSOLUTE},
    "progress.socketHostPath": {"pattern": MAYBE_ABSOLUTE},
    "state.hostPath": {"pattern": MAYBE_ABSOLUTE},
    "nodeHealth.taint": {"enum": ["", "NoSchedule", "PreferNoSchedule"]},
    "extraArgs": {"items": {"type": "string", "pattern": "^--"}},
    "extraEnv": {"items": {**_NAMED, "properties": {**_NAMED["properties"], "value": {"type": ["string", "null"]}}}},
    "extraVolumes": {"items": _NAMED},
    "extraVolumeMounts": {"items": {**_NAMED, "required": ["name", "mountPath"]}},
    "extraContainers": {"items": _NAMED},
    "initContainers": {"items": _NAMED},
    "extraObjects": {"items": {"type": ["object", "string"]}},
    "port": {"minimum": 1, "maximum": 65535},
    "web.telemetryPath": {"pattern": "^/[A-Za-z0-9_./-]+$", "not": {"pattern": "^/(-/|runbooks/|api/v1/allocations$)"}},
    "web.existingSecret": {"pattern": NAME},
    "web.tls.existingSecret": {"pattern": NAME},
    "web.tls.caKey": {"pattern": CONFIG_KEY},
    "web.basicAuth.username": {"minLength": 1, "pattern": "^[^:]+$"},
    "web.basicAuth.passwordHash": {"pattern": r"^(\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53})?$"},
    "runtimeClass.name": {"pattern": NAME},
    "runtimeClass.handler": {"pattern": LABEL},
    "driver.exitAfter": {"pattern": SECONDS},
    "driver.hostPath": {"pattern": MAYBE_ABSOLUTE},
    "driver.mountPath": {"pattern": ABSOLUTE},
    "driver.libraryPath": {"pattern": ABSOLUTE},
    "security.runAsUser": {
        "type": ["string", "integer"],
        "pattern": "^(auto|cluster)$",
        "minimum": 0,
        "maximum": 2147483647,
    },
    "security.addCapabilities": {"items": {"type": "string", "pattern": "^[A-Z_]+$"}},
    "security.seccomp": {"enum": ["RuntimeDefault", "Unconfined", ""]},
    "serviceAccount.name": {"pattern": NAME},
    "gpuOperator.validationsDir": {"pattern": ABSOLUTE},
    "priorityClass.value": {"minimum": -2147483648, "maximum": 1000000000},
    "priorityClass.preemptionPolicy": {"enum": ["Never", "PreemptLowerPriority"]},
    "priorityClass.name": {"pattern": NAME},
    "priorityClassName": {"pattern": NAME},
    "resources": {
        "additionalProperties": False,
        "properties": {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": {"type": "array", "items": _NAMED}},
    },
    "updateStrategy.type": {"enum": ["RollingUpdate", "OnDelete"]},
    "updateStrategy.rollingUpdate": {
        "additionalProperties": False,
        "properties": {"maxUnavailable": _PART, "maxSurge": _PART},
    },
    "revisionHistoryLimit": {"minimum": 0},
    "terminationGracePeriodSeconds": {"minimum": 0},
    "monitoring.enabled": _AUTO,
    "serviceMonitor.enabled": _AUTO,
    "podMonitor.enabled": _AUTO,
    "prometheusRule.enabled": _AUTO,
    "dashboards.enabled": _AUTO,
    "service.type": {"enum": ["ClusterIP", "NodePort"]},
    "service.clusterIP": {"pattern": "^(None|[0-9A-Fa-f.:]+)?$"},
    "service.internalTrafficPolicy": {"enum": ["", "Cluster", "Local"]},
    "service.nodePort": {"minimum": 0, "maximum": 65535},
    "service.ipFamilyPolicy": {"enum": ["", "SingleStack", "PreferDualStack", "RequireDualStack"]},
    "service.ipFamilies": {"items": {"enum": ["IPv4", "IPv6"]}, "maxItems": 2, "uniqueItems": True},
    "hostPort": {"minimum": 0, "maximum": 65535},
    "monitoring.operator": {"enum": ["prometheus", "victoriametrics"]},
    "monitoring.apiVersion": {"pattern": "^([a-z0-9.-]+/v[0-9][a-z0-9]*)?$"},
    "serviceMonitor.jobLabel": {"pattern": LABEL_KEY},
    "podMonitor.jobLabel": {"pattern": LABEL_KEY},
    "dashboards.include": {"items": {"type": "string"}},
    "test.enabled": _AUTO,
    "serviceMonitor.namespace": {"pattern": LABEL},
    "serviceMonitor.interval": {"pattern": MAYBE_DURATION},
    "serviceMonitor.scrapeTimeout": {"pattern": MAYBE_DURATION},
    "podMonitor.namespace": {"pattern": LABEL},
    "podMonitor.interval": {"pattern": MAYBE_DURATION},
    "podMonitor.scrapeTimeout": {"pattern": MAYBE_DURATION},
    "prometheusRule.namespace": {"pattern": LABEL},
    "prometheusRule.alerts.interval": DURATION,
    "prometheusRule.alerts.slowInterval": DURATION,
    # Labels of Prometheus, with any text.
    "prometheusRule.alerts.labels": {"patternProperties": {PROMETHEUS_LABEL: {"type": "string"}}},
    "prometheusRule.alerts.annotations": {"patternProperties": {PROMETHEUS_LABEL: {"type": "string"}}},
    "runbooks.baseUrl": {"pattern": "^$|/$"},
    "prometheusRule.alerts.rules": ALERT_RULES,
    "prometheusRule.alerts.overrides": OVERRIDES,
    "prices": {
        "additionalProperties": False,
        "properties": {
            "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "electricity_per_kwh": {"type": "number", "minimum": 0},
            "grams_co2_per_kwh": {"type": "number", "minimum": 0},
            "prices": {"type": "array", "items": _PRICE},
            "budgets": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
            "teams": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
            "budget_thresholds": {"type": "array", "items": {"type": "number", "minimum": 0}},
        },
    },
    "accounting.size": {"type": "string", "pattern": QUANTITY},
    "accounting.existingClaim": {"pattern": NAME},
    "dashboards.namespace": {"pattern": LABEL},
    "dashboards.label": {"pattern": LABEL_KEY},
    "dashboards.folderAnnotation": {"pattern": LABEL_KEY},
    "dashboards.labelValue": {"pattern": LABEL_VALUE},
    "verticalPodAutoscaler.updateMode": {"enum": ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"]},
    "global.imageRegistry": {"pattern": REGISTRY},
    "global.imagePullSecrets": {"items": {"type": ["object", "string"]}},
}

# Maps of strings: labels, annotations, selectors.
STRINGS = (
    "labels",
    "annotations",
    "commonLabels",
    "commonAnnotations",
    "podLabels",
    "podAnnotations",
    "nodeSelector",
    "instanceSelector",
)

# Values handed on as they are, whose default holds keys that do not close them.
OPEN = ("resources", "accounting.resources", "updateStrategy.rollingUpdate")

# Maps that a value of null drops.
MAY_BE_NULL = ("livenessProbe", "readinessProbe", "updateStrategy.rollingUpdate", "global", "global.imageRegistry")

# Of a string, what it must fit: labels are refused by the API server only once everything else is there.
_STRING: dict[str, Schema] = {
    kind: {"type": "string", "pattern": LABEL_VALUE} for kind in STRINGS if not kind.lower().endswith("annotations")
}


def schema(values: Mapping[str, Any], options: Iterable[Option], foreign: Iterable[str] = ()) -> Schema:
    """The schema of values.yaml, and of the exporter's options below `config`.

    `foreign` are names of other charts, which a template refuses with the right one.
    """
    made = _of(values, "")
    made["properties"]["config"] = config(options)
    made["properties"]["rules-and-dashboards"] = {"type": "object"}  # Helm puts `global` there, for the subchart
    made["properties"]["global"]["additionalProperties"] = True  # an umbrella chart's own are there too
    made["properties"]["enabled"] = {"type": "boolean"}  # the `condition` of an umbrella chart
    for name in foreign:
        *parents, last = name.split(".")
        at = made
        for parent in parents:
            at = at["properties"][parent]
        at.setdefault("properties", {})[last] = {}
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
    kind = path.rpartition(".")[2]
    if kind in STRINGS:
        text = _STRING.get(kind, {"type": "string"})
        return {"type": "object", "additionalProperties": False, "patternProperties": {LABEL_KEY: text}}
    if path in OPEN or (path and not value):
        return {"type": "object"}
    properties = {key: _of(child, f"{path}.{key}".lstrip(".")) for key, child in value.items()}
    # Helm takes a value of null away before the schema sees it, and a template would stumble over what is not there.
    own = f"{path}." if path else ""
    needed = [key for key, child in value.items() if not isinstance(child, list) and own + key not in MAY_BE_NULL]
    return {"type": "object", "additionalProperties": False, "required": needed, "properties": properties}


# Options the chart sets itself, from values of its own.
SET_BY_CHART = frozenset(
    {
        "web.listen-address",
        "web.telemetry-path",
        "web.config.file",
        "driver.exit-after",
        "path.cgroupfs",
        "attribution.kubernetes",
        "attribution.kubernetes.api",
        "attribution.kubernetes.pod-labels",
        "attribution.slurm",
        "attribution.slurm.mapping-dir",
        "progress.dir",
        "progress.socket",
        "state.dir",
    }
)


_BARE = (True, False, "true", "false")
"""Values that YAML 1.1 makes of a bare `on` and `off`, and that the exporter takes for them."""


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
    if option.mapping:
        return {"type": ["object", "string"], **described, **_pairs(cast("Pairs[Any]", option.parse))}
    words = _choices(option)
    if words:
        return {"enum": [*words, *(_BARE if {"on", "off"} <= {*words} else ())], **described}
    value = option.default_value
    if isinstance(value, tuple) and not (_refuses(option, "no address") or "").startswith("HOST:PORT"):
        return {"type": ["array", "string"], **described}
    return {**_text(option), **described}


def _pairs(kind: Pairs[Any]) -> Schema:
    """The names that a mapping may hold, each with what its kind takes."""
    each = {name: _text(Option(name, "", parse, "", "", "")) for name, parse in kind.kinds.items()}
    others: Schema = {f"^{kind.pattern}$": {"type": "string"}} if kind.pattern else {}
    return {"additionalProperties": False, "properties": each, **({"patternProperties": others} if others else {})}


def _text(option: Option) -> Schema:
    """Return the schema of an option without a list of words, from its parser's complaint about a wrong text."""
    kind: Schema
    complaint = _refuses(option, "2 parsecs") or ""
    if complaint.startswith("a duration"):
        zero: Schema = (
            {}
            if _refuses(option, "0") is None
            else {"exclusiveMinimum": 0, "not": {"type": "string", "pattern": NO_TIME}}
        )
        kind = {"type": ["number", "string"], "minimum": 0, "pattern": SECONDS, **zero}
        longest = option.parse.longest if isinstance(option.parse, DurationUpTo) else None
        return {**kind, "maximum": longest, "pattern": _UP_TO[longest]} if longest else kind
    if complaint == "a whole number":
        return _whole(option)
    if complaint == "a number":
        kind = {"type": ["number", "string"], "pattern": NUMBER}
        negative, above_one = (_refuses(option, each) is None for each in ("-1", "2"))
        if not negative:
            kind |= {"pattern": AMOUNT if above_one else SHARE, "minimum": 0}
        return kind if above_one else {**kind, "maximum": 1}
    return {"type": "string"}


_UP_TO: Mapping[float, str] = {
    60.0: r"^0*([0-5]?[0-9](\.[0-9]+)?s?|60(\.0+)?s?|[0-5]?[0-9]{1,4}(\.[0-9]+)?ms|0(\.[0-9]+)?m|1(\.0+)?m)$"
}
"""Durations as text, by the longest in seconds."""


def _whole(option: Option) -> Schema:
    some = _refuses(option, "0") is not None
    pattern = "^0*[1-9][0-9]*$" if some else "^[0-9]+$"
    return {"type": ["integer", "string"], "minimum": int(some), "pattern": pattern}


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
