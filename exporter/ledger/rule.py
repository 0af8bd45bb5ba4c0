"""One row of the ledger's table: a state, who acts on it, how sure its loss is, and what distinguishes it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from exporter.ledger.claims import Claim


class Group(str, enum.Enum):
    """`given` follows from who holds the GPU and whether it answers; the others are decided by rules.

    `waiting` is time in which the GPU did nothing for its owner, also where a kernel spun meanwhile.
    """

    GIVEN = "given"
    WAITING = "waiting"
    BUSY = "busy"


class Certainty(str, enum.Enum):
    """How sure it is that time in the state is lost, where the owner held the GPU for it."""

    NONE = "none"
    """Not lost: it ran, if not as fast as it could, or it had no owner."""
    POSSIBLE = "possible"
    """Nothing ran, and that may be how this work is: waiting for people or requests, or for a cause unknown."""
    LIKELY = "likely"
    """Nothing came of it, by the evidence of the state's signature."""
    CERTAIN = "certain"
    """Nothing came of it, whatever the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One state. `needs` lists alternatives: with all signals of one of them the state can be distinguished."""

    state: str
    group: Group
    audience: str
    """Who acts on it: oncall, scheduler, owner, or nobody."""
    certainty: Certainty
    meaning: str
    signature: str
    advice: str
    advice_when_full: str = ""
    """In place of the advice where GPU memory is full, so that the batch cannot grow."""
    claim: Claim | None = None
    of_busy_time: bool = False
    """The rule is asked about time in which a kernel ran, not about the rest."""
    thresholds: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
