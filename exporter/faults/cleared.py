"""Kinds of faults cleared by a reset, a restart or an acknowledgement: older evidence does not count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporter.core.clock import EPOCH, UnixTime
from exporter.faults.model import Acknowledgement, FaultState, Kind


@dataclass(frozen=True, slots=True)
class Cleared:
    """A kind of fault that was cleared on one GPU. `uuid` is empty for a GPU without one, `gpu` too for the node."""

    gpu: str
    uuid: str
    kind: Kind
    time: UnixTime


def cleared(state: FaultState, acknowledgements: Iterable[Acknowledgement]) -> tuple[Cleared, ...]:
    """Return what was cleared on each GPU, and on the switches of the node."""
    taken = [each for each in acknowledgements if each.time <= state.acknowledged_until]
    return (*_of_gpus(state, taken), *_without_handle(state), *_of_switches(state))


def _of_gpus(state: FaultState, acknowledgements: Iterable[Acknowledgement]) -> Iterator[Cleared]:
    links = [each for each in acknowledgements if each.kind in ("", Kind.NVLINK.value)]
    for uuid, known in state.devices.items():
        index = str(known.index)
        times = {kind: state.acknowledged_until for name, kind in _accepted(state) if name == uuid}
        if known.cured > EPOCH:
            times[Kind.XID] = known.cured
        if not known.expected:
            times[Kind.LOST] = known.cured
        if of_links := [each.time for each in links if each.gpu in (index, uuid)]:
            times[Kind.NVLINK] = max(of_links)
        yield from (Cleared(index, uuid, kind, time) for kind, time in times.items())


def _accepted(state: FaultState) -> list[tuple[str, Kind]]:
    kinds = {kind.value: kind for kind in Kind}
    return [(name, kinds[kind]) for name, kind in sorted(state.accepted) if kind in kinds]


def _without_handle(state: FaultState) -> Iterator[Cleared]:
    """Lost GPUs whose UUID was never known are accepted by index."""
    known = {str(each.index) for each in state.devices.values() if not each.expected}
    for name, kind in _accepted(state):
        if kind is Kind.LOST and name not in known:
            yield Cleared(name, "", kind, state.acknowledged_until)


def _of_switches(state: FaultState) -> Iterator[Cleared]:
    if state.switches_cured > EPOCH:
        yield Cleared("", "", Kind.NVSWITCH, state.switches_cured)
