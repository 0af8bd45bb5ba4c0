"""Step from the state of one observation to the next: faults are latched on evidence, and end on proof. Pure.

A fault ends when its GPU was reset, its driver reloaded or its node restarted (the driver's own counters began anew, or
the boot id changed), when the GPU was replaced, when what was missing is back, or when somebody acknowledges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporter.collectors.xid_catalogue import FALLEN_OFF, IGNORE, class_of
from exporter.core.clock import EPOCH, UnixTime, clock_step
from exporter.faults import causes, levels
from exporter.faults.identity import identify_gpus, is_occupied
from exporter.faults.model import (
    XID_EVIDENCE,
    Acknowledgement,
    Fault,
    FaultKind,
    FaultState,
    GpuRecord,
    Observation,
    ObservedGpu,
    RepairAction,
    SwitchFault,
)

LOST_AFTER_SECONDS = 10.0
"""Seconds without an answer before a GPU is lost: a reset takes a few."""
LATE, SILENT = "HUNG", "SILENT"
"""The failures of a GPU whose read did not end by the deadline, and of one that has its handle and answers nothing."""
_LOSSES = {"RESET_REQUIRED": RepairAction.RESET}
"""Repair by the driver's error. Of other losses it is a restart."""
_LATE_LOST_SECONDS = 180.0
"""Seconds of late calls alone before a GPU is lost: the driver has not said so, and its job may compute."""


def since_refused(
    state: FaultState, devices: Mapping[str, GpuRecord], observation: Observation, accepted: frozenset[tuple[str, str]]
) -> Mapping[int, UnixTime]:
    """Return since when each index gives no handle, without those of GPUs that are known by UUID, and unreachable."""
    answering = {seen.uuid for seen in observation.gpus if seen.up}
    known = {known.index for uuid, known in devices.items() if uuid not in answering and known.expected}
    return {
        index: state.refused.get(index, observation.time)
        for index, _ in observation.refused
        if index not in known and (str(index), FaultKind.LOST.value) not in accepted
    }


def lost_without_uuid(state: FaultState, refused: Mapping[int, UnixTime], observation: Observation) -> Iterator[Fault]:
    standing = {fault.index: fault for fault in state.faults if not fault.uuid}
    codes = dict(observation.refused)
    for index, since in refused.items():
        if index in standing:
            yield standing[index]
        elif observation.time - since >= LOST_AFTER_SECONDS:
            yield Fault("", index, FaultKind.LOST, codes[index], _LOSSES.get(codes[index], RepairAction.RESTART), since)


RETURN_CONFIRM_SECONDS = 30.0
"""Seconds a GPU or its links must be back before that counts."""
_RESET_CONFIRMATIONS = 2
"""Observations in a row that must find a counter below its last recorded value: one strange reading proves nothing."""
_MAX_WATTS = 2000.0
"""A counter that began anew cannot have counted more than this since its last recorded value."""
_MIN_WATTS = 5.0
"""No GPU draws less for long."""
_ACTIONS = {
    "reset_gpu": RepairAction.RESET,
    "reset_when_idle": RepairAction.RESET_WHEN_IDLE,
    "restart_bm": RepairAction.RESTART,
    "workflow": RepairAction.PROCEDURE,
    "contact_support": RepairAction.VENDOR,
    "page": RepairAction.PAGE,
}
"""Repair for each class of XID. Other classes are of programs or tests, unknown, or need no repair."""
_FIXED_BY_RESET = frozenset({FaultKind.XID, FaultKind.ECC, FaultKind.PATTERN})
"""Faults that a reset ends, as it ends all with an XID as evidence. The others end when their evidence does."""


def advance_faults(state: FaultState, observation: Observation) -> FaultState:
    """The state after this observation."""
    return _advance_switches(_update_gpus(state, observation), observation)


def _update_gpus(state: FaultState, observation: Observation) -> FaultState:
    state = _apply_acknowledgements(_by_this_clock(state, observation), observation)
    if observation.boot and state.boot and observation.boot != state.boot:
        state = _after_restart(state, observation)
    state = replace(state, boot=observation.boot or state.boot)
    if not observation.driver:
        return state
    state, observation = identify_gpus(state, observation)
    devices, faults = dict(state.devices), _by_uuid(state.faults)
    starts, most = levels.shown_levels(observation), causes.most_programs(observation)
    for seen in observation.gpus:
        before = devices.get(seen.uuid) or _new_record(seen, observation.time)
        known = levels.with_start(before, seen, starts, observation.levels)
        known, kept = _update_gpu(known, faults.get(seen.uuid, ()), seen, observation.time)
        kept = (*kept, *causes.suspect_pattern(known, seen, kept, most, observation.time))
        counted = (fault for fault in kept if (fault.uuid, fault.kind.value) not in state.accepted)
        devices[seen.uuid] = levels.with_history(known, before, seen, observation.levels)
        faults[seen.uuid] = causes.one_for_each(tuple(counted))
    for uuid in devices.keys() - {seen.uuid for seen in observation.gpus}:
        if devices[uuid].expected and not is_occupied(devices[uuid].bus, observation):
            devices[uuid], faults[uuid] = _update_missing(uuid, devices[uuid], faults.get(uuid, ()), observation)
    accepted = _still_accepted(state.accepted, observation)
    refused = since_refused(state, devices, observation, accepted)
    unnamed = tuple(_of_unknown_gpus(state, devices, observation))
    explained = sum(fault.kind is FaultKind.LOST for fault in unnamed)
    without = () if explained >= len(refused) else lost_without_uuid(state, refused, observation)
    named = (fault for uuid, mine in faults.items() if uuid for fault in mine)
    return replace(state, devices=devices, faults=(*named, *unnamed, *without), accepted=accepted, refused=refused)


def _new_record(seen: ObservedGpu, now: UnixTime) -> GpuRecord:
    """Return the record of a GPU without a history: its energy counter shows that it was reset after some time."""
    began = EPOCH if seen.joules is None else UnixTime(max(0.0, float(now) - seen.joules / _MIN_WATTS))
    return GpuRecord(seen.index, last_reset=began)


def _by_uuid(faults: Iterable[Fault]) -> dict[str, tuple[Fault, ...]]:
    found: dict[str, tuple[Fault, ...]] = {}
    for fault in faults:
        found[fault.uuid] = (*found.get(fault.uuid, ()), fault)
    return found


def _unseen_gpu(uuid: str, index: int, bus: str, observation: Observation) -> ObservedGpu:
    """Return what is heard of a GPU that the driver does not show."""
    heard = observation.unclaimed.get(bus, {})
    xids = {xid: each.time for xid, each in heard.items()}
    classes = {xid: each.class_ for xid, each in heard.items()}
    return ObservedGpu(uuid, index, "", bus, up=False, xids=xids, xid_classes=classes)


def _update_missing(
    uuid: str, known: GpuRecord, faults: tuple[Fault, ...], observation: Observation
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Update a GPU that the driver does not show."""
    code = dict(observation.refused).get(known.index, "not shown by the driver")
    known, lost = _record_missing(uuid, known, observation.time, code, faults)
    seen = _unseen_gpu(uuid, known.index, known.bus, observation)
    return known, causes.one_for_each((*faults, *lost, *_new_xids(known, seen, faults)))


def _of_unknown_gpus(state: FaultState, devices: Mapping[str, GpuRecord], observation: Observation) -> Iterator[Fault]:
    """Yield the XIDs of GPUs that the driver never showed, by their bus id, until the driver shows a GPU there."""
    places = {known.bus for known in devices.values()}
    yield from (
        fault
        for fault in state.faults
        if not fault.uuid and fault.index < 0 and fault.evidence.rpartition(" ")[2] not in places
    )
    standing = {fault.evidence for fault in state.faults if not fault.uuid}
    for bus in observation.unclaimed:
        if bus not in places:
            seen = _unseen_gpu("", -1, bus, observation)
            for fault in _new_xids(GpuRecord(-1, last_reset=state.unnamed_last_reset), seen, ()):
                evidence = f"{fault.evidence} at {bus}"
                if evidence not in standing:
                    yield replace(fault, evidence=evidence)


def _update_gpu(
    known: GpuRecord, faults: tuple[Fault, ...], seen: ObservedGpu, now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """A GPU the driver shows: its last recorded values, and its faults."""
    place = (seen.index, seen.serial or known.serial, seen.bus or known.bus)
    expected = known.expected or bool(seen.up)
    if (known.index, known.serial, known.bus, known.expected) != (*place, expected):
        known = replace(known, index=place[0], serial=place[1], bus=place[2], expected=expected)
    # Indices change when a GPU is missing after a start: a fault that kept its old one would be another GPU's.
    ended = {f"{XID_EVIDENCE}{xid}" for xid, class_ in seen.xid_classes.items() if class_ == IGNORE}
    standing = tuple(replace(fault, index=seen.index) for fault in faults if fault.evidence not in ended)
    known, standing = _clear_after_logged_reset(known, standing, seen)
    xids = (*_new_xids(known, seen, standing),)
    if seen.up is None:
        return known, (*standing, *xids)
    if not seen.up:
        lost: tuple[Fault, ...] = ()
        if expected:
            known, lost = _record_missing(seen.uuid, known, now, seen.failure or "no answer", standing)
        return known, (*standing, *lost, *xids)
    standing = tuple(fault for fault in standing if fault.kind is not FaultKind.SLOW)
    if known.missing_since is not None:
        known = replace(known, missing_since=None)
    known, standing = _clear_after_reset(known, standing, seen, now)
    known, standing = _clear_after_return(known, standing, seen, now)
    new = (*_new_xids(known, seen, standing), *causes.memory_faults(known, seen, standing, now))
    known, faults = levels.below_best(known, seen, (*standing, *new), now)
    errors = causes.current_errors(known, seen)
    known = replace(
        known,
        joules=known.joules if known.reset_observations or seen.joules is None else seen.joules,
        uncorrected=known.uncorrected if known.reset_observations or errors is None else errors,
        baseline_time=known.baseline_time if known.reset_observations else now,
    )
    return known, faults


def _clear_after_reset(
    known: GpuRecord, faults: tuple[Fault, ...], seen: ObservedGpu, now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Clear the faults that a reset fixes, once enough observations in a row show restarted counters."""
    if not _counters_restarted(known, seen, now):
        return (replace(known, reset_observations=0) if known.reset_observations else known), faults
    if known.reset_observations + 1 < _RESET_CONFIRMATIONS:
        return replace(known, reset_observations=known.reset_observations + 1), faults
    cured = replace(known, reset_observations=0, joules=seen.joules, uncorrected=0.0, baseline_time=now, last_reset=now)
    return cured, tuple(fault for fault in faults if not _ends_by_reset(fault))


def _clear_after_logged_reset(
    known: GpuRecord, faults: tuple[Fault, ...], seen: ObservedGpu
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Clear the faults from before a reset that the kernel log shows."""
    if seen.reset <= known.last_reset:
        return known, faults
    cured = replace(known, reset_observations=0, joules=None, uncorrected=0.0, last_reset=seen.reset)
    return cured, tuple(fault for fault in faults if fault.since > seen.reset or not _ends_by_reset(fault))


def _ends_by_reset(fault: Fault) -> bool:
    return fault.kind in _FIXED_BY_RESET or fault.by_xid


def _counters_restarted(known: GpuRecord, seen: ObservedGpu, now: UnixTime) -> bool:
    if seen.uncorrected is not None and seen.uncorrected < known.uncorrected:
        return True
    if known.joules is None or seen.joules is None or seen.joules >= known.joules:
        return False
    return 0 <= seen.joules <= _MAX_WATTS * max(now - known.baseline_time, 1.0)


def _clear_after_return(
    known: GpuRecord, faults: tuple[Fault, ...], seen: ObservedGpu, now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Clear the faults of what was missing and has returned, when it stays."""
    back = levels.at_best(known, seen)
    missing = [fault for fault in faults if (fault.kind is FaultKind.LOST and not fault.by_xid) or fault.kind in back]
    flags = {FaultKind.REMAP: seen.remap_failed, FaultKind.SRAM: seen.sram_exceeded}
    faults = tuple(fault for fault in faults if flags.get(fault.kind) is not False)
    if not missing:
        waits = known.returned_at is None or levels.says_nothing(known, seen, faults)
        return (known if waits else replace(known, returned_at=None)), faults
    since = known.returned_at if known.returned_at is not None else now
    if now - since < RETURN_CONFIRM_SECONDS:
        return replace(known, returned_at=since), faults
    return replace(known, returned_at=None), tuple(fault for fault in faults if fault not in missing)


def _new_xids(known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault]) -> Iterator[Fault]:
    """Latch new XIDs, but for contained errors of a GPU that counts them. One off the bus is lost: the same event."""
    standing, counts = {fault.evidence for fault in faults}, seen.uncorrected is not None
    for xid, time in sorted(seen.xids.items()):
        action, evidence = _ACTIONS.get(seen.xid_classes.get(xid) or class_of(xid)), f"{XID_EVIDENCE}{xid}"
        if action and not (xid == causes.CONTAINED and counts) and time > known.last_reset and evidence not in standing:
            kind = FaultKind.LOST if xid == FALLEN_OFF else FaultKind.XID
            yield Fault(seen.uuid, seen.index, kind, evidence, action, time)


def _record_missing(
    uuid: str, known: GpuRecord, now: UnixTime, why: str, standing: Iterable[Fault] = ()
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Note since when a GPU is away; return the fault that this is, unless it stands. Late is not lost."""
    since = known.missing_since if known.missing_since is not None else now
    known = replace(known, missing_since=since, returned_at=None)
    late = why in (LATE, SILENT)
    kinds = {fault.kind for fault in standing}
    if now - since >= (_LATE_LOST_SECONDS if late else LOST_AFTER_SECONDS):
        lost = Fault(uuid, known.index, FaultKind.LOST, why, _LOSSES.get(why, RepairAction.RESTART), since)
        return known, () if FaultKind.LOST in kinds else (lost,)
    slow = Fault(uuid, known.index, FaultKind.SLOW, "late answers", RepairAction.INSPECT, since)
    return known, (slow,) if late and not kinds & {FaultKind.LOST, FaultKind.SLOW} else ()


_TIMES = ("last_reset", "last_boot", "baseline_time", "missing_since", "returned_at")


def _by_this_clock(state: FaultState, observation: Observation) -> FaultState:
    """Move all times by what the clock was set by; those after now, to now: nothing would count until then."""
    step = clock_step(state.booted, observation.booted) if observation.boot == state.boot else 0.0

    def at(time: UnixTime) -> UnixTime:
        return min(max(time + step, EPOCH), observation.time) if time > EPOCH else time

    def record(known: GpuRecord) -> GpuRecord:
        times = ((name, getattr(known, name)) for name in _TIMES)
        moved: dict[str, Any] = {name: at(time) for name, time in times if time is not None}
        return replace(known, **moved)

    return replace(
        state,
        devices={uuid: record(known) for uuid, known in state.devices.items()},
        faults=tuple(replace(fault, since=at(fault.since)) for fault in state.faults),
        switches=tuple(replace(fault, since=at(fault.since)) for fault in state.switches),
        switches_last_reset=at(state.switches_last_reset),
        unnamed_last_reset=at(state.unnamed_last_reset),
        refused={index: at(since) for index, since in state.refused.items()},
        unconfirmed={uuid: at(since) for uuid, since in state.unconfirmed.items()},
        booted=observation.booted,
    )


def _after_restart(state: FaultState, observation: Observation) -> FaultState:
    """The node has started anew: every driver counter too."""
    devices = {
        uuid: replace(
            known,
            joules=None,
            uncorrected=0.0,
            reset_observations=0,
            baseline_time=observation.time,
            last_reset=observation.time,
            last_boot=observation.time,
            missing_since=None,
        )
        for uuid, known in state.devices.items()
    }
    faults = tuple(fault for fault in state.faults if not _ends_by_reset(fault))
    state = replace(state, devices=devices, faults=faults, unnamed_last_reset=observation.time)
    return _clear_switches(state, observation.time)


def _apply_acknowledgements(state: FaultState, observation: Observation) -> FaultState:
    for given in sorted(observation.acknowledgements, key=lambda each: each.time):
        if given.time > state.acknowledged_until:
            acknowledgement = replace(given, time=min(given.time, observation.time))
            if any(not fault.uuid and fault.by_xid and acknowledgement.covers(fault) for fault in state.faults):
                state = replace(state, unnamed_last_reset=acknowledgement.time)
            state = _without_acknowledged(state, acknowledgement)
            if any(acknowledgement.covers_switch(fault) for fault in state.switches):
                state = _clear_switches(state, acknowledgement.time)
            state = replace(state, acknowledged_until=given.time)
    return state


def _without_acknowledged(state: FaultState, acknowledgement: Acknowledgement) -> FaultState:
    meant = [fault for fault in state.faults if acknowledgement.covers(fault)]
    devices = {
        uuid: _apply_acknowledgement(known, [f.kind for f in meant if f.uuid == uuid], acknowledgement)
        for uuid, known in state.devices.items()
    }
    levels = {(f.uuid, f.kind.value) for f in meant if f.kind in (FaultKind.REMAP, FaultKind.SRAM)}
    levels |= {(str(f.index), f.kind.value) for f in meant if f.kind is FaultKind.LOST}
    faults = tuple(fault for fault in state.faults if fault not in meant)
    return replace(state, devices=devices, faults=faults, accepted=state.accepted | levels)


def _apply_acknowledgement(known: GpuRecord, kinds: Sequence[FaultKind], acknowledgement: Acknowledgement) -> GpuRecord:
    """Forget what happened to this GPU before somebody acknowledged these faults as fixed."""
    if not kinds:
        return known
    known = replace(
        known,
        last_reset=max(known.last_reset, acknowledgement.time),
        links=-1 if FaultKind.NVLINK in kinds else known.links,
        width=-1 if FaultKind.PCIE_WIDTH in kinds else known.width,
        generation=-1 if FaultKind.PCIE_GENERATION in kinds else known.generation,
    )
    return replace(known, expected=False, missing_since=None, returned_at=None) if FaultKind.LOST in kinds else known


def _still_accepted(accepted: frozenset[tuple[str, str]], observation: Observation) -> frozenset[tuple[str, str]]:
    """An accepted fault that ended by itself counts when it comes again."""
    over = {
        (seen.uuid, kind.value)
        for seen in observation.gpus
        for kind, flag in ((FaultKind.REMAP, seen.remap_failed), (FaultKind.SRAM, seen.sram_exceeded))
        if flag is False
    }
    refused = {str(index) for index, _ in observation.refused}
    over |= {(index, kind) for index, kind in accepted if kind == FaultKind.LOST.value and index not in refused}
    return accepted - over


_TOGETHER_SECONDS = 600.0
"""Seconds within which all GPUs are reset where it is one reset, and not each by itself for a reason of its own."""


def _advance_switches(state: FaultState, observation: Observation) -> FaultState:
    """`state`, whose GPUs are as this observation left them, with the faults of the switches as they are now."""
    reset = _last_common_reset(state.devices, observation)
    if reset is not None and any(fault.since <= reset for fault in state.switches):
        state = _clear_switches(state, reset)
    standing = {(fault.switch, fault.sxid) for fault in state.switches}
    new = (
        SwitchFault(switch, sxid, time)
        for (switch, sxid), time in sorted(observation.sxids.items())
        if time > state.switches_last_reset and (switch, sxid) not in standing
    )
    return replace(state, switches=(*state.switches, *new))


def _clear_switches(state: FaultState, time: UnixTime) -> FaultState:
    """Clear what the switches reported until then."""
    left = tuple(fault for fault in state.switches if fault.since > time)
    return replace(state, switches=left, switches_last_reset=max(state.switches_last_reset, time))


def _last_common_reset(devices: Mapping[str, GpuRecord], observation: Observation) -> UnixTime | None:
    """Return when all GPUs there should be were last reset together, or reloaded; None where they never were.

    A switch has no counters by which its reset could be seen: it is reset with all GPUs of the node, and they have.
    """
    known = [devices[seen.uuid] for seen in observation.gpus if seen.uuid in devices]
    resets = [each.last_reset for each in known if each.expected]
    if not observation.driver or not resets or max(resets) - min(resets) > _TOGETHER_SECONDS:
        return None
    return min(resets)
