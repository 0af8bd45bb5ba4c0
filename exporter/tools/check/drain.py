"""Keeping a Slurm node in step with the verdict: drained with the reason, resumed when that has gone.

Only what this program drained is ever resumed: its reasons end with a tag, which also counts the good checks since.
What somebody has to fix is never resumed by itself: latched faults, and what a job left on its GPUs.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exporter.core.printable import printable
from exporter.faults.expected import parse_node
from exporter.host import program

_TAG = re.compile(r"^(?P<text>.*) \[gpu-exporter(?:: (?:(?P<hands>repair by hand)|(?P<good>\d+) good))?\]$")
_BEFORE = "gpu-exporter: "
"""Beginning of reasons from before they ended with the tag."""
_LONGEST = 200
"""Characters of a reason. sinfo -R shows the first 20: what is wrong comes first."""
_TIMEOUT_SECONDS = 10.0
"""Seconds scontrol may take: with a dead controller it tries for 18."""


class SlurmError(Exception):
    """One line on why Slurm could not be asked, or be given an order."""


class Act(enum.Enum):
    NOTHING = "nothing"
    COUNT = "count"
    """One good check more: reported in the reason."""
    DRAIN = "drain"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as Slurm shows it: `IDLE+DRAIN`, and why."""

    state: str
    reason: str

    @property
    def drained(self) -> bool:
        return bool(self._state_parts & {"DRAIN", "DRAINED", "DRAINING"})

    @property
    def out_of_service(self) -> bool:
        """Drained, or down or failing for a reason: ours would take its place, and a resume end it, too."""
        return self.drained or (bool(self._state_parts & {"DOWN", "FAIL", "FAILING"}) and self.reason != "")

    @property
    def _state_parts(self) -> frozenset[str]:
        return frozenset(re.split(r"[^A-Z_]+", self.state))

    @property
    def marker(self) -> DrainMarker | None:
        """Return what this program wrote there; None where somebody else drained the node."""
        match = _TAG.match(self.reason)
        if match:
            return DrainMarker(match["text"], hands=bool(match["hands"]), good=int(match["good"] or 0))
        return DrainMarker(self.reason.removeprefix(_BEFORE)) if self.reason.startswith(_BEFORE) else None


@dataclass(frozen=True, slots=True)
class DrainMarker:
    """A reason of ours. `good` counts the good checks since."""

    text: str
    hands: bool = False
    good: int = 0

    @property
    def reason(self) -> str:
        """Return the reason as Slurm keeps it: one line, what is wrong first."""
        state = ": repair by hand" if self.hands else f": {self.good} good" if self.good else ""
        marker = f" [gpu-exporter{state}]"
        return printable(" ".join(self.text.split()))[: _LONGEST - len(marker)] + marker


def parse(text: str) -> NodeState:
    """The state in what `scontrol show node NAME` prints. Raises SlurmError."""
    try:
        return NodeState(*parse_node(text))
    except ValueError as error:
        raise SlurmError(str(error)) from None


def decide(node: NodeState, fault: DrainMarker | None, good: int) -> tuple[Act, DrainMarker | None]:
    """Return what to do, and the reason to leave. `fault` is None if the check found none; `good` are needed to resume.

    A node that someone else took out of service is left alone, whatever the verdict.
    """
    marker = node.marker
    if node.out_of_service and marker is None:
        return Act.NOTHING, None
    if fault:
        kept = marker if marker and node.drained and marker.hands else None
        wanted = kept or fault
        return (Act.NOTHING, None) if node.drained and marker == wanted else (Act.DRAIN, wanted)
    if not node.drained or marker is None or marker.hands:
        return Act.NOTHING, None
    if marker.good + 1 >= good:
        return Act.RESUME, None
    return Act.COUNT, DrainMarker(marker.text, good=marker.good + 1)


Run = Callable[[Sequence[str]], str]


def scontrol(command: str) -> Run:
    """Calls that program. What it returns raises SlurmError."""

    def run(arguments: Sequence[str]) -> str:
        try:
            return program.output((command, *arguments), _TIMEOUT_SECONDS)
        except program.ProgramError as error:
            raise SlurmError(str(error)) from None

    return run


def follow(node: str, fault: DrainMarker | None, run: Run, good: int) -> Act:
    """Bring the node in step with the verdict; what was done. Raises SlurmError."""
    act, marker = decide(parse(run(["show", "node", node])), fault, good)
    if act is Act.RESUME:
        run(["update", f"NodeName={node}", "State=RESUME"])
    elif marker:
        state = ["State=DRAIN"] if act is Act.DRAIN else []
        run(["update", f"NodeName={node}", *state, f"Reason={marker.reason}"])
    return act
