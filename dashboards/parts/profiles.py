"""What panels say where exporters show fewer series: none takes what the profile `lean` leaves out for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from exporter.exposition.series_profile import NONE, Profile, Selection
from exporter.sampling.families import families

_LEAN = Selection(Profile.LEAN)
_HIDDEN = frozenset(family.name for family in families() if _LEAN.part(family.name) is NONE)
_NAME = re.compile(r"[a-z0-9_:]+")
_SHORT = "not shown"
"""In one big number there is no room for reasons."""
_LONG = ", or the exporters' series profile leaves it out"


def tell(panels: Iterable[dict[str, Any]]) -> None:
    """Complete the words of the panels that `lean` leaves empty."""
    for panel in _all(panels):
        targets: list[dict[str, str]] = panel.get("targets") or []
        queries = [target["expr"] for target in targets]
        if queries and all(_HIDDEN.intersection(_NAME.findall(query)) for query in queries):
            defaults = panel["fieldConfig"]["defaults"]
            defaults["noValue"] = _SHORT if panel["type"] == "stat" else defaults["noValue"] + _LONG
            panel["description"] += " Not shown in the series profile `lean`."


def _all(panels: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Also those of folded rows."""
    for panel in panels:
        yield panel
        yield from _all(panel.get("panels") or [])
