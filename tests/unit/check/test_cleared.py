"""The check leaves out what somebody acknowledged, and evidence that is no fault any more."""

from __future__ import annotations

import pytest

from exporter.faults.evaluate import evaluate
from exporter.faults.rule import Limits, Verdict
from tests.unit.check.nodes import FIRES, facts, fault, series, sxid, xid


def acknowledged(gpu: str = "0", uuid: str = "GPU-a") -> str:
    return f'gpu_fault_acknowledged{{gpu="{gpu}",uuid="{uuid}",fault="lost"}} 1'


@pytest.mark.parametrize("evidence", [series("gpu_up", 0), 'gpu_devices{source="driver"} 0'])
def test_evaluate_without_acknowledged_gpu_is_ok(evidence: str) -> None:
    assert evaluate(facts(evidence), Limits()).verdict is Verdict.FAILED
    assert evaluate(facts(evidence, acknowledged()), Limits()).verdict is Verdict.OK


@pytest.mark.parametrize(
    "evidence",
    [
        xid(119),
        xid(79),
        sxid("fatal"),
        series("gpu_row_remap_failed", 1),
        series("gpu_ecc_sram_threshold_exceeded", 1),
        series("gpu_ecc_errors_total", 1, type="uncorrected"),
        series("gpu_nvlink_link_up", 0, link="1"),
        series("gpu_pcie_link_width", 8),
    ],
)
def test_evaluate_of_evidence_without_a_fault_is_ok(evidence: str) -> None:
    """What of it is a fault, and for how long, is decided once: by the faults."""
    assert evaluate(facts(evidence), Limits()).verdict is Verdict.OK


def test_evaluate_with_gpu_that_history_expects_fails_beside_an_acknowledged_one() -> None:
    other = 'gpu_expected_devices{source="history"} 1'
    away = facts('gpu_devices{source="driver"} 0', other, acknowledged("1", "GPU-b"))

    assert evaluate(away, Limits()).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        ("", Verdict.UNKNOWN),
        (FIRES["pcie_width"], Verdict.UNKNOWN),
        (fault("xid", "XID 119", "reset"), Verdict.FAILED),
    ],
)
def test_evaluate_without_all_known_faults_is_unknown_or_failed(finding: str, verdict: Verdict) -> None:
    incomplete = 'gpu_exporter_faults_incomplete{cause="version"} 1'

    assert evaluate(facts(incomplete, *([finding] if finding else [])), Limits()).verdict is verdict


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        ("", Verdict.UNKNOWN),
        (FIRES["pcie_width"], Verdict.UNKNOWN),
        (fault("xid", "XID 119", "reset"), Verdict.FAILED),
    ],
)
@pytest.mark.parametrize("newer", [fault("melted", "by heat", "replace"), fault("xid", "XID 999", "bury")])
def test_evaluate_with_a_fault_of_a_newer_exporter_is_unknown_or_failed(
    finding: str, verdict: Verdict, newer: str
) -> None:
    newer = newer.replace('gpu="0"', 'gpu="1"')

    assert evaluate(facts(newer, *([finding] if finding else [])), Limits()).verdict is verdict


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        (("row_remap_pending", "ecc_uncorrectable"), ["ecc_uncorrectable"]),
        (("row_remap_pending", "recovery_drain_and_reset"), ["row_remap_pending"]),
        (("recovery_gpu_reset", "xid"), ["xid"]),
        (("recovery_gpu_reset", "gpu_slow"), ["gpu_slow"]),
        (("row_remap_pending", "xid"), ["xid"]),
        (("row_remap_pending", "xid_pattern"), ["row_remap_pending", "xid_pattern"]),
        (("fabric_route", "nvlink_down", "nvlink_errors"), ["fabric_route"]),
        (("row_remap_pending", "pcie_width"), ["row_remap_pending", "pcie_width"]),
    ],
)
def test_evaluate_of_one_event_has_one_finding(found: tuple[str, ...], rules: list[str]) -> None:
    report = evaluate(facts(*(FIRES[name] for name in found)), Limits())

    assert sorted(finding.rule for finding in report.findings) == sorted(rules)


def test_evaluate_where_gres_conf_and_kubernetes_disagree_does_not_guess() -> None:
    """An option decides; without one it is not known how many GPUs there should be."""
    eight = facts('gpu_expected_devices{source="slurm"} 8', 'gpu_expected_devices{source="kubernetes"} 1')

    assert [finding.rule for finding in evaluate(eight, Limits()).findings] == ["inventory"]
    assert evaluate(eight, Limits(gpus=1)).verdict is Verdict.OK
    assert [finding.rule for finding in evaluate(eight, Limits(gpus=8)).findings] == ["gpu_missing"]


def _up(name: str, value: int) -> str:
    return f'gpu_up{{gpu="0",uuid="GPU-{name}"}} {value}'


@pytest.mark.parametrize(
    ("handles", "changes", "missing"),
    [
        (1, (_up("a", 0), fault("lost", "XID 79", "restart")), True),
        (1, (fault("lost", "XID 79", "restart"),), True),
        (1, (_up("b", 1), _up("a", 0), fault("lost", "not shown by the driver", "restart")), False),
        (1, (_up("c", 1), fault("lost", "XID 79", "restart").replace("GPU-a", "GPU-b")), False),
        (2, (_up("a", 0), _up("b", 0), fault("lost", "XID 79", "restart")), False),
    ],
)
def test_evaluate_counts_a_lost_gpu_that_has_a_handle_once(
    handles: int,
    changes: tuple[str, ...],
    missing: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Two GPUs are expected: one is lost, and the other may be missing."""
    node = facts(f'gpu_devices{{source="driver"}} {handles}', 'gpu_devices{source="pci"} 2', *changes)

    assert ("gpu_missing" in {finding.rule for finding in evaluate(node, Limits()).findings}) is missing
