"""Panels and the alert have one notion of an NVLink that is down, which is asked of what Prometheus answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.dashboards.reading import queries
from tests.contract.rules.promtool import complaint

_GPU = 'cluster="c1",job="gpu-exporter",instance="n1:9836",gpu="0",uuid="GPU-0"'
_VALUES = {"$cluster": "c1", "$instance": "n1:9836", "$gpu": "0"}
_BOTH_DOWN = {f'gpu_nvlink_link_up{{{_GPU},link="{link}"}}': "0x9" for link in "01"}
_NONE_UP = _BOTH_DOWN | {f"gpu_nvlink_links_up{{{_GPU}}}": "0x9"}
_HAS_LOST = {f'gpu_fault_timestamp_seconds{{{_GPU},fault="nvlink_down",evidence="2 of 2 links down"}}': "1x9"}
_ONE_UP = _NONE_UP | {f'gpu_nvlink_link_up{{{_GPU},link="0"}}': "1x9", f"gpu_nvlink_links_up{{{_GPU}}}": "1x9"}


@pytest.mark.parametrize(("dashboard", "panel"), [("gpu", "NVLinks down"), ("health", "NVLinks down")])
@pytest.mark.parametrize(
    ("series", "down"),
    [(_NONE_UP, 0), (_NONE_UP | _HAS_LOST, 2), (_ONE_UP, 1)],
    ids=["no bridge, or split into MIG instances", "all lost", "one of two"],
)
def test_links_of_a_card_that_never_had_any_up_are_not_down(
    dashboard: str, panel: str, series: Mapping[str, str], down: int, tmp_path: Path
) -> None:
    [query] = [query for query in queries(dashboard) if query.panel == panel]

    covers = '{covers=" "}' if dashboard == "health" else "{}"

    assert _answers(query.promql, series, [{"labels": covers, "value": down}], tmp_path) == ""


def test_links_that_are_all_lost_are_in_the_table(tmp_path: Path) -> None:
    [query] = [each for each in queries("health") if each.panel == "NVLink" and "gpu_nvlink_link_up" in each.expr]
    here = [{"labels": '{cluster="c1",gpu="0",instance="n1:9836"}', "value": 2}]

    assert _answers(query.promql, _NONE_UP | _HAS_LOST, here, tmp_path) == ""
    assert _answers(query.promql, _NONE_UP, [], tmp_path) == ""


_SCRAPED = {
    'gpu_exporter_build_info{cluster="c1",instance="n1:9836"}': "1x5",
    'state:gpu_state:index{state="free"}': "0x5",
    'cluster:gpu_exporters:count{cluster="c1"}': "1x5",
}
"""An exporter is scraped and the rules are as old as their window, so that an empty answer is one."""


def _answers(expr: str, series: Mapping[str, str], expected: list[dict[str, object]], folder: Path) -> str:
    for variable, value in _VALUES.items():
        expr = expr.replace(f'"{variable}"', f'"{value}"')
    asked = {"expr": expr, "eval_time": "5m", "exp_samples": expected}
    planted = [{"series": name, "values": values} for name, values in (_SCRAPED | dict(series)).items()]
    return complaint({"tests": [{"interval": "1m", "input_series": planted, "promql_expr_test": [asked]}]}, folder)
