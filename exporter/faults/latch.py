"""From the state of one observation to that of the next: faults are latched on evidence, and end on proof. Pure.

A fault ends when its GPU was reset, its driver reloaded or its node restarted (the driver's own counters began anew, or
the boot id changed), when the GPU was replaced, when what was missing is back, or when somebody acknowledges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.collectors.xid import class_of
from exporter.core.clock import EPOCH, UnixTime
from exporter.faults.model import (
    XID_EVIDENCE,
    Acknowledgement,
    Action,
    Fault,
    FaultState,
    Kind,
    KnownGpu,
    Observation,
    ObservedGpu,
    SwitchFault,
)

GRACE = 10.0
"""Seconds without an answer before a GPU is lost: a reset takes a few."""


def since_refused(
    state: FaultState, devices: Mapping[str, KnownGpu], observation: Observation, accepted: frozenset[tuple[str, str]]
) -> Mapping[int, UnixTime]:
    """Return since when each index gives no handle, without those of GPUs that are known by UUID, and do not answer."""
    answering = {seen.uuid for seen in observation.gpus if seen.up}
    known = {known.index for uuid, known in devices.items() if uuid not in answering and known.expected}
    return {
        index: state.refused.get(index, observation.time)
        for index, _ in observation.refused
        if index not in known and (str(index), Kind.LOST.value) not in accepted
    }


def lost_without_uuid(state: FaultState, refused: Mapping[int, UnixTime], observation: Observation) -> Iterator[Fault]:
    standing = {fault.index: fault for fault in state.faults if not fault.uuid}
    codes = dict(observation.refused)
    for index, since in refused.items():
        if index in standing:
            yield standing[index]
        elif observation.time - since >= GRACE:
            yield Fault("", index, Kind.LOST, codes[index], Action.RESTART, since)


def once_lost(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Keep one loss of a GPU: the one with an XID, which only a proven reset ends."""
    if not any(fault.kind is Kind.LOST and fault.by_xid for fault in faults):
        return faults
    return tuple(fault for fault in faults if fault.kind is not Kind.LOST or fault.by_xid)


STEADY = 30.0
"""Seconds a GPU or its links must be back before that counts."""
_LOOKS = 2
"""Looks in a row that must find a counter below its mark: one strange reading proves nothing."""
_MAX_WATTS = 2000.0
"""A counter that began anew cannot have counted more than this since its mark."""
_NEAR = 120.0
"""Seconds within which an XID and an ECC error are one event."""
_CONTAINED, _UNCONTAINED = 94, (48, 95)
_AFTER_KILL = 45
"""The driver clearing up after a program that was killed: it comes with every cancelled job."""
_ACTIONS = {
    "reset_gpu": Action.RESET,
    "restart_bm": Action.RESTART,
    "workflow": Action.PROCEDURE,
    "contact_support": Action.VENDOR,
    "unknown": Action.INSPECT,
}
"""By class of the XID; the other classes are of programs, or ask for nothing."""
_BY_RESET = frozenset({Kind.XID, Kind.ECC})
"""Faults that a reset ends, as it ends all with an XID as evidence. The others end when their evidence does."""


def advance(state: FaultState, observation: Observation) -> FaultState:
    """The state after this observation."""
    return advance_switches(_of_gpus(state, observation), observation)


def _of_gpus(state: FaultState, observation: Observation) -> FaultState:
    state = _clamp_future_times(_acknowledged(state, observation), observation.time)
    if observation.boot and state.boot and observation.boot != state.boot:
        state = _restarted(state, observation)
    state = replace(state, boot=observation.boot or state.boot)
    if not observation.driver:
        return state
    state = _replaced(state, observation.gpus)
    devices, faults = dict(state.devices), {(f.uuid, f.index, f.kind, f.evidence): f for f in state.faults}
    for seen in observation.gpus:
        known = devices.get(seen.uuid, KnownGpu(seen.index))
        mine = [fault for fault in faults.values() if fault.uuid == seen.uuid]
        known, kept = _one(known, mine, seen, observation.time)
        kept = once_lost(kept)
        devices[seen.uuid] = known
        for fault in mine:
            del faults[fault.uuid, fault.index, fault.kind, fault.evidence]
        faults |= {
            (f.uuid, f.index, f.kind, f.evidence): f for f in kept if (f.uuid, f.kind.value) not in state.accepted
        }
    for uuid in devices.keys() - {seen.uuid for seen in observation.gpus}:
        if not devices[uuid].expected:
            continue
        code = dict(observation.refused).get(devices[uuid].index, "not shown by the driver")
        devices[uuid], lost = _away(uuid, devices[uuid], observation.time, code)
        if lost and not _stands(faults.values(), uuid, Kind.LOST):
            faults[uuid, lost.index, lost.kind, lost.evidence] = lost
    accepted = _still_accepted(state.accepted, observation)
    refused = since_refused(state, devices, observation, accepted)
    standing = (*(fault for fault in faults.values() if fault.uuid), *lost_without_uuid(state, refused, observation))
    return replace(state, devices=devices, faults=standing, accepted=accepted, refused=refused)


def _one(
    known: KnownGpu, faults: Iterable[Fault], seen: ObservedGpu, now: UnixTime
) -> tuple[KnownGpu, tuple[Fault, ...]]:
    """A GPU the driver shows: its marks, and the faults that stand."""
    place = (seen.index, seen.serial or known.serial, seen.bus or known.bus)
    expected = known.expected or bool(seen.up)
    if (known.index, known.serial, known.bus, known.expected) != (*place, expected):
        known = replace(known, index=place[0], serial=place[1], bus=place[2], expected=expected)
    # Indices change when a GPU is missing after a start: a fault that kept its old one would be another GPU's.
    standing = tuple(fault if fault.index == seen.index else replace(fault, index=seen.index) for fault in faults)
    if seen.up is None:
        return known, (*standing, *_new_xids(known, seen, standing))
    if not seen.up:
        lost = None
        if expected:
            known, lost = _away(seen.uuid, known, now, seen.failure or "no answer")
        if lost and not _stands(standing, seen.uuid, Kind.LOST):
            standing += (lost,)
        return known, (*standing, *_new_xids(known, seen, standing))
    if known.away is not None:
        known = replace(known, away=None)
    known, standing = _cures(known, standing, seen, now)
    known, standing = _back(known, standing, seen, now)
    found = (
        *_new_xids(known, seen, standing),
        *_memory(known, seen, standing, now),
        *_links(known, seen, standing, now),
    )
    known = replace(
        known,
        links=max(known.links, seen.links or 0),
        joules=known.joules if known.low or seen.joules is None else seen.joules,
        uncorrected=known.uncorrected if known.low or seen.uncorrected is None else seen.uncorrected,
        marked=known.marked if known.low else now,
    )
    return known, (*standing, *found)


def _cures(
    known: KnownGpu, faults: tuple[Fault, ...], seen: ObservedGpu, now: UnixTime
) -> tuple[KnownGpu, tuple[Fault, ...]]:
    """Whether the driver's counters of this GPU began anew: proof of a reset or a reload of the driver."""
    if not _anew(known, seen, now):
        return (replace(known, low=0) if known.low else known), faults
    if known.low + 1 < _LOOKS:
        return replace(known, low=known.low + 1), faults
    cured = replace(known, low=0, joules=seen.joules, uncorrected=0.0, marked=now, cured=now)
    return cured, tuple(fault for fault in faults if not _ends_by_reset(fault))


def _ends_by_reset(fault: Fault) -> bool:
    return fault.kind in _BY_RESET or fault.by_xid


def _anew(known: KnownGpu, seen: ObservedGpu, now: UnixTime) -> bool:
    if seen.uncorrected is not None and seen.uncorrected < known.uncorrected:
        return True
    if known.joules is None or seen.joules is None or seen.joules >= known.joules:
        return False
    return 0 <= seen.joules <= _MAX_WATTS * max(now - known.marked, 1.0)


def _back(
    known: KnownGpu, faults: tuple[Fault, ...], seen: ObservedGpu, now: UnixTime
) -> tuple[KnownGpu, tuple[Fault, ...]]:
    """What was missing and is there again ends, when it stays."""
    whole = seen.links is None or seen.links >= known.links
    missing = [f for f in faults if (f.kind is Kind.LOST and not f.by_xid) or (f.kind is Kind.NVLINK and whole)]
    flags = {Kind.REMAP: seen.remap_failed, Kind.SRAM: seen.sram_exceeded}
    faults = tuple(fault for fault in faults if flags.get(fault.kind) is not False)
    if not missing:
        return (known if known.back is None else replace(known, back=None)), faults
    since = known.back if known.back is not None else now
    if now - since < STEADY:
        return replace(known, back=since), faults
    return replace(known, back=None), tuple(fault for fault in faults if fault not in missing)


def _new_xids(known: KnownGpu, seen: ObservedGpu, faults: Iterable[Fault]) -> Iterator[Fault]:
    """Latch new XIDs. One that demands a restart says that the GPU is lost: it is the same event."""
    standing = {fault.evidence for fault in faults}
    for xid, time in sorted(seen.xids.items()):
        action, evidence = _ACTIONS.get(class_of(xid)), f"{XID_EVIDENCE}{xid}"
        if action and xid != _AFTER_KILL and time > known.cured and evidence not in standing:
            kind = Kind.LOST if action is Action.RESTART else Kind.XID
            yield Fault(seen.uuid, seen.index, kind, evidence, action, time)


def _memory(known: KnownGpu, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime) -> Iterator[Fault]:
    here = {fault.kind for fault in faults}
    if not known.low and (seen.uncorrected or 0.0) > known.uncorrected and Kind.ECC not in here:
        count = f"{(seen.uncorrected or 0.0) - known.uncorrected:g} uncorrectable error(s)"
        contained = _recent(seen, now, (_CONTAINED,)) and not _recent(seen, now, _UNCONTAINED)
        action = Action.RESET_WHEN_IDLE if contained else Action.RESET
        yield Fault(seen.uuid, seen.index, Kind.ECC, count + (", contained" if contained else ""), action, now)
    if seen.remap_failed and Kind.REMAP not in here:
        yield Fault(seen.uuid, seen.index, Kind.REMAP, "no spare rows", Action.REPLACE, now)
    if seen.sram_exceeded and Kind.SRAM not in here:
        yield Fault(seen.uuid, seen.index, Kind.SRAM, "over NVIDIA's threshold", Action.REPLACE, now)


def _recent(seen: ObservedGpu, now: UnixTime, xids: Iterable[int]) -> bool:
    return any(now - seen.xids.get(xid, EPOCH) <= _NEAR for xid in xids)


def _links(known: KnownGpu, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime) -> Iterator[Fault]:
    """Links that never were up (no bridge) are no fault: fewer than this GPU has had."""
    if seen.links is not None and seen.links < known.links and not _stands(faults, seen.uuid, Kind.NVLINK):
        evidence = f"{known.links - seen.links} of {known.links} links down"
        yield Fault(seen.uuid, seen.index, Kind.NVLINK, evidence, Action.INSPECT, now)


def _away(uuid: str, known: KnownGpu, now: UnixTime, why: str) -> tuple[KnownGpu, Fault | None]:
    since = known.away if known.away is not None else now
    known = replace(known, away=since, back=None)
    lost = Fault(uuid, known.index, Kind.LOST, why, Action.RESTART, since) if now - since >= GRACE else None
    return known, lost


def _replaced(state: FaultState, gpus: Iterable[ObservedGpu]) -> FaultState:
    """A card with another UUID at the bus address of a known one has taken its place."""
    shown = {seen.uuid: seen for seen in gpus}
    places = {seen.bus for seen in gpus if seen.bus}
    gone = {uuid for uuid, known in state.devices.items() if uuid not in shown and known.bus in places}
    moved = bool(shown) and bool(state.devices) and not shown.keys() & state.devices.keys()
    if moved:
        gone = set(state.devices)
    devices = {uuid: known for uuid, known in state.devices.items() if uuid not in gone}
    return replace(state, devices=devices, faults=tuple(fault for fault in state.faults if fault.uuid not in gone))


def _clamp_future_times(state: FaultState, now: UnixTime) -> FaultState:
    """Move times after `now` back to it: where a clock was set back, nothing would count until they have come."""
    devices = {
        uuid: replace(
            known,
            cured=min(known.cured, now),
            marked=min(known.marked, now),
            away=None if known.away is None else min(known.away, now),
            back=None if known.back is None else min(known.back, now),
        )
        for uuid, known in state.devices.items()
    }
    return replace(state, devices=devices)


def _restarted(state: FaultState, observation: Observation) -> FaultState:
    """The node has started anew: every driver counter too."""
    devices = {
        uuid: replace(
            known, joules=None, uncorrected=0.0, low=0, marked=observation.time, cured=observation.time, away=None
        )
        for uuid, known in state.devices.items()
    }
    faults = tuple(fault for fault in state.faults if not _ends_by_reset(fault))
    return cured_switches(replace(state, devices=devices, faults=faults), observation.time)


def _acknowledged(state: FaultState, observation: Observation) -> FaultState:
    for acknowledgement in sorted(observation.acknowledgements, key=lambda each: each.time):
        if acknowledgement.time > state.acknowledged_until:
            state = acknowledged_switches(_without_acknowledged(state, acknowledgement), acknowledgement)
            state = replace(state, acknowledged_until=acknowledgement.time)
    return state


def _without_acknowledged(state: FaultState, acknowledgement: Acknowledgement) -> FaultState:
    meant = [fault for fault in state.faults if acknowledgement.covers(fault)]
    devices = {
        uuid: _mended(known, [f.kind for f in meant if f.uuid == uuid], acknowledgement)
        for uuid, known in state.devices.items()
    }
    levels = {(f.uuid, f.kind.value) for f in meant if f.kind in (Kind.REMAP, Kind.SRAM)}
    levels |= {(str(f.index), f.kind.value) for f in meant if f.kind is Kind.LOST}
    faults = tuple(fault for fault in state.faults if fault not in meant)
    return replace(state, devices=devices, faults=faults, accepted=state.accepted | levels)


def _mended(known: KnownGpu, kinds: Sequence[Kind], acknowledgement: Acknowledgement) -> KnownGpu:
    """What happened to this GPU before somebody called these faults mended does not count any more."""
    if not kinds:
        return known
    known = replace(
        known, cured=max(known.cured, acknowledgement.time), links=0 if Kind.NVLINK in kinds else known.links
    )
    return replace(known, expected=False, away=None, back=None) if Kind.LOST in kinds else known


def _still_accepted(accepted: frozenset[tuple[str, str]], observation: Observation) -> frozenset[tuple[str, str]]:
    """An accepted fault that ended by itself counts when it comes again."""
    over = {
        (seen.uuid, kind.value)
        for seen in observation.gpus
        for kind, flag in ((Kind.REMAP, seen.remap_failed), (Kind.SRAM, seen.sram_exceeded))
        if flag is False
    }
    refused = {str(index) for index, _ in observation.refused}
    over |= {(index, kind) for index, kind in accepted if kind == Kind.LOST.value and index not in refused}
    return accepted - over


def _stands(faults: Iterable[Fault], uuid: str, kind: Kind) -> bool:
    return any(fault.uuid == uuid and fault.kind is kind for fault in faults)


_TOGETHER = 600.0
"""Seconds within which all GPUs are reset where it is one reset, and not each by itself for a reason of its own."""


def advance_switches(state: FaultState, observation: Observation) -> FaultState:
    """`state`, whose GPUs are as this observation left them, with the faults of the switches as they are now."""
    state = replace(state, switches_cured=min(state.switches_cured, observation.time))
    reset = _reset(state.devices, observation)
    if reset is not None and any(fault.since <= reset for fault in state.switches):
        state = cured_switches(state, reset)
    standing = {(fault.switch, fault.sxid) for fault in state.switches}
    new = (
        SwitchFault(switch, sxid, time)
        for (switch, sxid), time in sorted(observation.sxids.items())
        if time > state.switches_cured and (switch, sxid) not in standing
    )
    return replace(state, switches=(*state.switches, *new))


def cured_switches(state: FaultState, time: UnixTime) -> FaultState:
    """Without what the switches reported until then."""
    left = tuple(fault for fault in state.switches if fault.since > time)
    return replace(state, switches=left, switches_cured=max(state.switches_cured, time))


def acknowledged_switches(state: FaultState, acknowledgement: Acknowledgement) -> FaultState:
    """Without the faults this is said of."""
    meant = any(acknowledgement.covers_switch(fault) for fault in state.switches)
    return cured_switches(state, acknowledgement.time) if meant else state


def _reset(devices: Mapping[str, KnownGpu], observation: Observation) -> UnixTime | None:
    """When all GPUs there should be had last been reset together, or reloaded; None where they never were.

    A switch has no counters by which its reset could be told: it is reset with all GPUs of the node, and they have.
    """
    known = [devices[seen.uuid] for seen in observation.gpus if seen.uuid in devices]
    resets = [each.cured for each in known if each.expected]
    if not observation.driver or not resets or max(resets) - min(resets) > _TOGETHER:
        return None
    return min(resets)
