"""A second job that scrapes the same exporters, or a second exporter of a node, changes no text of an alert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.prometheus.declaration import Audience
from deploy.prometheus.render import ALERTS
from tests.contract.rules.case import Case
from tests.contract.rules.cases import CASES
from tests.contract.rules.promtool import Alerts, fired, key, load, run
from tests.contract.rules.series import SECOND_JOB, by_two_exporters, twice

_OF_COPIES = {"GpuDeviceDuplicated": "is about them"}
_OF_NODES = {"GpuIncident"} | {alert.name for alert in ALERTS if alert.audience is Audience.OWNER}
"""Those whose texts are not about one exporter."""
_ADDS_UP = {"GpuOwnerWaste"}
"""Hours of two exporters of a node are two hours: GpuDeviceDuplicated tells of them."""


def _texts(alerts: Alerts) -> set[tuple[str, str]]:
    """Summaries and descriptions, as the first job has them."""
    found = [alert["exp_annotations"] for alert in alerts]
    return {(each["summary"], each["description"].replace(SECOND_JOB, "gpu-exporter")) for each in found}


def _cases(alert: str) -> Sequence[Case]:
    return [case for case in CASES if case.alert == alert and case.fires]


@pytest.mark.parametrize("alert", sorted({alert.name for alert in ALERTS} - set(_OF_COPIES)))
def test_texts_are_the_same_where_two_jobs_scrape_an_exporter(alert: str, tmp_path: Path) -> None:
    cases = _cases(alert)
    said = [fired(run([replace(case, series=twice(dict(case.series)))], {}, tmp_path)) for case in cases]

    assert [_texts(alerts) for alerts in said] == [_texts(load()[key(case)]) for case in cases]


@pytest.mark.parametrize("alert", sorted(_OF_NODES - _ADDS_UP))
def test_texts_are_the_same_where_a_node_has_two_exporters(alert: str, tmp_path: Path) -> None:
    cases = _cases(alert)
    said = [fired(run([replace(case, series=by_two_exporters(case.series))], {}, tmp_path)) for case in cases]

    assert [_texts(alerts) for alerts in said] == [_texts(load()[key(case)]) for case in cases]
