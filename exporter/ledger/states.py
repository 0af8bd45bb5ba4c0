"""The states and the ordered rules that choose among them, as data.

The busy share of a pass goes to the rules about busy time, the rest to those about waiting. In each family the rules
are asked in order; each claims a part of what is left, the last one takes the remainder. The same rows make the table
in docs/diagnosis.md, the advice in alerts and on dashboards, and the words of the job report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import lru_cache

from exporter.host.model import HostSignals
from exporter.ledger.busy_rules import BUSY_RULES
from exporter.ledger.claims import rest
from exporter.ledger.evidence import Signals
from exporter.ledger.rule import Certainty, Group, Rule
from exporter.ledger.waiting_rules import WAITING_RULES

_GIVEN: tuple[Rule, ...] = (
    Rule(
        state="unobserved",
        group=Group.GIVEN,
        audience="oncall",
        certainty=Certainty.NONE,
        meaning="The GPU did not answer, has no utilization reading, or the exporter did not run.",
        signature="No reading by the deadline, or a pass longer than a few intervals",
        advice="Look at the node: a hung driver, a lost GPU, or an exporter starved of CPU.",
        thresholds=("gap_intervals",),
    ),
    Rule(
        state="free",
        group=Group.GIVEN,
        audience="scheduler",
        certainty=Certainty.NONE,
        meaning="Nobody holds the GPU.",
        signature="No allocation names it and no process is on it",
        advice="Capacity the scheduler can give: look at pending work and at what keeps it off this node.",
    ),
    Rule(
        state="held_idle",
        group=Group.GIVEN,
        audience="owner",
        certainty=Certainty.CERTAIN,
        meaning="A workload holds the GPU and has no process on it.",
        signature="An allocation names it, no process of the owner is on it",
        advice="Release it, ask for fewer GPUs, or find the rank that crashed or never started.",
    ),
)

RULES: tuple[Rule, ...] = (*_GIVEN, *WAITING_RULES, *BUSY_RULES)
STATES = tuple(rule.state for rule in RULES)
INDEX: Mapping[str, int] = {state: index for index, state in enumerate(STATES)}
BY_STATE: Mapping[str, Rule] = {rule.state: rule for rule in RULES}
OF_WAITING_TIME = tuple((INDEX[rule.state], rule.claim) for rule in WAITING_RULES if rule.claim)
OF_BUSY_TIME = tuple((INDEX[rule.state], rule.claim) for rule in BUSY_RULES if rule.claim)

BUSY = tuple(rule.state for rule in RULES if rule.group is Group.BUSY)
"""A kernel ran, and did something."""
LOST = tuple(rule.state for rule in RULES if rule.certainty in {Certainty.CERTAIN, Certainty.LIKELY})
"""Held, and nothing (or less than could be) came of it. What sums, ranks and prices of waste contain."""
POSSIBLY_LOST = tuple(rule.state for rule in RULES if rule.certainty is Certainty.POSSIBLE)
"""Held, nothing ran, and that may be as it should: shown beside the waste, never in its sum."""

_SIGNALS = tuple(item.name for item in fields(Signals))
_NO_SIGNALS = {"processes", "polling", "serves", "programs", "launchers"}
HOST_SIGNALS = frozenset(item.name for item in fields(HostSignals)) - _NO_SIGNALS
SPLITS = tuple(rule for rule in RULES if rule.group is not Group.GIVEN and rule.claim is not rest)
"""The states that need a signal of their own, and are folded into `busy` or `wait_other` without it."""


def diagnosable(signals: Signals, host: Collection[str]) -> Mapping[str, bool]:
    """Which splits can be made with these signals and with the host signals named in `host`."""
    present = {name for name in _SIGNALS if getattr(signals, name) is not None}.union(host)
    return _diagnosable(frozenset(present))


@lru_cache(maxsize=256)  # the same few sets of signals come again with every pass
def _diagnosable(present: frozenset[str]) -> Mapping[str, bool]:
    known = "busy" in present
    return {rule.state: known and any(present.issuperset(needed) for needed in rule.needs) for rule in SPLITS}
