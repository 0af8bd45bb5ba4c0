"""Fatal SXIDs of NVSwitches, which stand until the whole fabric was reset. Pure.

A switch has no counters by which its reset could be told. It is reset with all GPUs of the node, and they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from exporter.core.clock import UnixTime
from exporter.faults.model import Acknowledgement, FaultState, KnownGpu, Observation, SwitchFault

_TOGETHER = 600.0
"""Seconds within which all GPUs are reset where it is one reset, and not each by itself for a reason of its own."""


def advance(state: FaultState, observation: Observation) -> FaultState:
    """`state`, whose GPUs are as this observation left them, with the faults of the switches as they are now."""
    state = replace(state, switches_cured=min(state.switches_cured, observation.time))
    reset = _reset(state.devices, observation)
    if reset is not None and any(fault.since <= reset for fault in state.switches):
        state = cured(state, reset)
    standing = {(fault.switch, fault.sxid) for fault in state.switches}
    new = (
        SwitchFault(switch, sxid, time)
        for (switch, sxid), time in sorted(observation.sxids.items())
        if time > state.switches_cured and (switch, sxid) not in standing
    )
    return replace(state, switches=(*state.switches, *new))


def cured(state: FaultState, time: UnixTime) -> FaultState:
    """Without what the switches reported until then."""
    left = tuple(fault for fault in state.switches if fault.since > time)
    return replace(state, switches=left, switches_cured=max(state.switches_cured, time))


def acknowledged(state: FaultState, acknowledgement: Acknowledgement) -> FaultState:
    """Without the faults this is said of."""
    meant = any(acknowledgement.covers_switch(fault) for fault in state.switches)
    return cured(state, acknowledgement.time) if meant else state


def _reset(devices: Mapping[str, KnownGpu], observation: Observation) -> UnixTime | None:
    """When all GPUs there should be had last been reset together, or reloaded; None where they never were."""
    known = [devices[seen.uuid] for seen in observation.gpus if seen.uuid in devices]
    resets = [each.cured for each in known if each.expected]
    if not observation.driver or not resets or max(resets) - min(resets) > _TOGETHER:
        return None
    return min(resets)
