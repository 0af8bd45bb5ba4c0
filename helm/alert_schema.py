"""Schema of the alerts in values.schema.json: one generic map. The names in it are checked by the templates."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

MAYBE_DURATION = "^" + "".join(f"([0-9]+{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")) + "$"
"""Or nothing: of Prometheus, whose units stand in this order, each once."""
DURATION: Schema = {"pattern": MAYBE_DURATION, "minLength": 1}
IN_QUOTES = r'([^"\\\n]|\\[\\"])*'
"""Text between the quotes of PromQL: a backslash is doubled there, in a pattern's `\\\\.` too."""
_MATCHER = rf'[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"{IN_QUOTES}"'
SELECTOR: Schema = {"type": "string", "pattern": f"^{_MATCHER}( *, *{_MATCHER})*$"}

_EACH: Schema = {"severity": {"enum": ["critical", "warning", "info"]}, "except": SELECTOR}
_OTHER: Schema = {"type": ["number", "string"], "minLength": 1}

RULES: Schema = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"enabled": {"type": "boolean"}, **_EACH},
        "additionalProperties": _OTHER,
    },
}
OVERRIDES: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["alert", "where"],
        "properties": {"alert": {"type": "string"}, "where": SELECTOR, **_EACH},
        "additionalProperties": _OTHER,
    },
}
