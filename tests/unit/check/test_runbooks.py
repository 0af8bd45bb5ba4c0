"""Which runbook a finding leads to."""

from __future__ import annotations

import pytest

from exporter.faults.rules import runbook


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("recovery_gpu_reset", "gpurecoveryactionneeded"),
        ("fabric_route", "gpunvlinkfabricdegraded"),
        ("fan", "gputhermalthrottling"),
        ("no_such_rule", ""),
    ],
)
def test_runbook_of_a_rule(rule: str, name: str) -> None:
    assert runbook(rule) == name
