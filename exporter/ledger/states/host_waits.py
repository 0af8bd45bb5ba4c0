"""Waits for what the host lacks: storage, CPU, network; and what the rules of all waiting states share.

A false accusation costs more than an unknown cause.
"""

from __future__ import annotations

from exporter.ledger.states.state import AMOUNT, Certainty, Evidence, Limits, State, Threshold, at_least, is_below

WAIT_COVER = Threshold(
    "wait_cover", 0.5, "Part of the waiting time that pressure, or a busier peer, must cover to be its cause."
)
PRESSURE_FLOOR = Threshold("pressure_floor", 0.05, "Pressure below this fraction of the cycle explains nothing.")
BLOCKED = Threshold(
    "blocked",
    0.5,
    "Fraction of an owner's GPU processes in D state, or in a receive, that makes waiting a wait for that.",
)
NETWORK_RATE = Threshold(
    "network_bytes_per_second",
    10e6,
    "Bytes per second over the workload's own network above which a waiting GPU waits for the network.",
    maximum=AMOUNT,
)
CPU_OF_LIMIT = Threshold("cpu_of_limit", 0.95, "CPU use over the owner's limit above which it waits for CPU.")
HOT_THREAD = Threshold(
    "hot_thread", 0.9, "CPU one thread used, or stood ready to use, above which waiting is a wait for CPU."
)
POLLS_AFTER = Threshold(
    "polling_seconds",
    10.0,
    "Seconds without a kernel after which a full thread that neither reads nor takes memory is polling.",
    maximum=AMOUNT,
)

ON_DEMAND = frozenset({"service", "interactive"})
"""Classes of work that wait for somebody: without a kernel for a while they are neither unused nor short of CPU."""

_LOGGING_BYTES_PER_SECOND = 16384.0
"""Rate above that of logs and polls."""
_ASLEEP_CPU = 0.005
"""Less than one tick of the kernel's clock in a second."""


def covers_wait(ratio: float | None, evidence: Evidence, limits: Limits) -> bool:
    """Return whether it lasted long enough to explain the waiting."""
    return at_least(ratio, max(limits[PRESSURE_FLOOR], limits[WAIT_COVER] * evidence.wait))


def reported_part(evidence: Evidence, *phases: str) -> float:
    """Return the part of the wait that the GPU's own program reports to have spent in these phases."""
    inside = sum([evidence.reported.get(name, 0.0) for name in phases]) if evidence.reported else 0.0
    return min(1.0, inside / evidence.wait) if evidence.wait > 0 else 0.0


def storage_claim(evidence: Evidence, limits: Limits) -> float:
    """Return the part in which the GPU's own program waits for storage.

    Its D state shows that; or, as 1, the pressure of its cgroup where it did some IO. A main thread that is full waits
    for no thread that writes a checkpoint behind it, and for no loader. Where its own IO cannot be read, only pressure
    on all tasks (`full`) counts as its own; and none where only other ranks are seen in D state.
    """
    own, host = evidence.own, evidence.host
    if main_thread_works(evidence, limits):
        return 0.0
    if own.blocked and (own.blocked >= limits[BLOCKED] * evidence.wait or _takes_turns(evidence, limits)):
        return min(1.0, own.blocked / evidence.wait)
    if evidence.stalled_elsewhere:
        return 0.0
    if own.io_bytes_per_second is None and host.io_full_pressure is not None and host.processes:
        return float(covers_wait(host.io_full_pressure, evidence, limits))
    idle = own.io_bytes_per_second is not None and own.io_bytes_per_second < _LOGGING_BYTES_PER_SECOND
    return float(not idle and covers_wait(host.io_pressure, evidence, limits))


def main_thread_works(evidence: Evidence, limits: Limits) -> bool:
    """Return whether the main thread is full and does not poll.

    Once no kernel ran for long it may only poll, for what a loader or another thread does.
    """
    polls = evidence.own.polling is not False and evidence.past.quiet_seconds >= limits[POLLS_AFTER]
    return at_least(evidence.own.main_thread, limits[HOT_THREAD]) and not polls


def _takes_turns(evidence: Evidence, limits: Limits) -> bool:
    """Return whether its main thread, or it with the processes that it starts, computes or is in D state in turns."""
    own = evidence.own
    computes = max(own.main_thread or 0.0, own.tree_cpu or 0.0)
    turns = own.tree_cpu is not None or bool(own.blocked)
    return turns and not own.receiving and computes + (own.blocked or 0.0) >= limits[HOT_THREAD]


def cpu_claim(evidence: Evidence, limits: Limits) -> float:
    """Return the part in which the owner is short of CPU.

    A thread that is full while nothing comes of it polls: that explains nothing, and the pressure is its own. Nor does
    one that is full while a neighbour on a shared GPU runs: it may only spin until it has its turn. Of work on demand a
    full thread counts where a session's program works, however long ago its last kernel was.
    """
    quiet = evidence.past.quiet_seconds >= limits[POLLS_AFTER]
    on_demand = evidence.work in ON_DEMAND
    full = has_full_thread(evidence, limits) or _takes_turns(evidence, limits)
    if full and evidence.work == "interactive" and evidence.own.polling is False:
        return evidence.unused_by_others
    if on_demand and quiet:
        return 0.0
    if full and evidence.own.polling and (quiet or on_demand):
        return 0.0
    at_limit = at_least(evidence.host.cpu_of_limit, limits[CPU_OF_LIMIT]) and not _spent_elsewhere(evidence, limits)
    pressed = covers_wait(evidence.host.cpu_pressure, evidence, limits)
    if at_limit or (pressed and not is_colder_than_peers(evidence, limits)):
        return 1.0
    return evidence.unused_by_others if full and not on_demand else 0.0


def has_full_thread(evidence: Evidence, limits: Limits) -> bool:
    return at_least(evidence.own.hottest_thread, limits[HOT_THREAD])


def is_colder_than_peers(evidence: Evidence, limits: Limits) -> bool:
    """Return whether CPU pressure is that of the owner's other ranks: this one hardly wants CPU.

    A rank of which nothing is known, while others are watched, is colder than they are.
    """
    hottest = evidence.own.hottest_thread
    if hottest is None:
        return evidence.peers and bool(evidence.host.processes)
    return evidence.peers and hottest < limits[WAIT_COVER] * evidence.wait


def _spent_elsewhere(evidence: Evidence, limits: Limits) -> bool:
    """Return whether the owner's CPU limit is used up by another rank: one that sleeps does not want what that has."""
    ranks = evidence.host.processes.values()
    return is_colder_than_peers(evidence, limits) and any(
        at_least(each.hottest_thread, limits[HOT_THREAD]) for each in ranks
    )


def network_claim(evidence: Evidence, limits: Limits) -> float:
    """Return 1 where the program sits in a receive, its network carries much, or its way to other nodes is in trouble.

    A service's traffic is its requests. The network namespace is the whole pod's: what it carries while the GPU's own
    program uses no CPU at all is a sidecar's.
    """
    if evidence.work in ON_DEMAND:
        return 0.0
    receives = evidence.slow_port or at_least(evidence.own.receiving, limits[BLOCKED])
    asleep = is_below(evidence.own.hottest_thread, _ASLEEP_CPU)
    carries = at_least(evidence.host.network_bytes_per_second, limits[NETWORK_RATE]) and not asleep
    return float(receives or carries)


WAIT_STORAGE = State(
    name="wait_storage",
    title="Waits for storage",
    step="Cache locally, read ahead",
    colour="#CB7C21",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while its program waits for storage.",
    signature="Its processes sit in D state, or IO pressure covers the wait and they did IO themselves",
    advice="Cache the data on local disk, read ahead, and pack small files (WebDataset, TFRecord, HDF5).",
    of_time="waiting",
    needs=(("io_pressure",), ("blocked_threads",)),
    thresholds=(WAIT_COVER, PRESSURE_FLOOR, BLOCKED),
    claim=storage_claim,
)

WAIT_CPU = State(
    name="wait_cpu",
    title="Waits for CPU",
    step="More loader workers and CPUs",
    colour="#F6E306",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while its owner is short of CPU.",
    signature=(
        "A thread, or a process with those it starts, is full and does not poll, or the owner is at its limit, or CPU"
        " pressure covers the wait"
    ),
    advice=(
        "Use more loader workers and CPUs, pinned memory and prefetch; preprocess offline or on the GPU (DALI);"
        " CUDA graphs or torch.compile where Python itself is the full thread."
    ),
    of_time="waiting",
    needs=(("hottest_thread",), ("cpu_of_limit",), ("cpu_pressure",)),
    thresholds=(HOT_THREAD, POLLS_AFTER, CPU_OF_LIMIT, WAIT_COVER, PRESSURE_FLOOR),
    claim=cpu_claim,
)

WAIT_NETWORK = State(
    name="wait_network",
    title="Waits for network",
    step="Check links, overlap transfers",
    colour="#956006",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while its program waits for the network.",
    signature=(
        "Its processes sit in a receive, its own network carries much, or the job has other nodes and the port"
        " nearest to the GPU is down, slow or counts errors; not for services"
    ),
    advice="Fetch data ahead or keep it near (local cache, same zone); look at the node's network ports and links.",
    of_time="waiting",
    needs=(("receiving_threads",), ("network_bytes_per_second",)),
    thresholds=(BLOCKED, NETWORK_RATE),
    claim=network_claim,
)
