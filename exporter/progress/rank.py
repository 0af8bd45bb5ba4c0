"""What one process of a workload reports of itself right now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from exporter.core.record import record


@record
class Rank:
    """One reporting process. `phases` are the parts of the last second or so that it spent in each; they may overlap.

    `step_seconds` is what it needs for a step without what it waits for other ranks; None where it does not report its
    steps, or not how long it waits for others.
    """

    pid: int
    name: str = ""
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    step_seconds: float | None = None
