"""Families of what stands against this node's GPUs, of what it should have, and of its maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from exporter.core.clock import EPOCH, UnixTime
from exporter.core.families import NODE, Family, Sample, Unit, by, gauge, gauges
from exporter.faults.model import Acknowledgement, Fault, FaultKind, FaultState, RepairAction, SwitchFault


@dataclass(frozen=True, slots=True)
class Cleared:
    """A kind of fault that was cleared on one GPU. `uuid` is empty for a GPU without one, `gpu` too for the node."""

    gpu: str
    uuid: str
    kind: FaultKind
    time: UnixTime


def cleared(state: FaultState, acknowledgements: Iterable[Acknowledgement]) -> tuple[Cleared, ...]:
    """Return what was cleared on each GPU, and on the switches of the node."""
    taken = [each for each in acknowledgements if each.time <= state.acknowledged_until]
    switches = (
        (Cleared("", "", FaultKind.NVSWITCH, state.switches_last_reset),) if state.switches_last_reset > EPOCH else ()
    )
    return (*_of_gpus(state, taken), *_without_handle(state), *switches)


def _of_gpus(state: FaultState, acknowledgements: Iterable[Acknowledgement]) -> Iterator[Cleared]:
    links = [each for each in acknowledgements if each.kind in ("", FaultKind.NVLINK.value)]
    for uuid, known in state.devices.items():
        index = str(known.index)
        times = {kind: state.acknowledged_until for name, kind in _accepted(state) if name == uuid}
        if known.last_reset > EPOCH:
            times[FaultKind.XID] = known.last_reset
        if not known.expected:
            times[FaultKind.LOST] = known.last_reset
        if of_links := [each.time for each in links if each.gpu in (index, uuid)]:
            times[FaultKind.NVLINK] = max(of_links)
        yield from (Cleared(index, uuid, kind, time) for kind, time in times.items())


def _accepted(state: FaultState) -> list[tuple[str, FaultKind]]:
    kinds = {kind.value: kind for kind in FaultKind}
    return [(name, kinds[kind]) for name, kind in sorted(state.accepted) if kind in kinds]


def _without_handle(state: FaultState) -> Iterator[Cleared]:
    """Lost GPUs whose UUID was never known are accepted by index."""
    known = {str(each.index) for each in state.devices.values() if not each.expected}
    for name, kind in _accepted(state):
        if kind is FaultKind.LOST and name not in known:
            yield Cleared(name, "", kind, state.acknowledged_until)


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """What one look found. `saved` is None where nothing is to be saved; `sources` reports which answered."""

    faults: tuple[Fault, ...] = ()
    switches: tuple[SwitchFault, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict[str, int])
    maintenance: tuple[str, ...] = ()
    saved: bool | None = None
    cleared: tuple[Cleared, ...] = ()
    incomplete: tuple[str, ...] = ()
    """Why faults of an earlier state file may be missing."""
    sources: Mapping[str, bool] = field(default_factory=dict[str, bool])


def _faults(status: FaultStatus) -> Iterable[Sample]:
    for fault in status.faults:
        labels = (str(fault.index), fault.uuid, fault.kind.value, fault.evidence, fault.action.value)
        yield Sample(float(fault.since), labels)
    for switch in status.switches:
        yield Sample(float(switch.since), ("", "", FaultKind.NVSWITCH.value, switch.evidence, RepairAction.RESET.value))


FAULT_FAMILIES: tuple[Family[FaultStatus], ...] = (
    gauges("gpu_fault_timestamp_seconds", "A fault that stands, with its evidence and what mends it; the value is when it began, Unix time.", Unit.SECONDS, _faults, ("gpu", "uuid", "fault", "evidence", "action"), NODE),
    gauges("gpu_fault_cleared_timestamp_seconds", "When a reset, restart or acknowledgement last cleared this kind of fault, Unix time: older evidence is void.", Unit.SECONDS, lambda s: (Sample(float(each.time), (each.gpu, each.uuid, each.kind.value)) for each in s.cleared), ("gpu", "uuid", "fault"), NODE),
    gauges("gpu_expected_devices", "GPUs this node should have, by who says so: an option, gres.conf, capacity in Kubernetes, its own past.", Unit.NONE, by(lambda s: s.expected.items()), ("source",), NODE),
    gauges("gpu_node_maintenance", "1 while this source says that the node is out of service on purpose; absent otherwise.", Unit.NONE, by(lambda s: ((source, 1.0) for source in s.maintenance)), ("source",), NODE),
    gauges("gpu_exporter_node_source_success", "Whether Slurm, Kubernetes or the maintenance file told last time of this node's GPUs and maintenance.", Unit.NONE, by(lambda s: ((source, float(success)) for source, success in s.sources.items())), ("source",), NODE),
    gauges("gpu_exporter_faults_incomplete", "1 while known faults may be missing: a state file was not understood in full, and lies beside the new one.", Unit.NONE, by(lambda s: ((cause, 1.0) for cause in s.incomplete)), ("cause",), NODE),
    gauge("gpu_exporter_fault_state_saved", "Whether faults survive a restart of the exporter: 0 when their file cannot be written.", Unit.NONE, lambda s: s.saved, NODE),
)  # fmt: skip
