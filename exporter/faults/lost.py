"""Lost GPUs: one fault for each, also for those whose UUID was never known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.core.clock import UnixTime
from exporter.faults.model import Action, Fault, FaultState, Kind, KnownGpu, Observation

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
