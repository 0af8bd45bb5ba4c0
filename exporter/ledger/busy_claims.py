"""What each rule asks of the busy time of one pass: the part (0 to 1) of it that its state takes. Pure predicates."""

from __future__ import annotations

from exporter.ledger.evidence import Evidence
from exporter.ledger.measured import at_least, at_most, below
from exporter.ledger.thresholds import Thresholds


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
        return below(evidence.of_busy(signals.sm_active), limits.sm_low)
    return below(evidence.of_busy(signals.memory_activity), limits.memory_low) and _low_power(evidence, limits)


def _low_power(evidence: Evidence, limits: Thresholds) -> bool:
    """As if what ran drew all of it: on the average a GPU that works hard for a third of the time draws little."""
    return below(evidence.of_busy(evidence.signals.power_of_limit), limits.power_low)


def communication(evidence: Evidence, limits: Thresholds) -> float:
    signals = evidence.signals
    busy_links = at_least(evidence.of_busy(signals.link_activity), limits.link_high)
    if signals.sm_active is not None:
        return float(busy_links and below(evidence.of_busy(signals.sm_active), limits.sm_low))
    return float(busy_links and _low_power(evidence, limits))


def collective(evidence: Evidence, limits: Thresholds) -> float:
    """One of several GPUs that spins: it waits for the others."""
    return float(evidence.peers and spins(evidence, limits))


def spins(evidence: Evidence, limits: Thresholds) -> bool:
    """A kernel is always there, and nothing moves or computes."""
    if evidence.busy < limits.spin_busy or not _draws_little(evidence, limits) or communication(evidence, limits):
        return False
    signals, of_busy = evidence.signals, evidence.of_busy
    units = (
        (of_busy(signals.sm_active), limits.spin_sm),
        (of_busy(signals.tensor_active), limits.spin_rest),
        (of_busy(signals.vector_active), limits.spin_rest),
        (of_busy(signals.dram_active), limits.spin_memory),
    )
    if any(active is None for active, _ in units):
        memory = of_busy(signals.memory_activity)
        at_rest = memory is not None and memory <= limits.spin_memory
        return at_rest and all(at_most(active, limit) for active, limit in units)
    return all(at_most(active, limit) for active, limit in units)


def _draws_little(evidence: Evidence, limits: Thresholds) -> bool:
    """Against what this workload draws here when it computes; against the limit where it was never seen computing."""
    power, computing = evidence.signals.power_of_limit, evidence.past.busy_power
    if power is None:
        return False
    return power < limits.power_low if computing is None else power <= limits.spin_power * computing


def memory_bound(evidence: Evidence, limits: Thresholds) -> float:
    dram, tensor = evidence.of_busy(evidence.signals.dram_active), evidence.of_busy(evidence.signals.tensor_active)
    return float(at_least(dram, limits.dram_high) and below(tensor, limits.tensor_low))


def small_kernels(evidence: Evidence, limits: Thresholds) -> float:
    return float(_hardly_loaded(evidence, limits))


def no_tensor_cores(evidence: Evidence, limits: Thresholds) -> float:
    tensor, vector = evidence.of_busy(evidence.signals.tensor_active), evidence.of_busy(evidence.signals.vector_active)
    return float(tensor is not None and tensor <= limits.spin_rest and at_least(vector, limits.vector_high))
