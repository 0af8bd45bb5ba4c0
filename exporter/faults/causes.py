"""Causes of the faults of a GPU: one fault for each cause, and programs of which many fail on one GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from exporter.core.clock import EPOCH, UnixTime
from exporter.faults.model import (
    ADVICE_EVIDENCE,
    REPAIRS_BY_STRENGTH,
    XID_EVIDENCE,
    Fault,
    FaultKind,
    GpuRecord,
    Observation,
    ObservedGpu,
    RepairAction,
)

_OF_MEMORY = frozenset({48, 63, 64, 94, 95})
"""XIDs of memory errors: the driver's counters and flags say more of the same error."""
_MEMORY_KINDS = (FaultKind.ECC, FaultKind.REMAP, FaultKind.SRAM)
"""Memory faults that the driver reports, the most serious last."""
_SAME_EVENT_SECONDS = 120.0
"""Seconds within which an XID and an ECC error are one event."""
CONTAINED, _UNCONTAINED = 94, (48, 95)
_PATTERN_PROGRAMS, _PATTERN_FACTOR = 5, 5
"""Programs that fail on one GPU and make a pattern, and how many times more they are than on any other GPU."""


def one_for_each(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Keep one fault of a GPU for each cause.

    The driver's advice is explained by a fault with a repair that is as strong.
    Of losses it is the one with an XID, which only a proven reset ends. Of memory it is the one with the strongest
    repair, and of these the most serious one: an error that was contained explains none that was not.
    """
    kinds = {fault.kind for fault in faults}
    lost_by_xid = any(fault.kind is FaultKind.LOST and fault.by_xid for fault in faults)
    of_memory = sorted(filter(_is_of_memory, faults), key=_by_repair)
    memory = of_memory[-1:] if kinds & set(_MEMORY_KINDS) else of_memory

    def is_explained(fault: Fault) -> bool:
        if fault.evidence == ADVICE_EVIDENCE:
            known = fault.action in REPAIRS_BY_STRENGTH
            return known and any(_strength(each) >= _strength(fault) for each in faults if each != fault)
        if fault.kind is FaultKind.LOST:
            return lost_by_xid and not fault.by_xid
        if fault.kind is FaultKind.SLOW:
            return FaultKind.LOST in kinds
        return _is_of_memory(fault) and fault not in memory

    return tuple(fault for fault in faults if not is_explained(fault))


def _strength(fault: Fault) -> int:
    """Return the rank of the repair; -1 for one that is compared with no other."""
    return REPAIRS_BY_STRENGTH.index(fault.action) if fault.action in REPAIRS_BY_STRENGTH else -1


def _is_of_memory(fault: Fault) -> bool:
    return fault.kind in _MEMORY_KINDS or fault.evidence in {f"{XID_EVIDENCE}{xid}" for xid in _OF_MEMORY}


def _by_repair(fault: Fault) -> tuple[int, int]:
    return _strength(fault), _MEMORY_KINDS.index(fault.kind) if fault.kind in _MEMORY_KINDS else -1


def memory_faults(known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime) -> Iterator[Fault]:
    """Yield the faults that the driver's counters and flags of memory show anew."""
    here = {fault.kind for fault in faults}
    new = (current_errors(known, seen) or 0.0) - known.uncorrected
    if not known.reset_observations and new > 0.0:
        count = f"{new:g} uncorrectable error{'' if new == 1 else 's'}"
        standing = {fault.action for fault in faults if fault.kind is FaultKind.ECC}
        # The driver may report the first of a storm of contained errors alone.
        was_contained = RepairAction.RESET_WHEN_IDLE in standing or _had_recent_xid(seen, now, (CONTAINED,))
        contained = was_contained and not _had_recent_xid(seen, now, _UNCONTAINED)
        action = RepairAction.RESET_WHEN_IDLE if contained else RepairAction.RESET
        if not {action, RepairAction.RESET} & standing:
            yield Fault(seen.uuid, seen.index, FaultKind.ECC, count + ", contained" * contained, action, now)
    if seen.remap_failed and FaultKind.REMAP not in here:
        yield Fault(seen.uuid, seen.index, FaultKind.REMAP, "no spare rows", RepairAction.REPLACE, now)
    if seen.sram_exceeded and FaultKind.SRAM not in here:
        yield Fault(seen.uuid, seen.index, FaultKind.SRAM, "over NVIDIA's threshold", RepairAction.REPLACE, now)


def current_errors(known: GpuRecord, seen: ObservedGpu) -> float | None:
    """Return the uncorrectable errors; None for a count that was read before the last reset, which ended it."""
    before = seen.uncorrected_at is not None and seen.uncorrected_at < known.last_reset
    return None if before else seen.uncorrected


def _had_recent_xid(seen: ObservedGpu, now: UnixTime, xids: Iterable[int]) -> bool:
    return any(now - seen.xids.get(xid, EPOCH) <= _SAME_EVENT_SECONDS for xid in xids)


def most_programs(observation: Observation) -> Mapping[int, Sequence[int]]:
    """Return how many programs each XID has hit on the GPUs, the most first."""
    xids = {xid for seen in observation.gpus for xid in seen.programs}
    return {xid: sorted((len(seen.programs.get(xid, ())) for seen in observation.gpus), reverse=True) for xid in xids}


def suspect_pattern(
    known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault], most: Mapping[int, Sequence[int]], now: UnixTime
) -> Iterator[Fault]:
    """Suspect a GPU on which many programs fail, while none does on the others. With one GPU it is not known."""
    standing = {fault.evidence for fault in faults}
    for xid, times in seen.programs.items():
        count, others = sum(time > known.last_reset for time in times), most[xid][1:]
        evidence = f"{XID_EVIDENCE}{xid} of many programs"
        suspect = bool(others) and count >= max(_PATTERN_PROGRAMS, _PATTERN_FACTOR * others[0])
        if suspect and evidence not in standing:
            yield Fault(seen.uuid, seen.index, FaultKind.PATTERN, evidence, RepairAction.INSPECT, now)
