"""Which runbook a finding leads to."""

from __future__ import annotations

import pytest

from exporter.faults.evaluate import evaluate
from exporter.faults.rule import Limits
from exporter.faults.rules import runbooks_of
from tests.unit.check.nodes import facts, fault


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("recovery_gpu_reset", "gpurecoveryactionneeded"),
        ("recovery_drain_p2p", "gpuresetpending"),
        ("fabric_route", "gpunvlinkfabricdegraded"),
        ("fan", "gputhermalthrottling"),
    ],
)
def test_runbook_of_a_rule(rule: str, name: str) -> None:
    assert runbooks_of(rule) == {name}


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("reset", "gpurecoveryactionneeded"),
        ("reset_when_idle", "gpuresetpending"),
        ("restart", "gpurecoveryactionneeded"),
        ("vendor", "gpuxidworkflow"),
    ],
)
def test_runbook_of_a_fault_is_that_of_its_repair(action: str, name: str) -> None:
    (finding,) = evaluate(facts(fault("xid", "XID 1", action)), Limits()).findings

    assert finding.runbook == name
