"""One row of the ledger's table: everything that is said of one state of a GPU second."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from exporter.ledger.evidence import Evidence


@dataclass(frozen=True, slots=True, eq=False)
class Threshold:
    """A number that rules compare with, an option of the ledger. It is a key of `Limits`: hashed by identity."""

    name: str
    default: float
    help: str
    maximum: float = 1.0
    """Infinite for amounts, such as seconds and bytes per second."""


AMOUNT = math.inf
"""Maximum of a threshold that is no fraction."""

Limits = Mapping[Threshold, float]
"""The value of each threshold."""

Claim = Callable[[Evidence, Limits], float]
"""Returns the fraction of the time at hand that belongs to the state. Pure."""


class Certainty(str, enum.Enum):
    """Certainty that allocated time in the state is lost."""

    NONE = "none"
    """Not lost: kernels ran, if not as fast as they could, or the GPU had no owner."""
    POSSIBLE = "possible"
    """Nothing ran, and that may be how this work is: waiting for people or requests, or for a cause unknown."""
    LIKELY = "likely"
    """Nothing came of it, by the evidence of the state's signature."""
    CERTAIN = "certain"
    """Nothing came of it, whatever the cause."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """A state with its rule, thresholds, evidence, words and colour."""

    name: str
    title: str
    step: str
    """The first thing to do about it, short enough for a cell; `advice` is the whole."""
    colour: str
    audience: Literal["oncall", "scheduler", "owner", "nobody"]
    """The readers who can act on it."""
    certainty: Certainty
    meaning: str
    signature: str
    advice: str
    advice_when_full: str = ""
    """In place of the advice where GPU memory is full, so that the batch cannot grow."""
    of_time: Literal["given", "waiting", "busy"]
    """The time that the rule divides: without a kernel, or with one. `given` follows from allocation and reading."""
    spins: bool = False
    """A kernel runs and does nothing: time with a kernel that counts as waiting."""
    needs: tuple[tuple[str, ...], ...] = ()
    """Alternatives: with all signals of one of them the state can be distinguished."""
    thresholds: tuple[Threshold, ...] = ()
    claim: Claim | None = None
    """None for a given state."""
