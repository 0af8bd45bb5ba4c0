"""Settings of a panel's fields: name, unit, colour, mapping, links; defaults first, then what overrides them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.demo.drawing import units
from deploy.demo.drawing.document import Json, Panel, listed, mapping

# Grafana's own, for what a dashboard names and the palette does not.
_NAMED: Mapping[str, str] = {
    "green": "#73bf69", "red": "#f2495c", "orange": "#ff9830", "yellow": "#f2cc0c", "blue": "#5794f2",
    "purple": "#b877d9", "text": "inherit", "transparent": "inherit",
}  # fmt: skip
PLAIN = _NAMED["blue"]
_CLASSIC = (
    "#73bf69",
    "#f2cc0c",
    "#5794f2",
    "#ff9830",
    "#f2495c",
    "#b877d9",
    "#8ab8ff",
    "#ca95e5",
    "#96d98d",
    "#ffb357",
)


@dataclass(frozen=True, slots=True)
class Field:
    """The settings of one column or series."""

    settings: Json

    @property
    def name(self) -> str:
        return str(self.settings.get("displayName", ""))

    @property
    def links(self) -> Sequence[Json]:
        return listed(self.settings.get("links"))

    @property
    def cell(self) -> str:
        return str(mapping(self.settings.get("custom.cellOptions")).get("type", "auto"))

    def number(self, name: str) -> float | None:
        value = self.settings.get(name)
        return float(value) if isinstance(value, int | float) else None

    def custom(self, name: str, default: Any = None) -> Any:
        return self.settings.get(f"custom.{name}", default)

    def text(self, value: float | str | None) -> str:
        """A value as its cell shows it."""
        if value is None:
            return str(self.settings.get("noValue", "-"))
        found = self._mapped(value)
        if found.get("text"):
            return str(found["text"])
        if isinstance(value, str):
            return value
        decimals = self.number("decimals")
        unit = str(self.settings.get("unit") or "none")
        return units.show(value, unit, None if decimals is None else int(decimals))

    def colour(self, value: float | str | None) -> str:
        """Return the colour by mapping, by a fixed colour, or by thresholds; empty where none is set."""
        mapped = self._mapped(value).get("color") if value is not None else None
        fixed = mapping(self.settings.get("color"))
        if mapped:
            return _colour(str(mapped))
        if fixed.get("mode") == "fixed":
            return _colour(str(fixed.get("fixedColor", "")))
        return self._threshold(value) if isinstance(value, float) else ""

    def _mapped(self, value: float | str | None) -> Json:
        key = f"{value:g}" if isinstance(value, float) else str(value)
        for item in listed(self.settings.get("mappings")):
            options = mapping(item.get("options"))
            if item.get("type") == "value" and options.get(key):
                return mapping(options[key])
            if item.get("type") == "regex" and re.fullmatch(str(options["pattern"]), key):
                return mapping(options["result"])
        return {}

    def _threshold(self, value: float) -> str:
        steps = listed(mapping(self.settings.get("thresholds")).get("steps"))
        reached = [step for step in steps if step.get("value") is None or value >= float(step["value"])]
        return _colour(str(reached[-1].get("color", ""))) if reached else ""


def of(panel: Panel, name: str) -> Field:
    """The settings of the column or series called `name`."""
    config = mapping(panel.content.get("fieldConfig"))
    defaults = dict(mapping(config.get("defaults")))
    settings: dict[str, Any] = {f"custom.{key}": value for key, value in mapping(defaults.pop("custom", None)).items()}
    settings |= defaults
    for override in listed(config.get("overrides")):
        matcher = mapping(override.get("matcher"))
        if matcher.get("id") == "byName" and matcher.get("options") == name:
            settings |= {str(item["id"]): item.get("value") for item in listed(override.get("properties"))}
    return Field(settings)


def _colour(name: str) -> str:
    return _NAMED.get(name, name)


def classic(number: int) -> str:
    """The colour of the nth series where nothing else is said."""
    return _CLASSIC[number % len(_CLASSIC)]
