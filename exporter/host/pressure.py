"""Pressure stall information (PSI), Linux 4.20 and newer: how long tasks waited for CPU, IO or memory."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.host.text import natural, read_text

RESOURCES = ("cpu", "io", "memory")


def parse_pressure(text: str) -> float | None:
    """Seconds in which at least one task was stalled, since boot; None where the file does not say."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["some"]:
            totals = [natural(word.removeprefix("total=")) for word in words if word.startswith("total=")]
            return None if not totals or totals[0] is None else totals[0] / 1e6
    return None


def pressure_seconds(folder: str) -> Mapping[str, float]:
    """Stall seconds by resource from a cgroup's `*.pressure` files; empty without PSI."""
    found = ((each, parse_pressure(read_text(f"{folder}/{each}.pressure"))) for each in RESOURCES)
    return {resource: seconds for resource, seconds in found if seconds is not None}
