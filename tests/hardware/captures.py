"""Captures of what the driver answers under each load, masked, for tests/captures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.tools.capture.record import record
from tests.hardware.bench import Bench

KINDS: Mapping[str, tuple[int, ...]] = {
    "idle": (), "dense": (), "copy": (), "tiny": (), "input": (), "held": (), "pcie": (), "collective": (100, 16),
}  # fmt: skip
"""Loads, each with its numbers."""
_SECONDS = 6.0


def measure(bench: Bench) -> None:
    """One capture after the other under its own name, and in `summary` what each of them holds."""
    summary: dict[str, Any] = {}
    for kind, numbers in KINDS.items():
        if kind == "idle":
            capture = record(bench.driver, bench.seconds(_SECONDS))
        else:
            with bench.load(kind, *numbers) as running:
                capture = record(bench.driver, bench.seconds(_SECONDS)) if running else None
        if capture is None:
            continue
        summary[kind] = [
            {"calls": len(device["calls"]), "instances": len(device["instances"])} for device in capture["devices"]
        ]
        bench.keep(kind, capture)
        bench.keep("summary", summary)
