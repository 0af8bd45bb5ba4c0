"""From the state of one observation to that of the next: faults are latched on evidence, and end on proof. Pure.

A fault ends when its GPU was reset, its driver reloaded or its node restarted (the driver's own counters began anew, or
the boot id changed), when the GPU was replaced, when what was missing is back, or when somebody acknowledges it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.collectors.xid_catalogue import FALLEN_OFF, IGNORE, class_of
from exporter.core.clock import EPOCH, UnixTime
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


def since_refused(
    state: FaultState, devices: Mapping[str, GpuRecord], observation: Observation, accepted: frozenset[tuple[str, str]]
) -> Mapping[int, UnixTime]:
    """Return since when each index gives no handle, without those of GPUs that are known by UUID, and do not answer."""
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
            yield Fault("", index, FaultKind.LOST, codes[index], RepairAction.RESTART, since)


RETURN_CONFIRM_SECONDS = 30.0
"""Seconds a GPU or its links must be back before that counts."""
_RESET_CONFIRMATIONS = 2
"""Looks in a row that must find a counter below its mark: one strange reading proves nothing."""
_MAX_WATTS = 2000.0
"""A counter that began anew cannot have counted more than this since its mark."""
_SAME_EVENT_SECONDS = 120.0
"""Seconds within which an XID and an ECC error are one event."""
_CONTAINED, _UNCONTAINED = 94, (48, 95)
_ACTIONS = {
    "reset_gpu": RepairAction.RESET,
    "reset_when_idle": RepairAction.RESET_WHEN_IDLE,
    "restart_bm": RepairAction.RESTART,
    "workflow": RepairAction.PROCEDURE,
    "contact_support": RepairAction.VENDOR,
    "page": RepairAction.PAGE,
}
"""By class of the XID; the other classes are of programs or tests, are not known, or ask for nothing."""
_FIXED_BY_RESET = frozenset({FaultKind.XID, FaultKind.ECC})
"""Faults that a reset ends, as it ends all with an XID as evidence. The others end when their evidence does."""


def advance(state: FaultState, observation: Observation) -> FaultState:
    """The state after this observation."""
    return _advance_switches(_update_gpus(state, observation), observation)


def _update_gpus(state: FaultState, observation: Observation) -> FaultState:
    state = _clamp_future_times(_acknowledged(state, observation), observation.time)
    if observation.boot and state.boot and observation.boot != state.boot:
        state = _restarted(state, observation)
    state = replace(state, boot=observation.boot or state.boot)
    if not observation.driver:
        return state
    state, observation = _identify(state, observation)
    devices, faults = dict(state.devices), {(f.uuid, f.index, f.kind, f.evidence): f for f in state.faults}
    for seen in observation.gpus:
        known = devices.get(seen.uuid, GpuRecord(seen.index))
        mine = [fault for fault in faults.values() if fault.uuid == seen.uuid]
        known, kept = _update_gpu(known, mine, seen, observation.time)
        kept = _with_one_loss(kept)
        devices[seen.uuid] = known
        for fault in mine:
            del faults[fault.uuid, fault.index, fault.kind, fault.evidence]
        faults |= {
            (f.uuid, f.index, f.kind, f.evidence): f for f in kept if (f.uuid, f.kind.value) not in state.accepted
        }
    for uuid in devices.keys() - {seen.uuid for seen in observation.gpus}:
        if not devices[uuid].expected or _is_occupied(devices[uuid].bus, observation):
            continue
        code = dict(observation.refused).get(devices[uuid].index, "not shown by the driver")
        devices[uuid], lost = _record_missing(uuid, devices[uuid], observation.time, code)
        if lost and not _has_fault(faults.values(), uuid, FaultKind.LOST):
            faults[uuid, lost.index, lost.kind, lost.evidence] = lost
    accepted = _still_accepted(state.accepted, observation)
    refused = since_refused(state, devices, observation, accepted)
    standing = (*(fault for fault in faults.values() if fault.uuid), *lost_without_uuid(state, refused, observation))
    return replace(state, devices=devices, faults=standing, accepted=accepted, refused=refused)


def _with_one_loss(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Keep one loss of a GPU: the one with an XID, which only a proven reset ends."""
    if not any(fault.kind is FaultKind.LOST and fault.by_xid for fault in faults):
        return faults
    return tuple(fault for fault in faults if fault.kind is not FaultKind.LOST or fault.by_xid)


def _update_gpu(
    known: GpuRecord, faults: Iterable[Fault], seen: ObservedGpu, now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """A GPU the driver shows: its marks, and the faults that stand."""
    place = (seen.index, seen.serial or known.serial, seen.bus or known.bus)
    expected = known.expected or bool(seen.up)
    if (known.index, known.serial, known.bus, known.expected) != (*place, expected):
        known = replace(known, index=place[0], serial=place[1], bus=place[2], expected=expected)
    # Indices change when a GPU is missing after a start: a fault that kept its old one would be another GPU's.
    ended = {f"{XID_EVIDENCE}{xid}" for xid, class_ in seen.xid_classes.items() if class_ == IGNORE}
    standing = tuple(replace(fault, index=seen.index) for fault in faults if fault.evidence not in ended)
    if seen.up is None:
        return known, (*standing, *_new_xids(known, seen, standing))
    if not seen.up:
        lost = None
        if expected:
            known, lost = _record_missing(seen.uuid, known, now, seen.failure or "no answer")
        if lost and not _has_fault(standing, seen.uuid, FaultKind.LOST):
            standing += (lost,)
        return known, (*standing, *_new_xids(known, seen, standing))
    if known.missing_since is not None:
        known = replace(known, missing_since=None)
    known, standing = _clear_after_reset(known, standing, seen, now)
    known, standing = _clear_after_return(known, standing, seen, now)
    found = (
        *_new_xids(known, seen, standing),
        *_memory(known, seen, standing, now),
        *_links(known, seen, standing, now),
    )
    known = replace(
        known,
        links=max(known.links, seen.links or 0),
        joules=known.joules if known.reset_observations or seen.joules is None else seen.joules,
        uncorrected=known.uncorrected if known.reset_observations or seen.uncorrected is None else seen.uncorrected,
        baseline_time=known.baseline_time if known.reset_observations else now,
    )
    return known, (*standing, *found)


def _clear_after_reset(
    known: GpuRecord, faults: tuple[Fault, ...], seen: ObservedGpu, now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Whether the driver's counters of this GPU began anew: proof of a reset or a reload of the driver."""
    if not _counters_restarted(known, seen, now):
        return (replace(known, reset_observations=0) if known.reset_observations else known), faults
    if known.reset_observations + 1 < _RESET_CONFIRMATIONS:
        return replace(known, reset_observations=known.reset_observations + 1), faults
    cured = replace(known, reset_observations=0, joules=seen.joules, uncorrected=0.0, baseline_time=now, last_reset=now)
    return cured, tuple(fault for fault in faults if not _ends_by_reset(fault))


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
    """What was missing and is there again ends, when it stays."""
    whole = seen.links is None or seen.links >= known.links
    missing = [
        f for f in faults if (f.kind is FaultKind.LOST and not f.by_xid) or (f.kind is FaultKind.NVLINK and whole)
    ]
    flags = {FaultKind.REMAP: seen.remap_failed, FaultKind.SRAM: seen.sram_exceeded}
    faults = tuple(fault for fault in faults if flags.get(fault.kind) is not False)
    if not missing:
        return (known if known.returned_at is None else replace(known, returned_at=None)), faults
    since = known.returned_at if known.returned_at is not None else now
    if now - since < RETURN_CONFIRM_SECONDS:
        return replace(known, returned_at=since), faults
    return replace(known, returned_at=None), tuple(fault for fault in faults if fault not in missing)


def _new_xids(known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault]) -> Iterator[Fault]:
    """Latch new XIDs, but for contained errors of a GPU that counts them. One off the bus is lost: the same event."""
    standing, counts = {fault.evidence for fault in faults}, seen.uncorrected is not None
    for xid, time in sorted(seen.xids.items()):
        action, evidence = _ACTIONS.get(seen.xid_classes.get(xid) or class_of(xid)), f"{XID_EVIDENCE}{xid}"
        if action and not (xid == _CONTAINED and counts) and time > known.last_reset and evidence not in standing:
            kind = FaultKind.LOST if xid == FALLEN_OFF else FaultKind.XID
            yield Fault(seen.uuid, seen.index, kind, evidence, action, time)


def _memory(known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime) -> Iterator[Fault]:
    here = {fault.kind for fault in faults}
    if not known.reset_observations and (seen.uncorrected or 0.0) > known.uncorrected and FaultKind.ECC not in here:
        count = f"{(seen.uncorrected or 0.0) - known.uncorrected:g} uncorrectable error(s)"
        contained = _recent(seen, now, (_CONTAINED,)) and not _recent(seen, now, _UNCONTAINED)
        action = RepairAction.RESET_WHEN_IDLE if contained else RepairAction.RESET
        yield Fault(seen.uuid, seen.index, FaultKind.ECC, count + (", contained" if contained else ""), action, now)
    if seen.remap_failed and FaultKind.REMAP not in here:
        yield Fault(seen.uuid, seen.index, FaultKind.REMAP, "no spare rows", RepairAction.REPLACE, now)
    if seen.sram_exceeded and FaultKind.SRAM not in here:
        yield Fault(seen.uuid, seen.index, FaultKind.SRAM, "over NVIDIA's threshold", RepairAction.REPLACE, now)


def _recent(seen: ObservedGpu, now: UnixTime, xids: Iterable[int]) -> bool:
    return any(now - seen.xids.get(xid, EPOCH) <= _SAME_EVENT_SECONDS for xid in xids)


def _links(known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime) -> Iterator[Fault]:
    """Links that never were up (no bridge) are no fault: fewer than this GPU has had."""
    if seen.links is not None and seen.links < known.links and not _has_fault(faults, seen.uuid, FaultKind.NVLINK):
        evidence = f"{known.links - seen.links} of {known.links} links down"
        yield Fault(seen.uuid, seen.index, FaultKind.NVLINK, evidence, RepairAction.INSPECT, now)


def _record_missing(uuid: str, known: GpuRecord, now: UnixTime, why: str) -> tuple[GpuRecord, Fault | None]:
    since = known.missing_since if known.missing_since is not None else now
    known = replace(known, missing_since=since, returned_at=None)
    lost = (
        Fault(uuid, known.index, FaultKind.LOST, why, RepairAction.RESTART, since)
        if now - since >= LOST_AFTER_SECONDS
        else None
    )
    return known, lost


IDENTITY_SECONDS = 10.0
"""Seconds a new UUID must be shown before its absence is a fault: a driver answers garbage for a moment."""


def _identify(state: FaultState, observation: Observation) -> tuple[FaultState, Observation]:
    """Return state and observation with one record for each GPU, whatever UUIDs the driver gave it."""
    shown = {seen.uuid: seen for seen in observation.gpus if seen.present and seen.uuid}
    first_seen = {**dict.fromkeys(shown.keys() - state.devices.keys(), observation.time), **state.unconfirmed}
    state = _without_ghosts(state, first_seen.keys() - shown.keys())
    unconfirmed = {
        uuid: since
        for uuid, since in first_seen.items()
        if uuid in shown and observation.time - since < IDENTITY_SECONDS
    }
    all_new = bool(shown) and shown.keys() == first_seen.keys() - unconfirmed.keys()
    state = _replaced(replace(state, unconfirmed=unconfirmed), shown, all_new=all_new)
    kept = tuple(seen for seen in observation.gpus if seen.uuid in shown or seen.uuid in state.devices)
    observation = replace(observation, gpus=kept)
    there = tuple(seen for seen in kept if seen.present or not _is_occupied(seen.bus, observation))
    return state, replace(observation, gpus=there)


def _is_occupied(bus: str, observation: Observation) -> bool:
    """Return whether the driver shows a GPU at this bus address."""
    return bus != "" and any(seen.present and seen.bus == bus for seen in observation.gpus)


def _without_ghosts(state: FaultState, ghosts: Collection[str]) -> FaultState:
    """Forget UUIDs that went before they were confirmed. Their XIDs are of the GPU at the same bus address."""
    if not ghosts:
        return state
    devices = {uuid: known for uuid, known in state.devices.items() if uuid not in ghosts}
    by_bus = {known.bus: (uuid, known.index) for uuid, known in devices.items() if known.bus}
    found = {(fault.uuid, fault.evidence) for fault in state.faults}
    faults: list[Fault] = []
    for fault in state.faults:
        if fault.uuid not in ghosts:
            faults.append(fault)
        elif fault.by_xid:
            uuid, index = by_bus.get(state.devices[fault.uuid].bus, (fault.uuid, fault.index))
            if uuid == fault.uuid or (uuid, fault.evidence) not in found:
                faults.append(replace(fault, uuid=uuid, index=index))
    return replace(state, devices=devices, faults=tuple(faults))


def _replaced(state: FaultState, shown: Mapping[str, ObservedGpu], *, all_new: bool) -> FaultState:
    """Give the record of a UUID that is not shown to the confirmed one at its bus address, or end it.

    It is another card if their serial numbers differ, or if the old one never answered since the node was restarted.
    `all_new`: all that are shown are confirmed just now. Then this is another node, and no known GPU is left.
    """
    confirmed = {uuid: seen for uuid, seen in shown.items() if uuid not in state.unconfirmed}
    by_bus = {seen.bus: seen for seen in confirmed.values() if seen.bus}
    away = {uuid: known for uuid, known in state.devices.items() if uuid not in shown}
    renamed = {
        uuid: by_bus[known.bus].uuid
        for uuid, known in away.items()
        if known.bus in by_bus and _is_same_card(known, by_bus[known.bus])
    }
    gone = {uuid for uuid, known in away.items() if all_new or known.bus in by_bus} - renamed.keys()
    devices = {uuid: known for uuid, known in state.devices.items() if uuid not in gone and uuid not in renamed}
    devices |= {new: state.devices[old] for old, new in renamed.items()}
    faults = tuple(
        replace(fault, uuid=renamed.get(fault.uuid, fault.uuid)) for fault in state.faults if fault.uuid not in gone
    )
    return replace(state, devices=devices, faults=tuple(dict.fromkeys(faults)))


def _is_same_card(known: GpuRecord, seen: ObservedGpu) -> bool:
    if known.serial and seen.serial:
        return known.serial == seen.serial
    return known.baseline_time > known.last_reset


def _clamp_future_times(state: FaultState, now: UnixTime) -> FaultState:
    """Move times after `now` back to it: where a clock was set back, nothing would count until they have come."""
    devices = {
        uuid: replace(
            known,
            last_reset=min(known.last_reset, now),
            baseline_time=min(known.baseline_time, now),
            missing_since=None if known.missing_since is None else min(known.missing_since, now),
            returned_at=None if known.returned_at is None else min(known.returned_at, now),
        )
        for uuid, known in state.devices.items()
    }
    return replace(state, devices=devices)


def _restarted(state: FaultState, observation: Observation) -> FaultState:
    """The node has started anew: every driver counter too."""
    devices = {
        uuid: replace(
            known,
            joules=None,
            uncorrected=0.0,
            reset_observations=0,
            baseline_time=observation.time,
            last_reset=observation.time,
            missing_since=None,
        )
        for uuid, known in state.devices.items()
    }
    faults = tuple(fault for fault in state.faults if not _ends_by_reset(fault))
    return _clear_switches(replace(state, devices=devices, faults=faults), observation.time)


def _acknowledged(state: FaultState, observation: Observation) -> FaultState:
    for acknowledgement in sorted(observation.acknowledgements, key=lambda each: each.time):
        if acknowledgement.time > state.acknowledged_until:
            state = _without_acknowledged(state, acknowledgement)
            if any(acknowledgement.covers_switch(fault) for fault in state.switches):
                state = _clear_switches(state, acknowledgement.time)
            state = replace(state, acknowledged_until=acknowledgement.time)
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
    """What happened to this GPU before somebody called these faults mended does not count any more."""
    if not kinds:
        return known
    known = replace(
        known,
        last_reset=max(known.last_reset, acknowledgement.time),
        links=0 if FaultKind.NVLINK in kinds else known.links,
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


def _has_fault(faults: Iterable[Fault], uuid: str, kind: FaultKind) -> bool:
    return any(fault.uuid == uuid and fault.kind is kind for fault in faults)


_TOGETHER = 600.0
"""Seconds within which all GPUs are reset where it is one reset, and not each by itself for a reason of its own."""


def _advance_switches(state: FaultState, observation: Observation) -> FaultState:
    """`state`, whose GPUs are as this observation left them, with the faults of the switches as they are now."""
    state = replace(state, switches_last_reset=min(state.switches_last_reset, observation.time))
    reset = _reset(state.devices, observation)
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
    """Without what the switches reported until then."""
    left = tuple(fault for fault in state.switches if fault.since > time)
    return replace(state, switches=left, switches_last_reset=max(state.switches_last_reset, time))


def _reset(devices: Mapping[str, GpuRecord], observation: Observation) -> UnixTime | None:
    """When all GPUs there should be had last been reset together, or reloaded; None where they never were.

    A switch has no counters by which its reset could be told: it is reset with all GPUs of the node, and they have.
    """
    known = [devices[seen.uuid] for seen in observation.gpus if seen.uuid in devices]
    resets = [each.last_reset for each in known if each.expected]
    if not observation.driver or not resets or max(resets) - min(resets) > _TOGETHER:
        return None
    return min(resets)
