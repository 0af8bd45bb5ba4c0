"""Every number of the report of a job, and of everybody's digest, is the truth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from exporter.tools.report.client import Access, Client
from exporter.tools.report.digest import Group, digest
from exporter.tools.report.formats import to_json
from exporter.tools.report.job import ReportRequest, job_report
from exporter.tools.report.model import Digest, JobReport
from tests.panels.series import END, RANGE_MINUTES
from tests.panels.truth import Truth, reported, truth

pytestmark = pytest.mark.xdist_group("panels")

SECONDS = 60.0 * RANGE_MINUTES
_NAMES = ("workload", "user", "account", "workload_namespace", "gpu", "node", "state")
"""What names an item of a list: the first of these that it has."""


@pytest.mark.parametrize("subject", ["job", "digest"])
def test_report_on_known_cluster_has_true_numbers(url: str, subject: str) -> None:
    found = dict(_numbers(json.loads(to_json(_report(Client(Access(url)), subject), {}))))

    told = {path: _truth(path, reported(subject)) for path in found}
    assert {path for path, each in told.items() if each is None} == set()
    assert found == {path: _value(each) for path, each in told.items() if each}
    assert [path for path in reported(subject) if not any(re.fullmatch(_pattern(path), each) for each in found)] == []


def _report(client: Client, subject: str) -> JobReport | Digest:
    if subject == "digest":
        return digest(client, Group(), SECONDS, END)
    return job_report(client, ReportRequest('workload="slurm:7"', "slurm:7", SECONDS), END)


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, f"{path}.{_name(each)}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)


def _name(item: Mapping[str, Any]) -> str:
    labels = item.get("labels", item)
    name = next(str(labels[each]) for each in _NAMES if labels.get(each))
    return f"{item['node']}/{name}" if "gpu" in item else name


def _pattern(path: str) -> str:
    return re.escape(path).replace(r"tables\.\*", r"tables\.\w+\.([^.]+)").replace(r"\*", "([^.]+)")


def _truth(path: str, table: Mapping[str, str]) -> Truth | None:
    for pattern, reference in table.items():
        if found := re.fullmatch(_pattern(pattern), path):
            quantity, _, thing = reference.partition(" @ ")
            return truth(quantity, thing or found[1])
    return None


def _value(expected: Truth) -> Any:
    number = expected.number / 1000 if expected.unit == "moment" else expected.number
    return pytest.approx(number, rel=1e-9 if expected.unit == "moment" else expected.tolerance, abs=1e-9)
