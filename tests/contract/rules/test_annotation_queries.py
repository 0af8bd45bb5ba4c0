"""Queries in annotations: Prometheus asks each again for every alert and evaluation, so none may read all targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import promql_parser as promql
import yaml

from tests.contract.dashboards.inference import walk
from tests.contract.rules.promtool import RULES

_QUERY = re.compile(r"printf `([^`]*)`[^|}]*\| query")
_SLOT = re.compile(r"%(\[\d+\])?q")
_FEW = {"state:gpu_state:index", "gpu:price_per_hour"}
"""Tables: as many series as there are states, and models of GPUs."""
_CHOSEN = {"given", "-", "NOT_OPENED"}
"""A label of the alert; a workload that nothing has; the exporters that cannot open the driver, which are few."""


def queries() -> Iterator[tuple[str, str]]:
    groups = yaml.safe_load((RULES / "gpu-alerts.yaml").read_text())["groups"]
    rules = (rule for group in groups for rule in group["rules"] if "alert" in rule)
    for rule in rules:
        for text in rule["annotations"].values():
            yield from ((rule["alert"], _SLOT.sub('"given"', query)) for query in _QUERY.findall(text))


def all_targets_read(query: str) -> list[str]:
    selectors = [node for node in walk(promql.parse(query)) if isinstance(node, promql.VectorSelector)]
    return [
        str(each)
        for each in selectors
        if each.name not in _FEW and not _CHOSEN & {matcher.value for matcher in each.matchers.matchers}
    ]


def test_no_annotation_asks_for_the_series_of_all_targets() -> None:
    asked = list(queries())

    assert len(asked) > 100
    assert [(alert, found) for alert, query in asked if (found := all_targets_read(query))] == []


def test_a_selector_without_labels_of_its_alert_is_found() -> None:
    assert all_targets_read('up{instance="given"} and on (instance) target:gpu_exporter:last')
