"""Match of known GPUs with those that the driver shows, whatever UUIDs and places it gives them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from exporter.core.clock import EPOCH
from exporter.faults.model import Fault, FaultState, GpuRecord, Observation, ObservedGpu

IDENTITY_SECONDS = 10.0
"""Seconds a new UUID must be shown before its absence is a fault: a driver answers garbage for a moment."""


def identify_gpus(state: FaultState, observation: Observation) -> tuple[FaultState, Observation]:
    """Return state and observation with one record for each GPU, whatever UUIDs the driver gave it."""
    state = _without_replaced(state, observation)
    shown = {seen.uuid: seen for seen in observation.gpus if seen.present and seen.uuid}
    first_seen = {**dict.fromkeys(shown.keys() - state.devices.keys(), observation.time), **state.unconfirmed}
    state = _without_ghosts(state, first_seen.keys() - shown.keys())
    unconfirmed = {
        uuid: since
        for uuid, since in first_seen.items()
        if uuid in shown and observation.time - since < IDENTITY_SECONDS
    }
    all_new = bool(shown) and shown.keys() == first_seen.keys() - unconfirmed.keys()
    state = _hand_over_record(replace(state, unconfirmed=unconfirmed), shown, all_new=all_new)
    kept = tuple(seen for seen in observation.gpus if seen.uuid in shown or seen.uuid in state.devices)
    observation = replace(observation, gpus=kept)
    there = tuple(seen for seen in kept if seen.present or not is_occupied(seen.bus, observation))
    return state, replace(observation, gpus=there)


def is_occupied(bus: str, observation: Observation) -> bool:
    """Return whether the driver shows a GPU at this bus address."""
    return bus != "" and any(seen.present and seen.bus == bus for seen in observation.gpus)


def _without_ghosts(state: FaultState, ghosts: Collection[str]) -> FaultState:
    """Forget UUIDs that went before they were confirmed.

    Their XIDs are of the GPU at the same bus address, or of an unknown one there.
    """
    if not ghosts:
        return state
    devices = {uuid: known for uuid, known in state.devices.items() if uuid not in ghosts}
    by_bus = {known.bus: (uuid, known.index) for uuid, known in devices.items() if known.bus}
    faults: list[Fault] = []
    for fault in state.faults:
        if fault.uuid not in ghosts:
            faults.append(fault)
        elif fault.by_xid:
            bus = state.devices[fault.uuid].bus
            uuid, index = by_bus.get(bus, ("", -1))
            evidence = fault.evidence if uuid else f"{fault.evidence} at {bus}"
            faults.append(replace(fault, uuid=uuid, index=index, evidence=evidence))
    return replace(state, devices=devices, faults=_first_of_each(faults))


def _first_of_each(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the first of each fault that two UUIDs of one GPU have."""
    first: dict[object, Fault] = {}
    for fault in faults:
        first.setdefault((fault.uuid, fault.uuid or fault.index, fault.kind, fault.evidence), fault)
    return tuple(first.values())


def _hand_over_record(state: FaultState, shown: Mapping[str, ObservedGpu], *, all_new: bool) -> FaultState:
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
    faults = (replace(fault, uuid=renamed.get(fault.uuid, fault.uuid)) for fault in state.faults)
    return replace(state, devices=devices, faults=_first_of_each(fault for fault in faults if fault.uuid not in gone))


def _without_replaced(state: FaultState, observation: Observation) -> FaultState:
    """Forget the GPUs that never answered since the node was started, if all GPUs are there without them.

    All are as many as the operator states, or as there were before.
    """
    shown = {seen.uuid for seen in observation.gpus if seen.present and seen.up} - state.unconfirmed.keys()
    before = [uuid for uuid, known in state.confirmed_devices.items() if known.expected and known.last_boot > EPOCH]
    gone = {
        uuid
        for uuid in before
        if uuid not in shown and state.devices[uuid].baseline_time <= state.devices[uuid].last_boot
    }
    if not gone or len(shown & state.devices.keys()) < (observation.stated or len(before)):
        return state
    devices = {uuid: known for uuid, known in state.devices.items() if uuid not in gone}
    return replace(state, devices=devices, faults=tuple(f for f in state.faults if f.uuid not in gone))


def _is_same_card(known: GpuRecord, seen: ObservedGpu) -> bool:
    if known.serial and seen.serial:
        return known.serial == seen.serial
    return known.baseline_time > known.last_reset
