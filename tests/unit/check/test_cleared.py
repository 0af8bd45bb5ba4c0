"""The check leaves out what was cleared: evidence of before, and levels that somebody accepted."""

from __future__ import annotations

import pytest

from exporter.faults.rule import Limits, Verdict
from exporter.faults.rules import judge
from tests.unit.check.nodes import NOW, facts, series, sxid, xid


def cleared(kind: str, ago: float, gpu: str = "0", uuid: str = "GPU-a") -> str:
    return f'gpu_fault_cleared_timestamp_seconds{{gpu="{gpu}",uuid="{uuid}",fault="{kind}"}} {NOW - ago}'


@pytest.mark.parametrize(
    ("evidence", "clearance"),
    [
        (xid(119, ago=60), cleared("xid", ago=60)),
        (xid(79, ago=60), cleared("xid", ago=30)),
        (sxid("fatal", ago=60), cleared("nvswitch", ago=30, gpu="", uuid="")),
        (series("gpu_row_remap_failed", 1), cleared("row_remap_failed", ago=30)),
        (series("gpu_ecc_sram_threshold_exceeded", 1), cleared("ecc_sram_threshold", ago=30)),
        (series("gpu_nvlink_link_up", 0, link="1"), cleared("nvlink_down", ago=30)),
        (series("gpu_up", 0), cleared("lost", ago=30)),
        ('gpu_devices{source="driver"} 0', cleared("lost", ago=30)),
    ],
)
def test_judge_of_cleared_evidence_is_ok(evidence: str, clearance: str) -> None:
    assert judge(facts(evidence), Limits()).verdict is not Verdict.OK
    assert judge(facts(evidence, clearance), Limits()).verdict is Verdict.OK


def test_judge_of_xid_after_the_clearance_fails() -> None:
    assert judge(facts(xid(119, ago=60), cleared("xid", ago=61)), Limits()).verdict is Verdict.FAILED


def test_judge_of_gpu_that_history_expects_fails_beside_an_acknowledged_one() -> None:
    other = 'gpu_expected_devices{source="history"} 1'
    away = facts('gpu_devices{source="driver"} 0', other, cleared("lost", ago=30, gpu="1", uuid="GPU-b"))

    assert judge(away, Limits()).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [("", Verdict.UNKNOWN), (series("gpu_pcie_link_width", 8), Verdict.UNKNOWN), (xid(119), Verdict.FAILED)],
)
def test_judge_without_all_known_faults_is_unknown_or_failed(finding: str, verdict: Verdict) -> None:
    incomplete = 'gpu_exporter_faults_incomplete{cause="version"} 1'

    assert judge(facts(incomplete, *([finding] if finding else [])), Limits()).verdict is verdict
