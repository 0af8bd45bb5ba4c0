"""The states that take what no other rule claims."""

from __future__ import annotations

from exporter.ledger.evidence import Evidence
from exporter.ledger.states.state import Certainty, Limits, State


def whole_claim(_evidence: Evidence, _limits: Limits) -> float:
    return 1.0


WAIT_OTHER = State(
    name="wait_other",
    title="Waits, cause unknown",
    step="Look at the program",
    colour="#CAB882",
    audience="owner",
    certainty=Certainty.POSSIBLE,
    meaning="The GPU has nothing to run and none of the signals says why.",
    signature="Processes on the GPU, none running a kernel, none of the above",
    advice="A lock, a remote service, a sleep: look at what the program waits for (py-spy dump, its logs).",
    of_time="waiting",
    needs=(("busy",),),
    claim=whole_claim,
)

BUSY = State(
    name="busy",
    title="Busy",
    step="Nothing to do",
    colour="#067A61",
    audience="nobody",
    certainty=Certainty.NONE,
    meaning="The GPU works, and nothing above says it could do better.",
    signature="Kernels run, none of the above",
    advice="Nothing to do.",
    of_time="busy",
    needs=(("busy",),),
    claim=whole_claim,
)
