"""Waits for the workload's other GPUs: without a kernel, and spinning in a collective."""

from __future__ import annotations

from exporter.ledger.states.activity import POWER_LOW, SPIN_BUSY, SPIN_REST
from exporter.ledger.states.host_waits import (
    BLOCKED,
    NETWORK_RATE,
    ON_DEMAND,
    PRESSURE_FLOOR,
    WAIT_COVER,
    covers_wait,
    is_colder_than_peers,
    reported_part,
)
from exporter.ledger.states.idle import UNUSED_AFTER
from exporter.ledger.states.state import Certainty, Evidence, Limits, State, Threshold, at_least

SPIN_SM = Threshold("spin_max_sm_activity", 0.35, "SM activity of a spinning GPU, at most.")
SPIN_MEMORY = Threshold("spin_max_dram", 0.05, "DRAM (without GPM: memory) activity of a spinning GPU, at most.")
SPIN_POWER = Threshold(
    "spin_max_power", 0.6, "Power of a spinning GPU, at most, over what its workload draws there when it computes."
)


def peer_claim(evidence: Evidence, limits: Limits) -> float:
    """Return the reported part, or 1 where another GPU works longer or comes late.

    By heuristics only for a GPU that ran kernels lately: one that never does is not part of the work. Replicas of a
    service, and the GPUs of a notebook, each wait for somebody else.
    """
    past = evidence.past
    lately = evidence.work not in ON_DEMAND and past.ran and past.quiet_seconds < limits[UNUSED_AFTER]
    follows = lately and evidence.rank is not None and evidence.rank.follows
    waits = follows or _waits_in_barrier(evidence, limits) or _receives_from_peer(evidence, limits)
    return max(reported_part(evidence, "communication"), float(waits))


def _receives_from_peer(evidence: Evidence, limits: Limits) -> bool:
    own = evidence.own
    return evidence.work not in ON_DEMAND and own.from_peer and at_least(own.receiving, limits[BLOCKED])


def _waits_in_barrier(evidence: Evidence, limits: Limits) -> bool:
    """Return whether it sits in a receive, hardly wants CPU, receives little, and a rank beside it is late.

    Something on this node keeps the late rank, and the network shows no cause.
    """
    carries = evidence.slow_port or at_least(evidence.host.network_bytes_per_second, limits[NETWORK_RATE])
    late = evidence.work not in ON_DEMAND and covers_wait(evidence.peer_late, evidence, limits)
    return late and is_colder_than_peers(evidence, limits) and not carries


def collective_claim(evidence: Evidence, _limits: Limits) -> float:
    """Return the part that the comparison of the ranks found."""
    collective = evidence.rank.collective if evidence.rank else None
    return (collective or 0.0) / evidence.busy


def possible_spin_claim(evidence: Evidence, _limits: Limits) -> float:
    """Return the part that may be a spin, where the witnesses disagree or one is missing."""
    return (evidence.rank.doubtful if evidence.rank else 0.0) / evidence.busy


WAIT_PEER = State(
    name="wait_peer",
    title="Waits for peers",
    step="Balance stages and shards",
    colour="#CAB1FC",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while another GPU of the same owner computes, or comes late to a barrier.",
    signature=(
        "Over a minute another GPU of the owner computes longer by at least half of the wait, this one ran a kernel"
        " lately, and does not bound the others in a collective; or"
        " it sits in a receive while data, storage, a checkpoint or CPU keeps another one here, or in a receive from"
        " another GPU process of the owner; or the program reports the phase `communication`"
    ),
    advice="Balance the pipeline stages or shards, look for a straggler, overlap communication with compute.",
    of_time="waiting",
    needs=(("busy",),),
    thresholds=(WAIT_COVER, PRESSURE_FLOOR, UNUSED_AFTER, BLOCKED, NETWORK_RATE),
    claim=peer_claim,
)

WAIT_COLLECTIVE = State(
    name="wait_collective",
    title="Waits in a collective",
    step="Find the rank that lags",
    colour="#794881",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="One of the workload's GPUs spins in place, as in a collective that waits for a rank.",
    signature=(
        "Over a minute less activity per busy second than the rank of the job that spins least; or for 5 s busy without"
        " a pause, few SMs active, tensor cores, vector pipes and memory at rest, links not full, and power far below"
        " the limit or what the work drew when it computed. Without GPM the work must have been seen computing, or"
        " memory must rest for 30 s. Not where reported steps or NCCL's RAS go on. Only with more than one GPU"
    ),
    advice="Find the rank that lags (gpu_workload_straggler_seconds_total names its GPU); if all spin, it hangs.",
    of_time="busy",
    spins=True,
    needs=(
        ("sm_active", "tensor_active", "vector_active", "dram_active", "power_of_limit"),
        ("memory_activity", "power_of_limit"),
    ),
    thresholds=(SPIN_BUSY, SPIN_SM, SPIN_REST, SPIN_MEMORY, SPIN_POWER, POWER_LOW),
    claim=collective_claim,
)

POSSIBLE_SPIN = State(
    name="possible_spin",
    title="Possible spin",
    step="Report steps of the program",
    colour="#12027A",
    audience="owner",
    certainty=Certainty.POSSIBLE,
    meaning="A kernel runs that may only spin in place: by some signs it does, and others disagree or are missing.",
    signature=(
        "Less activity than the other ranks, but power, SM activity or links do not show a spin; or as still as in a"
        " spin, which very small kernels are too. Only with more than one GPU"
    ),
    advice=(
        "Report the program's steps, or ask NCCL (--nccl.ras): both show whether it goes on. If it does, its kernels"
        " are very small: larger batches, CUDA graphs."
    ),
    of_time="busy",
    needs=WAIT_COLLECTIVE.needs,
    thresholds=WAIT_COLLECTIVE.thresholds,
    claim=possible_spin_claim,
)
