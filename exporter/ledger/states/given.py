"""States without a signal of their own: by allocation and reading alone, or what no other rule claims."""

from __future__ import annotations

from exporter.ledger.states.state import AMOUNT, Certainty, Evidence, Limits, State, Threshold

GAP_INTERVALS = Threshold(
    "gap_intervals",
    3.0,
    "In a cycle longer than this many sample intervals, only the busy time in the driver's samples is known.",
    maximum=AMOUNT,
)

UNOBSERVED = State(
    name="unobserved",
    title="Unobserved",
    step="Look at the node",
    colour="#484848",
    audience="oncall",
    certainty=Certainty.NONE,
    meaning="The GPU did not answer, has no utilization reading, or the exporter did not run.",
    signature="No reading by the deadline; in a cycle longer than a few intervals, time without the driver's samples",
    advice="Look at the node: a hung driver, a lost GPU, or an exporter starved of CPU.",
    of_time="given",
    thresholds=(GAP_INTERVALS,),
)

FREE = State(
    name="free",
    title="Free",
    step="Give it to pending work",
    colour="#AFB8C6",
    audience="scheduler",
    certainty=Certainty.NONE,
    meaning="The GPU is allocated to no workload.",
    signature="No allocation names it and no process is on it",
    advice="Capacity the scheduler can give: look at pending work and at what keeps it off this node.",
    of_time="given",
)

ALLOCATED_IDLE = State(
    name="allocated_idle",
    title="Allocated, idle",
    step="Release it, or start the rank",
    colour="#F3357F",
    audience="owner",
    certainty=Certainty.CERTAIN,
    meaning="The GPU is allocated to a workload that has no process on it.",
    signature="An allocation names it, no process of the owner is on it",
    advice="Release it, ask for fewer GPUs, or find the rank that crashed or never started.",
    of_time="given",
)


def whole_claim(_evidence: Evidence, _limits: Limits) -> float:
    return 1.0


WAIT_OTHER = State(
    name="wait_other",
    title="Waits, cause unknown",
    step="Look at the program",
    colour="#CAB882",
    audience="owner",
    certainty=Certainty.POSSIBLE,
    meaning="The GPU has nothing to run and no signal shows why.",
    signature="Processes on the GPU, none running a kernel, none of the above",
    advice="A lock, a remote service, a sleep: look at what the program waits for (py-spy dump, its logs).",
    of_time="waiting",
    needs=(("busy",),),
    claim=whole_claim,
)

COMPUTING = State(
    name="computing",
    title="Computing",
    step="Nothing to do",
    colour="#067A61",
    audience="nobody",
    certainty=Certainty.NONE,
    meaning="The GPU works, and no state above applies.",
    signature="Kernels run, none of the above",
    advice="Nothing to do.",
    of_time="busy",
    needs=(("busy",),),
    claim=whole_claim,
)
