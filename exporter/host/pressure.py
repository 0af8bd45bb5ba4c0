"""Pressure stall information (PSI), Linux 4.20 and newer: how long tasks waited for CPU, IO or memory."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.host.text import lines, natural, read_text

RESOURCES = ("cpu", "io", "memory")


def parse_pressure(text: str, kind: str = "some") -> float | None:
    """Seconds in which at least one task was stalled (`some`), or all that wanted to run were (`full`), since boot.

    None where the file does not say.
    """
    for line in lines(text):
        words = line.split()
        if words[:1] == [kind]:
            totals = [natural(word.removeprefix("total=")) for word in words if word.startswith("total=")]
            return None if not totals or totals[0] is None else totals[0] / 1e6
    return None


def pressure_seconds(folder: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Stall seconds by resource from a cgroup's `*.pressure` files, `some` and `full`; empty without PSI."""
    texts = {each: read_text(f"{folder}/{each}.pressure") for each in RESOURCES}
    some, full = ({each: parse_pressure(text, kind) for each, text in texts.items()} for kind in ("some", "full"))
    return _known(some), _known(full)


def _known(found: Mapping[str, float | None]) -> Mapping[str, float]:
    return {resource: seconds for resource, seconds in found.items() if seconds is not None}
