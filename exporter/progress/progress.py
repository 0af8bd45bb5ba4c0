"""What a workload's programs report, together and each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from exporter.attribution.owner import Owner
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


@record
class StepTimes:
    """Seconds of one step by rank, without what a rank waited for others. `slowest` is a rank's name."""

    minimum: float
    median: float
    maximum: float
    slowest: str


@record
class Progress:
    """One workload on this node. Counters and phases are totals that never go down while the workload is there."""

    counters: Mapping[str, float] = field(default_factory=dict[str, float])
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    ratio: float | None = None
    """Part of the work that is done, 0 to 1: that of the rank that is least far."""
    remaining: float | None = None
    """Seconds to the end, by the rank that needs longest."""
    steps: StepTimes | None = None
    time_to_target: float | None = None
    """Seconds until the target quality was reached, by the program's own clock."""


@record
class Reported:
    """Everything reported on this node: by owner, and how many reports became what."""

    owners: Mapping[Owner, Progress] = field(default_factory=dict[Owner, Progress])
    results: Mapping[str, int] = field(default_factory=dict[str, int])
    ranks: Mapping[Owner, tuple[Rank, ...]] = field(default_factory=dict[Owner, tuple[Rank, ...]])
    """The processes behind it, as the ledger needs them."""
