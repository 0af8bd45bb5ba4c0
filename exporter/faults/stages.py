"""When a check is made decides what it asks and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.faults.rule import Verdict
from exporter.faults.rules import RULES

AFTER_A_JOB = frozenset({"leftover", "leaked"})
"""What is no fault while a job runs."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`budget` are seconds for all of it; rules of a lesser verdict than `least` are not asked."""

    budget: float
    least: Verdict = Verdict.DEGRADED
    emptied: bool = False
    """Whether the GPUs looked at must be empty."""
    resumes: bool = False
    """Whether finding nothing counts as a good check of a drained node: a stage that asks little proves little."""
    program: bool = False
    """Whether the site's own program runs, where one is given."""

    @property
    def left_out(self) -> frozenset[str]:
        """Names of the rules that are not asked."""
        late: frozenset[str] = frozenset() if self.emptied else AFTER_A_JOB
        return late | {rule.name for rule in RULES if rule.verdict < self.least}


STAGES: Mapping[str, Stage] = {
    "prolog": Stage(10.0, Verdict.FAILED),
    "epilog": Stage(20.0, Verdict.FAILED, emptied=True),
    "periodic": Stage(30.0, resumes=True),
    "full": Stage(600.0, emptied=True, resumes=True, program=True),
}
