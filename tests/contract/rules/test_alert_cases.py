"""Each alert fires on its fault with exactly these labels and texts, and stays silent on what looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.prometheus.render import ALERTS
from tests.contract.rules.cases import CASES
from tests.contract.rules.promtool import key, load, run

NAMES = [alert.name for alert in ALERTS]


@pytest.mark.parametrize("name", NAMES)
def test_alert_fires_on_its_fault_and_not_on_what_looks_like_it(name: str, tmp_path: Path) -> None:
    complaint = run([case for case in CASES if case.alert == name], load(), tmp_path)

    assert complaint == ""


@pytest.mark.parametrize("name", NAMES)
def test_alert_has_a_case_that_fires_and_one_that_must_not(name: str) -> None:
    assert {case.fires for case in CASES if case.alert == name} == ({True} if name == "GpuWatchdog" else {True, False})


def test_cases_are_of_alerts_there_are_and_each_has_its_own_name() -> None:
    keys = [key(case) for case in CASES]

    assert {case.alert for case in CASES} == set(NAMES)
    assert len(keys) == len(set(keys))


def test_every_expected_alert_is_one_of_a_case_that_fires_and_has_all_its_texts() -> None:
    expected = load()

    assert set(expected) == {key(case) for case in CASES if case.fires}
    assert all(expected.values()), [name for name, alerts in expected.items() if not alerts]
    for alerts in expected.values():
        for alert in alerts:
            assert {"severity", "audience", "runbook"} <= set(alert["exp_labels"])
            assert set(alert["exp_annotations"]) - {"report"} == {
                "meaning",
                "summary",
                "description",
                "runbook_url",
                "dashboard",
            }
            assert "<no value>" not in str(alert)
