"""A process is on the GPU and runs nothing: it was never needed, or somebody has to ask for work first."""

from __future__ import annotations

from exporter.ledger.states.host_waits import (
    HOT_THREAD,
    ON_DEMAND,
    POLLS_AFTER,
    WAIT_COVER,
    covers_wait,
    cpu_claim,
    has_full_thread,
    network_claim,
    reported_part,
    storage_claim,
)
from exporter.ledger.states.reported import WRITE_RATE, checkpoint_claim
from exporter.ledger.states.state import AMOUNT, Certainty, Evidence, Limits, State, Threshold, UsageHistory, at_least

ACTIVE = Threshold("active", 0.01, "Busy fraction of a cycle above which a GPU did something: resets the idle clock.")
UNUSED_NEVER = Threshold(
    "never_ran_seconds",
    10.0,
    "Seconds after which a GPU that never ran a kernel of its live workload is unused.",
    maximum=AMOUNT,
)
UNUSED_AFTER = Threshold(
    "no_kernel_seconds",
    600.0,
    "Seconds without a kernel after which a GPU that ran some before is unused, and waits for no peer.",
    maximum=AMOUNT,
)

_PHASES = ("data", "checkpoint", "evaluation", "communication", "compile")
_MIN_ENGINE_ACTIVE = 0.1
"""Fraction of the driver's window in which an engine for video, images or optical flow worked."""


def unused_claim(evidence: Evidence, limits: Limits) -> float:
    """Return 1 where no kernel ran for long, though others of the workload run, or though nothing is in its way.

    A rank that its peers wait for in a collective is in use, whatever keeps it; so is a GPU whose engines for video,
    images or optical flow work: they need no kernel. The user who stopped a program knows that its GPU is idle.
    """
    past = evidence.past
    engine_works = at_least(evidence.signals.engine_active, _MIN_ENGINE_ACTIVE)
    if reported_part(evidence, *_PHASES) >= limits[WAIT_COVER] or engine_works:
        return 0.0
    long = past.quiet_seconds >= limits[UNUSED_AFTER if past.ran else UNUSED_NEVER]
    rank = evidence.rank
    if not long or evidence.work in ON_DEMAND or evidence.own.stopped or (rank and rank.straggling):
        return 0.0
    if rank and covers_wait(rank.led, evidence, limits):
        return 1.0
    in_its_way = (checkpoint_claim, storage_claim, cpu_claim, network_claim)
    return float(not _is_loading(evidence, limits) and not any(claim(evidence, limits) for claim in in_its_way))


def _is_loading(evidence: Evidence, limits: Limits) -> bool:
    """Return whether the program prepares its first kernel.

    A program that downloads a model, or reads and unpacks it in turns, is full with none of these. Nor is a program
    whose work is that of many threads. One that computes in memory it has already takes none, as if it polled.
    """
    past, own = evidence.past, evidence.own
    if past.ran or past.quiet_seconds >= limits[UNUSED_AFTER]:
        return False
    full = any(covers_wait(ratio, evidence, limits) for ratio in (own.hottest_thread, own.cpu))
    works = full and (own.computes or not own.polling)
    moves = (own.reading_bytes_per_second or 0.0) + (own.writing_bytes_per_second or 0.0)
    return works or moves >= limits[WRITE_RATE]


def takes_part(past: UsageHistory, peers_uncomputed: float, limits: Limits) -> bool:
    """Return whether it ran kernels of the work, or the others did not compute for long without it."""
    return past.ran or past.quiet_seconds - peers_uncomputed < limits[UNUSED_AFTER]


def requests_claim(evidence: Evidence, limits: Limits) -> float:
    """Return the part of a service's wait without requests.

    A service that spins until a neighbour on a shared GPU leaves it a turn has requests: they queue behind the
    neighbour's.
    """
    if evidence.work != "service":
        return 0.0
    lately = evidence.past.quiet_seconds < limits[POLLS_AFTER]
    return evidence.unused_by_others if lately and has_full_thread(evidence, limits) else 1.0


def user_claim(evidence: Evidence, limits: Limits) -> float:
    """Return 1 for a session whose program does not run; a full thread runs, whether it computes or polls."""
    return float(evidence.work == "interactive" and not has_full_thread(evidence, limits))


ALLOCATED_UNUSED = State(
    name="allocated_unused",
    title="Allocated, never used",
    step="Ask for fewer GPUs",
    colour="#B97CA9",
    audience="owner",
    certainty=Certainty.CERTAIN,
    meaning="A process of the workload is on the GPU, and it never ran a kernel, or none for long.",
    signature="No kernel of the owner for long, while its other GPUs run or nothing keeps it from running",
    advice="Ask for as many GPUs as it uses, start a rank on each, or release it.",
    of_time="waiting",
    needs=(("busy",),),
    thresholds=(ACTIVE, UNUSED_NEVER, UNUSED_AFTER, WAIT_COVER),
    claim=unused_claim,
)

WAIT_REQUESTS = State(
    name="wait_requests",
    title="Waits for requests",
    step="Scale down, share, or use MIG",
    colour="#E1EBA8",
    audience="owner",
    certainty=Certainty.POSSIBLE,
    meaning="A service has no request to work on.",
    signature="The workload is a service, and none of the above",
    advice="Scale down, share the GPU with other services, or give it a MIG slice; batch where requests queue.",
    of_time="waiting",
    needs=(("busy",),),
    thresholds=(HOT_THREAD, POLLS_AFTER),
    claim=requests_claim,
)

WAIT_USER = State(
    name="wait_user",
    title="Waits for its user",
    step="Release it when not in use",
    colour="#FED9F8",
    audience="owner",
    certainty=Certainty.POSSIBLE,
    meaning="An interactive session runs nothing: its user thinks, or has gone.",
    signature="The workload is interactive, none of its threads is full, and none of the above",
    advice="Cull sessions nobody uses, share the GPU between them, or give each a MIG slice.",
    of_time="waiting",
    needs=(("busy",),),
    thresholds=(HOT_THREAD,),
    claim=user_claim,
)
