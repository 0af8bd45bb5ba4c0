"""What values.schema.json says of each alert: its values, and those of some workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

NUMBER = r"^[0-9]+(\.[0-9]+)?$"
MAYBE_DURATION = "^" + "".join(f"([0-9]+{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")) + "$"
"""Or nothing: of Prometheus, whose units stand in this order, each once."""
DURATION: Schema = {"pattern": MAYBE_DURATION, "minLength": 1}
_NO_TIME = "^(0+(ms|s|m|h|d|w|y))+$"
_MAY_BE_NO_TIME = frozenset({"for", "keepFiringFor"})
"""The other durations are ranges of PromQL, which knows none of 0s."""
IN_QUOTES = r'([^"\\\n]|\\[\\"])*'
"""Text between the quotes of PromQL: a backslash is doubled there, in a pattern's `\\\\.` too."""
_MATCHER = rf'[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"{IN_QUOTES}"'
SELECTOR = f"^{_MATCHER}( *, *{_MATCHER})*$"

Alerts = Mapping[str, Mapping[str, Any]]
"""What can be changed of each, with its defaults."""


def rules(alerts: Alerts) -> Schema:
    properties = {name: _alert(settings) for name, settings in alerts.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def overrides(alerts: Alerts) -> Schema:
    """Of the alerts that say whom they leave alone: the others are about no workload."""
    of_owners = {name: settings for name, settings in alerts.items() if "except" in settings}
    named: Schema = {"alert": {"enum": list(of_owners)}, "where": {"type": "string", "pattern": SELECTOR}}
    return {
        "type": "array",
        "items": {
            "type": "object",
            "required": list(named),
            "properties": named,
            "allOf": [_if_alert(name, named, settings) for name, settings in of_owners.items()],
        },
    }


def _if_alert(name: str, named: Schema, settings: Mapping[str, Any]) -> Schema:
    own = {key: _parameter(key, value) for key, value in settings.items() if key != "enabled"}
    return {
        "if": {"required": ["alert"], "properties": {"alert": {"const": name}}},
        "then": {"additionalProperties": False, "properties": {**named, **own}},
    }


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
    return _text(key, value)


def _text(key: str, value: str) -> Schema:
    if value and re.match(MAYBE_DURATION, value):
        positive: Schema = {} if key in _MAY_BE_NO_TIME else {"not": {"pattern": _NO_TIME}}
        return {"type": "string", **DURATION, **positive}
    if re.match(NUMBER, value):
        return {"type": ["number", "string"], "pattern": NUMBER}  # Helm would round one of so many digits
    if re.match(SELECTOR, value):
        return {"type": "string", "pattern": SELECTOR}
    return {"type": "string", "minLength": 1}  # an expression of its own, which only PromQL can read
