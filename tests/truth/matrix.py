"""How much of what the ledger says is right: accused seconds, who is named, and the confusion of states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from exporter.ledger.states import BY_STATE, LOST, STATES
from exporter.ledger.states.state import Certainty
from tests.truth.observe import Found

ACCUSED = frozenset((*LOST, "low_sm_activity"))
CERTAIN = frozenset(state for state in LOST if BY_STATE[state].certainty is Certainty.CERTAIN)
_NAMED_FROM = 0.03
"""Fraction of the time in which the others waited for a rank, from which it is named."""
_WRONG_FROM = 0.05
"""Fraction of a rank's time in a state that it was not in, from which it is accused although innocent."""

Confusion = dict[tuple[str, str], float]
"""Seconds by the true state and the state the ledger says."""


@dataclass
class Score:
    """The sums over some shapes, in GPU seconds."""

    shapes: int = 0
    seconds: float = 0.0
    accused: float = 0.0
    right: float = 0.0
    lost: float = 0.0
    """Truly lost."""
    certain_wrong: float = 0.0
    straggling_late: float = 0.0
    straggling_innocent: float = 0.0
    named_late: int = 0
    named_innocent: int = 0
    innocents: int = 0
    """Ranks accused of what they did not do."""
    confusion: Confusion = field(default_factory=dict[tuple[str, str], float])

    def add(self, found: Found) -> None:
        self.shapes += 1
        self.seconds += found.seconds * found.work.ranks
        for rank, (truth, states) in enumerate(zip(found.truth, found.states, strict=True)):
            said = {state: seconds for state, seconds in states.items() if state in ACCUSED}
            right = {state: min(seconds, truth.get(state, 0.0)) for state, seconds in said.items()}
            wrong = {state: seconds - right[state] for state, seconds in said.items()}
            self.accused += sum(said.values())
            self.right += sum(right.values())
            self.lost += sum([seconds for state, seconds in truth.items() if state in ACCUSED])
            self.certain_wrong += sum([seconds for state, seconds in wrong.items() if state in CERTAIN])
            self.innocents += any(seconds >= _WRONG_FROM * found.seconds for seconds in wrong.values())
            late = rank in found.work.late
            true = found.work.waited_for.get(rank, 0.0)
            wrongly = 0.0 if late else max(0.0, found.straggling[rank] - true)
            self.named_late += late and found.straggling[rank] >= _NAMED_FROM * found.seconds
            self.named_innocent += wrongly >= _NAMED_FROM * found.seconds
            self.straggling_late += found.straggling[rank] - wrongly
            self.straggling_innocent += wrongly
            for key, seconds in _confused(truth, states).items():
                self.confusion[key] = self.confusion.get(key, 0.0) + seconds

    @property
    def right_part(self) -> float:
        return self.right / self.accused if self.accused else 1.0

    def line(self) -> str:
        found = self.right / self.lost if self.lost else 1.0
        return (
            f"{self.shapes:6d} {self.accused:10.0f} {self.right_part:7.1%} {found:7.1%} {self.innocents:9d}"
            f" {self.named_late:6d} : {self.named_innocent:<6d}"
            f" {self.straggling_late:8.0f} : {self.straggling_innocent:<8.0f} {self.certain_wrong:8.0f}"
        )


HEADER = "shapes  accused s   right   found innocents named late : not   straggler s : of others  certain wrong s"


def _confused(truth: Mapping[str, float], said: Mapping[str, float]) -> Confusion:
    """Divide what was said too much among what was said too little."""
    found: Confusion = {(state, state): min(seconds, said.get(state, 0.0)) for state, seconds in truth.items()}
    missing = {state: max(0.0, seconds - said.get(state, 0.0)) for state, seconds in truth.items()}
    excess = {state: max(0.0, seconds - truth.get(state, 0.0)) for state, seconds in said.items()}
    whole = sum(missing.values())
    for true, lacks in missing.items():
        for state, more in excess.items():
            if lacks and more:
                found[true, state] = found.get((true, state), 0.0) + more * lacks / whole
    return found


def table(confusion: Confusion) -> str:
    """Return the confusion matrix in per cent of each true state; a row for each, columns for what is said of it."""
    true = [state for state in STATES if any(key[0] == state and part >= 1.0 for key, part in confusion.items())]
    said = [state for state in STATES if any(key[1] == state and part >= 1.0 for key, part in confusion.items())]
    lines = [f"{'truth':20s}{'GPU s':>9s}" + "".join(f"{_short(state):>12s}" for state in said)]
    for row in true:
        whole = sum([part for key, part in confusion.items() if key[0] == row])
        cells = [confusion.get((row, state), 0.0) / whole for state in said]
        lines.append(
            f"{row:20s}{whole:9.0f}" + "".join(f"{part:12.1%}" if part >= 0.0005 else f"{'.':>12s}" for part in cells)
        )
    return "\n".join(lines)


def _short(state: str) -> str:
    return state.removeprefix("wait_").replace("allocated_", "")[:11]


def merged(scores: Sequence[Score]) -> Score:
    """Return the sum of scores."""
    total = Score()
    for score in scores:
        for name, value in vars(score).items():
            if name != "confusion":
                setattr(total, name, getattr(total, name) + value)
        for key, seconds in score.confusion.items():
            total.confusion[key] = total.confusion.get(key, 0.0) + seconds
    return total
