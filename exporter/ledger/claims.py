"""What each rule asks of the time a GPU waits: the part (0 to 1) that its state takes. Pure predicates.

A false accusation costs more than an unknown cause: what is not measured explains nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.ledger.evidence import Evidence, Past
from exporter.ledger.measured import at_least, below
from exporter.ledger.thresholds import Thresholds

Claim = Callable[[Evidence, Thresholds], float]

ON_DEMAND = frozenset({"service", "interactive"})
"""Classes of work that wait for somebody: without a kernel for a while they are neither unused nor short of CPU."""


def _covers(share: float | None, evidence: Evidence, limits: Thresholds) -> bool:
    """Whether it lasted long enough to explain the waiting."""
    return at_least(share, max(limits.pressure_floor, limits.wait_cover * evidence.wait))


_PHASES = ("data", "checkpoint", "evaluation", "communication", "compile")


def _reported(evidence: Evidence, *names: str) -> float:
    """Part of the wait that the GPU's own program reports to have spent in these phases."""
    inside = sum([evidence.reported.get(name, 0.0) for name in names]) if evidence.reported else 0.0
    return min(1.0, inside / evidence.wait) if evidence.wait > 0 else 0.0


def data(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return _reported(evidence, "data")


def evaluation(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return _reported(evidence, "evaluation")


def unused(evidence: Evidence, limits: Thresholds) -> float:
    """No kernel for long, though others of the workload run, or though nothing is in its way.

    A rank that its peers wait for in a collective is in use, whatever keeps it; so is a GPU whose engines for video,
    images or optical flow work: they need no kernel. Who stopped a program knows that its GPU is idle.
    """
    past = evidence.past
    if _reported(evidence, *_PHASES) >= limits.wait_cover or at_least(evidence.signals.engine_active, _ENGINE):
        return 0.0
    long = past.quiet_seconds >= (limits.unused_after if past.ran else limits.unused_never)
    if not long or evidence.work in ON_DEMAND or evidence.own.stopped or _waited_for(evidence, limits):
        return 0.0
    if _covers(evidence.peer_lead, evidence, limits):
        return 1.0
    return float(
        not _loads(evidence, limits)
        and not any(claim(evidence, limits) for claim in (checkpoint, storage, cpu, network))
    )


def _loads(evidence: Evidence, limits: Thresholds) -> bool:
    """Before its first kernel: who downloads a model, or reads and unpacks it in turns, is full with none of these.

    Nor is one whose work is that of many threads.
    """
    past, own = evidence.past, evidence.own
    if past.ran or past.quiet_seconds >= limits.unused_after:
        return False
    works = any(_covers(share, evidence, limits) for share in (own.hottest_thread, own.cpu)) and not own.polling
    moves = (own.reading_bytes_per_second or 0.0) + (own.writing_bytes_per_second or 0.0)
    return works or moves >= limits.write_rate


def _waited_for(evidence: Evidence, limits: Thresholds) -> bool:
    """Others spin, and this one is part of their work: they did not compute for long without a kernel of it."""
    if evidence.peers_spin < limits.spin_busy / 2:
        return False
    return takes_part(evidence.past, evidence.peers_uncomputed, limits)


def takes_part(past: Past, peers_uncomputed: float, limits: Thresholds) -> bool:
    """It ran kernels of the work, or the others did not compute for long without it."""
    return past.ran or past.quiet_seconds - peers_uncomputed < limits.unused_after


_ENGINE = 0.1
"""Share of the driver's window."""


def _stalled(evidence: Evidence, limits: Thresholds) -> bool:
    """The GPU's own program waits for storage: by its D state, or by the pressure of its cgroup where it did some IO.

    A main thread that is full waits for no thread that writes a checkpoint behind it, and for no loader.

    Where its own IO cannot be read, only pressure on everybody (`full`) is taken for its own; and none where only other
    ranks are seen in D state.
    """
    own, host = evidence.own, evidence.host
    if _main_works(evidence, limits):
        return False
    if at_least(own.blocked, limits.blocked):
        return True
    if evidence.stalled_elsewhere:
        return False
    if own.io_bytes_per_second is None and host.io_full_pressure is not None and host.processes:
        return _covers(host.io_full_pressure, evidence, limits)
    idle = own.io_bytes_per_second is not None and own.io_bytes_per_second < _SOME_IO
    return not idle and _covers(host.io_pressure, evidence, limits)


def _main_works(evidence: Evidence, limits: Thresholds) -> bool:
    """As far as can be told: once no kernel ran for long it may only poll, for what a loader or another thread does."""
    polls = evidence.own.polling is not False and evidence.past.quiet_seconds >= limits.polls_after
    return at_least(evidence.own.main_thread, limits.hot_thread) and not polls


_SOME_IO = 16384.0
"""Bytes per second; what a program logs and polls is less."""


def _writes(evidence: Evidence, limits: Thresholds) -> bool:
    """By what it moves now; where that is little, as in `fsync`, by what it did lately."""
    own, host = evidence.own, evidence.host
    if own.io_bytes_per_second is None:
        return _mostly_writes(host.read_bytes_per_second, host.written_bytes_per_second, limits)
    reading, writing = own.reading_bytes_per_second, own.writing_bytes_per_second
    if (reading or 0.0) + (writing or 0.0) >= limits.write_rate:
        return _mostly_writes(reading, writing, limits)
    return _mostly_writes(own.read_bytes_per_second, own.written_bytes_per_second, limits)


def _mostly_writes(read: float | None, written: float | None, limits: Thresholds) -> bool:
    """Ranks and loaders that pass on by pipes what they read write about as much as they read."""
    return (written or 0.0) > _MOSTLY * (read or 0.0) and at_least(written, limits.write_rate)


_MOSTLY = 2.0


def _copies(evidence: Evidence, limits: Thresholds) -> bool:
    """It is full, and writes all the time: a checkpoint that has ended keeps no thread full.

    Where the main thread is, it is that thread which has to write: another one may do so behind it.
    """
    own = evidence.own
    writing = own.writing_bytes_per_second
    if _main_works(evidence, limits) and own.main_writing_bytes_per_second is not None:
        writing = own.main_writing_bytes_per_second
    return not below(writing, limits.write_rate) and bool(cpu(evidence, limits))


def checkpoint(evidence: Evidence, limits: Thresholds) -> float:
    """It is reported; or it mostly writes, and either waits for storage or is busy copying what it writes."""
    return _reported(evidence, "checkpoint") or float(
        _writes(evidence, limits) and (_stalled(evidence, limits) or _copies(evidence, limits))
    )


def storage(evidence: Evidence, limits: Thresholds) -> float:
    return float(_stalled(evidence, limits))


def cpu(evidence: Evidence, limits: Thresholds) -> float:
    """A thread that is full while nothing comes of it polls: that explains nothing.

    Nor does one that is full while a neighbour on a shared GPU runs: it may only spin until it has its turn. Of work
    on demand a full thread counts where a session's program works, however long ago its last kernel was.
    """
    quiet = evidence.past.quiet_seconds >= limits.polls_after
    on_demand = evidence.work in ON_DEMAND
    full = _full(evidence, limits)
    if full and evidence.work == "interactive" and evidence.own.polling is False:
        return evidence.unused_by_others
    if on_demand and quiet:
        return 0.0
    if full and quiet and evidence.own.polling:
        return 0.0
    at_limit = at_least(evidence.host.cpu_of_limit, limits.cpu_of_limit) and not _spent_elsewhere(evidence, limits)
    if at_limit or (_covers(evidence.host.cpu_pressure, evidence, limits) and not _pressed_elsewhere(evidence, limits)):
        return 1.0
    return evidence.unused_by_others if full and not on_demand else 0.0


def _full(evidence: Evidence, limits: Thresholds) -> bool:
    return at_least(evidence.own.hottest_thread, limits.hot_thread)


def _pressed_elsewhere(evidence: Evidence, limits: Thresholds) -> bool:
    """CPU pressure is the whole owner's: a rank that hardly wants CPU while its peers do is not waiting for it.

    One of which nothing is known, while others are watched, is colder than they are.
    """
    hottest = evidence.own.hottest_thread
    if hottest is None:
        return evidence.peers and bool(evidence.host.processes)
    return evidence.peers and hottest < limits.wait_cover * evidence.wait


def _spent_elsewhere(evidence: Evidence, limits: Thresholds) -> bool:
    """The limit is the whole owner's too: a rank that sleeps while another one is full does not want what that has."""
    ranks = evidence.host.processes.values()
    return _pressed_elsewhere(evidence, limits) and any(
        at_least(each.hottest_thread, limits.hot_thread) for each in ranks
    )


def peer(evidence: Evidence, limits: Thresholds) -> float:
    """By heuristics only for a GPU that ran kernels lately: one that never does is not part of the work.

    Replicas of a service, and the GPUs of a notebook, each wait for somebody else.
    """
    past = evidence.past
    lately = evidence.work not in ON_DEMAND and past.ran and past.quiet_seconds < limits.unused_after
    seen = lately and _covers(evidence.peer_lead, evidence, limits)
    return max(_reported(evidence, "communication"), float(seen or _meets(evidence, limits)))


def _meets(evidence: Evidence, limits: Thresholds) -> bool:
    """It sits in a receive and hardly wants CPU, nothing much arrives, and one beside it is late.

    As in a barrier: what keeps that one is seen, and nothing is seen of the network.
    """
    carries = evidence.slow_port or at_least(evidence.host.network_bytes_per_second, limits.network_rate)
    late = evidence.work not in ON_DEMAND and _covers(evidence.peer_late, evidence, limits)
    return late and _pressed_elsewhere(evidence, limits) and not carries


def network(evidence: Evidence, limits: Thresholds) -> float:
    """Its program sits in a receive, its network namespace carries much, or its way to other nodes is in trouble.

    A service's traffic is its requests. The network namespace is the whole pod's: what it carries while the GPU's own
    program uses no CPU at all is a sidecar's.
    """
    if evidence.work in ON_DEMAND:
        return 0.0
    receives = evidence.slow_port or at_least(evidence.own.receiving, limits.blocked)
    asleep = below(evidence.own.hottest_thread, _SOME_CPU)
    carries = at_least(evidence.host.network_bytes_per_second, limits.network_rate) and not asleep
    return float(receives or carries)


_SOME_CPU = 0.005
"""Less than one tick of the kernel's clock in a second."""


def requests(evidence: Evidence, limits: Thresholds) -> float:
    """Who spins until a neighbour on a shared GPU leaves it a turn has requests: they queue behind the neighbour's."""
    if evidence.work != "service":
        return 0.0
    lately = evidence.past.quiet_seconds < limits.polls_after
    return evidence.unused_by_others if lately and _full(evidence, limits) else 1.0


def user(evidence: Evidence, limits: Thresholds) -> float:
    """Not of a program that runs, be it that nobody sees whether it computes or polls."""
    return float(evidence.work == "interactive" and not _full(evidence, limits))


def rest(evidence: Evidence, limits: Thresholds) -> float:
    del evidence, limits
    return 1.0
