"""Families of what stands against this node's GPUs, of what it should have, and of its maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.core.families import NODE, Family, Sample, Unit, by, gauge, gauges
from exporter.faults.model import Fault, FaultKind, FaultState, RepairAction, SwitchFault
from exporter.faults.rule import Finding

AcknowledgedFault = tuple[str, str, str]
"""Index, UUID (empty for a GPU that never gave one) and kind of a fault that stands and that somebody acknowledged."""


def acknowledged_faults(state: FaultState) -> tuple[AcknowledgedFault, ...]:
    """Return the faults that count no more while they stand, of GPUs that are gone for good too."""
    gone = {str(each.index): uuid for uuid, each in state.devices.items() if not each.expected}
    levels = ((name, kind) for name, kind in sorted(state.accepted) if name not in gone)
    known = {uuid: str(each.index) for uuid, each in state.devices.items()}
    named = ((known[name], name, kind) if name in known else (name, "", kind) for name, kind in levels)
    return (*((index, uuid, FaultKind.LOST.value) for index, uuid in gone.items()), *named)


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """Result of one read. `saved` is None where nothing is to be saved; `sources` states which answered."""

    faults: tuple[Fault, ...] = ()
    switches: tuple[SwitchFault, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict[str, int])
    maintenance: tuple[str, ...] = ()
    saved: bool | None = None
    acknowledged: tuple[AcknowledgedFault, ...] = ()
    incomplete: tuple[str, ...] = ()
    """Reasons why faults of an earlier state file may be missing."""
    sources: Mapping[str, bool] = field(default_factory=dict[str, bool])


def _fault_samples(status: FaultStatus) -> Iterable[Sample]:
    for fault in status.faults:
        labels = (
            str(fault.index) if fault.index >= 0 else "",
            fault.uuid,
            fault.kind.value,
            fault.evidence,
            fault.action.value,
        )
        yield Sample(float(fault.since), labels)
    for switch in status.switches:
        yield Sample(float(switch.since), ("", "", FaultKind.NVSWITCH.value, switch.evidence, RepairAction.RESET.value))


FAULT_FAMILIES: tuple[Family[FaultStatus], ...] = (
    gauges("gpu_fault_timestamp_seconds", "A fault that stands, with its evidence and repair; the value is when it began, Unix time.", Unit.SECONDS, _fault_samples, ("gpu", "uuid", "fault", "evidence", "action"), NODE),
    gauges("gpu_fault_acknowledged", "1 for a fault that stands and counts no more, since somebody acknowledged it; a lost GPU is expected no more.", Unit.NONE, lambda s: (Sample(1, labels) for labels in s.acknowledged), ("gpu", "uuid", "fault"), NODE),
    gauges("gpu_expected_devices", "GPUs this node should have, by source: an option, gres.conf, capacity in Kubernetes, its own past.", Unit.NONE, by(lambda s: s.expected.items()), ("source",), NODE),
    gauges("gpu_node_maintenance", "1 while this source reports that the node is out of service on purpose; absent otherwise.", Unit.NONE, by(lambda s: ((source, 1.0) for source in s.maintenance)), ("source",), NODE),
    gauges("gpu_exporter_node_source_success", "Whether the last read of this source (Slurm, Kubernetes, maintenance file or acknowledgements) succeeded.", Unit.NONE, by(lambda s: ((source, float(success)) for source, success in s.sources.items())), ("source",), NODE),
    gauges("gpu_exporter_faults_incomplete", "1 while known faults may be missing: a state file was not understood in full, and lies beside the new one.", Unit.NONE, by(lambda s: ((cause, 1.0) for cause in s.incomplete)), ("cause",), NODE),
    gauge("gpu_exporter_fault_state_saved", "Whether faults survive a restart of the exporter: 0 when their file cannot be written.", Unit.NONE, lambda s: s.saved, NODE),
)  # fmt: skip
FINDINGS: Family[Iterable[Finding]] = gauges("gpu_finding", "1 for what the health check finds while jobs run, of the GPU or (without a GPU) of the node; read every 5 s.", Unit.NONE, lambda found: (Sample(1, labels) for labels in sorted({(f.gpu, f.uuid, f.rule, f.verdict.word) for f in found})), ("gpu", "uuid", "finding", "severity"), NODE)  # fmt: skip
