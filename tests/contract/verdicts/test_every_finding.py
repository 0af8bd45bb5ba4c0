"""Every finding has an alert, and the driver's advice is part of the finding that causes it: one message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.faults.evaluate import AFTER_A_JOB, STAGES, Report, evaluate
from exporter.faults.model import FaultKind
from exporter.faults.rule import Finding, Verdict
from exporter.faults.rules import RULES
from exporter.faults.watch import NAME
from tests.contract.verdicts import paths
from tests.contract.verdicts.node import started
from tests.unit.check.nodes import FIRES, LIMITS, WELL, facts, fault

WITHOUT_ALERT = AFTER_A_JOB | {"gpu_down"}
"""Rules without an alert: a running job excuses them, or the GPU is lost within ten seconds, or back."""
CAUSES: Mapping[str, str] = {
    **{name: FIRES[name] for name in FIRES if name.startswith("fabric_") and name != "fabric_cliques"},
    **{name: FIRES[name] for name in ("lost", "xid", "xid_pattern", "ecc_uncorrectable", "ecc_sram_threshold")},
    **{name: FIRES[name] for name in ("row_remap_failed", "row_remap_pending", "page_pending", "nvlink_down")},
    **{name: FIRES[name] for name in ("nvlink_errors", "gpu_slow")},
    "xid with a procedure": fault("xid", "XID 74", "procedure"),
    "xid of the site": fault("xid", "XID 43", "page"),
    "contained error": fault("ecc_uncorrectable", "1 uncorrectable error, contained", "reset_when_idle"),
}
ADVICE = [name for name in FIRES if name.startswith("recovery_")]


def report_of(*changes: str) -> Report:
    return evaluate(facts(*changes), LIMITS, STAGES["periodic"].left_out)


def page(*changes: str) -> str:
    """Return the page of the healthy node with these changes."""
    names = tuple(change.rpartition(" ")[0] for change in changes)
    kept = [line for line in WELL.splitlines() if line.rpartition(" ")[0] not in names]
    return "\n".join((*kept, *changes, *map(_series, report_of(*changes).findings)))


def _series(finding: Finding) -> str:
    labels = f'gpu="{finding.gpu}",uuid="{finding.uuid}",finding="{finding.rule}",severity="{finding.verdict.word}"'
    return f"gpu_finding{{{labels}}} 1"


def test_every_finding_that_is_degraded_or_failed_has_an_alert(tmp_path: Path) -> None:
    wanted = {rule.name for rule in RULES if rule.verdict is not Verdict.OK} - WITHOUT_ALERT
    fired = paths.alerts({"none": page(), **{name: page(FIRES[name]) for name in wanted}}, tmp_path)

    assert not fired["none"]
    assert {name for name in wanted if not fired[name]} == set()


def test_every_fault_of_a_gpu_but_pcie_explains_the_advice_of_the_driver() -> None:
    kinds = {kind.value for kind in FaultKind} - {"nvswitch", "pcie_width", "pcie_generation"}

    assert kinds <= CAUSES.keys()


@pytest.mark.parametrize("cause", CAUSES)
def test_advice_of_the_driver_is_part_of_the_finding_that_causes_it(cause: str) -> None:
    for advice in ADVICE:
        (finding,) = report_of(CAUSES[cause], FIRES[advice]).findings

        assert "the driver advises" in finding.reason
        assert finding.verdict is max(report_of(each).verdict for each in (CAUSES[cause], FIRES[advice]))


def test_on_call_is_told_of_a_fault_and_its_advice_once(tmp_path: Path) -> None:
    pages = {
        f"{cause}, {advice}": page(CAUSES[cause], FIRES[f"recovery_{advice}"])
        for cause in CAUSES
        for advice in ("gpu_reset", "node_reboot")
    }
    told = paths.alerts(pages, tmp_path)

    assert {name: names for name, names in told.items() if len(names) != 1} == {}


@pytest.mark.parametrize(
    ("cause", "advice", "action"),
    [
        ("nvlink_down", "gpu_reset", "Drain the node, then reset the GPU: nvidia-smi --gpu-reset -i GPU."),
        ("xid", "node_reboot", "Drain the node and restart it."),
        ("row_remap_failed", "gpu_reset", "Drain the node, run field diagnostics, have the GPU replaced (RMA)."),
        ("lost", "gpu_reset", "Drain the node and restart it."),
        ("contained error", "gpu_reset", "Drain the node, then reset the GPU: nvidia-smi --gpu-reset -i GPU."),
        ("xid", "drain_p2p", "Drain the node, then reset the GPU: nvidia-smi --gpu-reset -i GPU."),
    ],
)
def test_stronger_action_of_fault_and_advice_counts(cause: str, advice: str, action: str) -> None:
    (finding,) = report_of(CAUSES[cause], FIRES[f"recovery_{advice}"]).findings

    assert finding.action == action


@pytest.mark.parametrize("other", ["pcie_width", "hw_thermal", "reference"])
def test_advice_of_the_driver_is_a_finding_beside_what_cannot_cause_it(other: str) -> None:
    findings = report_of(FIRES[other], FIRES["recovery_gpu_reset"]).findings

    assert {finding.rule for finding in findings} == {other, "recovery_gpu_reset"}


def test_finding_beside_faults_that_may_be_missing_is_exported(tmp_path: Path) -> None:
    """The verdict is unknown then, and the alerts that need the finding must not fall silent."""
    (tmp_path / NAME).write_text('{"version":2}')
    node = started(tmp_path)
    node.gpus[0].answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x40
    node.run(60)

    assert "gpu_exporter_faults_incomplete" in paths.text(node)
    assert paths.by_metrics(node) == {("hw_thermal", "degraded")}
