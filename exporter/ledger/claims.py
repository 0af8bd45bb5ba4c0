"""What each rule asks of one pass: the part (0 to 1) of its family's time that its state takes. Pure predicates.

A false accusation costs more than an unknown cause: what is not measured explains nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.ledger.evidence import Evidence, Past
from exporter.ledger.thresholds import Thresholds

Claim = Callable[[Evidence, Thresholds], float]

ON_DEMAND = frozenset({"service", "interactive"})
"""Classes of work that wait for somebody: without a kernel for a while they are neither unused nor short of CPU."""


def _at_least(number: float | None, limit: float) -> bool:
    return number is not None and number >= limit


def _below(number: float | None, limit: float) -> bool:
    return number is not None and number < limit


def _at_most(number: float | None, limit: float) -> bool:
    """Also where it is not known."""
    return number is None or number <= limit


def _covers(share: float | None, evidence: Evidence, limits: Thresholds) -> bool:
    """Whether it lasted long enough to explain the waiting."""
    return _at_least(share, max(limits.pressure_floor, limits.wait_cover * evidence.wait))


# --- the GPU has nothing to run ---------------------------------------------------------------------------------

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
    if _reported(evidence, *_PHASES) >= limits.wait_cover or _at_least(evidence.signals.engine_active, _ENGINE):
        return 0.0
    long = past.quiet_seconds >= (limits.unused_after if past.ran else limits.unused_never)
    if not long or evidence.work in ON_DEMAND or evidence.own.stopped or _waited_for(evidence, limits):
        return 0.0
    others_run = _covers(evidence.peer_lead, evidence, limits)
    return float(others_run or not any(claim(evidence, limits) for claim in (checkpoint, storage, cpu, network)))


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

    Where its own IO cannot be read, only pressure on everybody (`full`) is taken for its own; and none where only other
    ranks are seen in D state.
    """
    own, host = evidence.own, evidence.host
    if _at_least(own.blocked, limits.blocked):
        return True
    if evidence.stalled_elsewhere:
        return False
    if own.io_bytes_per_second is None and host.io_full_pressure is not None and host.processes:
        return _covers(host.io_full_pressure, evidence, limits)
    idle = own.io_bytes_per_second is not None and own.io_bytes_per_second < _SOME_IO
    return not idle and _covers(host.io_pressure, evidence, limits)


_SOME_IO = 16384.0
"""Bytes per second; what a program logs and polls is less."""


def _writes(evidence: Evidence, limits: Thresholds) -> bool:
    own, host = evidence.own, evidence.host
    if own.io_bytes_per_second is not None:
        read, written = own.read_bytes_per_second or 0.0, own.written_bytes_per_second or 0.0
    else:
        read, written = host.read_bytes_per_second or 0.0, host.written_bytes_per_second or 0.0
    return written > read and written >= limits.write_rate


def checkpoint(evidence: Evidence, limits: Thresholds) -> float:
    """It is reported; or it mostly writes, and either waits for storage or is busy copying what it writes."""
    return _reported(evidence, "checkpoint") or float(
        _writes(evidence, limits) and (_stalled(evidence, limits) or bool(cpu(evidence, limits)))
    )


def storage(evidence: Evidence, limits: Thresholds) -> float:
    return float(_stalled(evidence, limits))


def cpu(evidence: Evidence, limits: Thresholds) -> float:
    """A thread that is full while nothing comes of it polls: that explains nothing."""
    quiet = evidence.past.quiet_seconds >= limits.polls_after
    on_demand = evidence.work in ON_DEMAND
    if on_demand and quiet:
        return 0.0
    full = _at_least(evidence.own.hottest_thread, limits.hot_thread)
    if full and quiet and evidence.own.polling:
        return 0.0
    return float(
        (full and not on_demand)
        or _at_least(evidence.host.cpu_of_limit, limits.cpu_of_limit)
        or (_covers(evidence.host.cpu_pressure, evidence, limits) and not _pressed_elsewhere(evidence, limits))
    )


def _pressed_elsewhere(evidence: Evidence, limits: Thresholds) -> bool:
    """CPU pressure is the whole owner's: a rank that hardly wants CPU while its peers do is not waiting for it."""
    return evidence.peers and _below(evidence.own.hottest_thread, limits.wait_cover * evidence.wait)


def peer(evidence: Evidence, limits: Thresholds) -> float:
    """By heuristics only for a GPU that ran kernels lately: one that never does is not part of the work.

    Replicas of a service, and the GPUs of a notebook, each wait for somebody else.
    """
    past = evidence.past
    lately = evidence.work not in ON_DEMAND and past.ran and past.quiet_seconds < limits.unused_after
    seen = float(lately and _covers(evidence.peer_lead, evidence, limits))
    return max(_reported(evidence, "communication"), seen)


def network(evidence: Evidence, limits: Thresholds) -> float:
    """Its program sits in a receive, its network namespace carries much, or its way to other nodes is in trouble.

    A service's traffic is its requests. The network namespace is the whole pod's: what it carries while the GPU's own
    program uses no CPU at all is a sidecar's.
    """
    if evidence.work in ON_DEMAND:
        return 0.0
    receives = evidence.slow_port or _at_least(evidence.own.receiving, limits.blocked)
    asleep = _below(evidence.own.hottest_thread, _SOME_CPU)
    carries = _at_least(evidence.host.network_bytes_per_second, limits.network_rate) and not asleep
    return float(receives or carries)


_SOME_CPU = 0.005
"""Less than one tick of the kernel's clock in a second."""


def requests(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return float(evidence.work == "service")


def user(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return float(evidence.work == "interactive")


# --- a kernel runs ----------------------------------------------------------------------------------------------


def thermal(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return _clock_loss(evidence)[0]


def power_brake(evidence: Evidence, limits: Thresholds) -> float:
    del limits
    return _clock_loss(evidence)[1]


def _clock_loss(evidence: Evidence) -> tuple[float, float]:
    """What the clocks lost to heat and to the power brake, at most the time each was in force."""
    heat = evidence.of_busy(evidence.signals.throttled_thermal) or 0.0
    brake = evidence.of_busy(evidence.signals.throttled_power_brake) or 0.0
    throttled = heat + brake
    if not throttled or not evidence.clock_lost:
        return 0.0, 0.0
    lost = min(evidence.clock_lost, throttled, 1.0)
    return lost * heat / throttled, lost * brake / throttled


def _hardly_loaded(evidence: Evidence, limits: Thresholds) -> bool:
    """The SMs are mostly empty: by GPM, else by power far under its limit and memory at rest."""
    signals = evidence.signals
    if signals.sm_active is not None:
        return _below(evidence.of_busy(signals.sm_active), limits.sm_low)
    return _below(evidence.of_busy(signals.memory_activity), limits.memory_low) and _low_power(evidence, limits)


def _low_power(evidence: Evidence, limits: Thresholds) -> bool:
    """As if what ran drew all of it: on the average a GPU that works hard for a third of the time draws little."""
    return _below(evidence.of_busy(evidence.signals.power_of_limit), limits.power_low)


def communication(evidence: Evidence, limits: Thresholds) -> float:
    signals = evidence.signals
    busy_links = _at_least(evidence.of_busy(signals.link_activity), limits.link_high)
    if signals.sm_active is not None:
        return float(busy_links and _below(evidence.of_busy(signals.sm_active), limits.sm_low))
    return float(busy_links and _low_power(evidence, limits))


def collective(evidence: Evidence, limits: Thresholds) -> float:
    """One of several GPUs that spins: it waits for the others."""
    return float(evidence.peers and spins(evidence, limits))


def spins(evidence: Evidence, limits: Thresholds) -> bool:
    """A kernel is always there, and nothing moves or computes."""
    if evidence.busy < limits.spin_busy or not _draws_little(evidence, limits) or communication(evidence, limits):
        return False
    signals, of_busy = evidence.signals, evidence.of_busy
    if signals.sm_active is None:
        memory = of_busy(signals.memory_activity)
        return memory is not None and memory <= limits.spin_memory and signals.power_of_limit is not None
    units = (of_busy(signals.tensor_active), of_busy(signals.vector_active))
    return (
        _at_most(of_busy(signals.sm_active), limits.spin_sm)
        and all(_at_most(unit, limits.spin_rest) for unit in units)
        and _at_most(of_busy(signals.dram_active), limits.spin_memory)
    )


def _draws_little(evidence: Evidence, limits: Thresholds) -> bool:
    """Against what this workload draws here when it computes; against the limit where it was never seen computing."""
    power, computing = evidence.signals.power_of_limit, evidence.past.busy_power
    if power is None:
        return True
    return power < limits.power_low if computing is None else power <= limits.spin_power * computing


def memory_bound(evidence: Evidence, limits: Thresholds) -> float:
    dram, tensor = evidence.of_busy(evidence.signals.dram_active), evidence.of_busy(evidence.signals.tensor_active)
    return float(_at_least(dram, limits.dram_high) and _below(tensor, limits.tensor_low))


def small_kernels(evidence: Evidence, limits: Thresholds) -> float:
    return float(_hardly_loaded(evidence, limits))


def no_tensor_cores(evidence: Evidence, limits: Thresholds) -> float:
    tensor, vector = evidence.of_busy(evidence.signals.tensor_active), evidence.of_busy(evidence.signals.vector_active)
    return float(tensor is not None and tensor <= limits.spin_rest and _at_least(vector, limits.vector_high))


def rest(evidence: Evidence, limits: Thresholds) -> float:
    del evidence, limits
    return 1.0
