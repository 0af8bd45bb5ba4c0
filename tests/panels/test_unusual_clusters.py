"""Panels on clusters that the known one is not: two clusters at once, and workloads of several nodes or names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.contract.dashboards.reading import panels, renamed, stand_in
from tests.contract.rules.promtool import complaint

_CHOSEN = re.compile(r"\$(cluster|namespace|workload|shown|account|user|instance)\b")
Samples = Mapping[str, float]


def _query(board: str, title: str, column: str = "") -> str:
    """The query of a panel, or of a column of its table, with everything chosen."""
    (panel,) = (each for each in panels(board) if each["title"] == title)
    ref = next((field[-1] for field, text in renamed(panel).items() if text == column), "A")
    (target,) = (each for each in panel["targets"] if each["refId"] == ref)
    return _CHOSEN.sub(".*", stand_in(target["expr"]))


def _complaint(expr: str, series: Mapping[str, str], wanted: Samples, folder: Path) -> str:
    """Return promtool's complaint about the answer after 20 minutes of `series` and of what every panel reads."""
    there = {'gpu_exporter_build_info{cluster="c1",instance="n1:9836"}': "1x30"}
    samples = [{"labels": labels, "value": value} for labels, value in wanted.items()]
    document = {
        "rule_files": [],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in {**series, **there}.items()],
                "promql_expr_test": [{"expr": expr, "eval_time": "20m", "exp_samples": samples}],
            }
        ],
    }
    return complaint(document, folder)


def test_model_of_two_clusters_is_as_busy_and_as_hot_as_its_gpus(tmp_path: Path) -> None:
    """One GPU of ten runs a kernel and is hot: the only one of its cluster. The other cluster's nine do neither."""
    series: dict[str, str] = {}
    for cluster, gpus, state, heat in (("c1", 9, "free", 0), ("c2", 1, "computing", 1)):
        model = f'cluster="{cluster}",model="H100"'
        series[f'model_state:gpu_state_seconds:rate5m{{{model},state="{state}"}}'] = f"{gpus}x30"
        series[f"model:gpu_busy_seconds:rate5m{{{model}}}"] = f"{heat}x30"
        series[f"model:gpu_utilization:ratio_rate5m{{{model}}}"] = f"{heat}x30"
        series[f"model:gpu_thermal_throttle:ratio_rate5m{{{model}}}"] = f"{heat}x30"
        series[f"model:gpu_up:sum{{{model}}}"] = f"{gpus}x30"

    for column in ("Busy", "Thermal throttling"):
        assert _complaint(_query("fleet", "Models", column), series, {'{model="H100"}': 0.1}, tmp_path) == ""


def test_workload_is_idle_since_its_last_kernel_on_any_node(tmp_path: Path) -> None:
    job = 'cluster="c1",kind="slurm",workload="slurm:7"'
    series = {
        f'gpu_workload_idle_seconds{{{job},instance="n{node}:9836"}}': f"{idle}x30"
        for node, idle in ((1, 3600), (2, 5))
    }

    assert _complaint(_query("workload-slurm", "Idle for"), series, {'{covers=" "}': 5}, tmp_path) == ""


def test_team_that_only_waited_for_requests_wasted_nothing(tmp_path: Path) -> None:
    """It was observed, though no kernel ran."""
    waited = 'team_state:gpu_owner_gpu_seconds:increase{cluster="c1",team="chat",state="wait_requests"}'

    assert _complaint(_query("showback", "Teams", "Wasted"), {waited: "3600x30"}, {'{team="chat"}': 0}, tmp_path) == ""


def test_run_that_got_another_name_is_a_run_of_one_name(tmp_path: Path) -> None:
    run = 'cluster="c1",workload="slurm:7"'
    series = {
        f'workload_unit:gpu_workload_throughput:rate5m{{{run},user="ada",unit="tokens"}}': "10x30",
        f"workload:gpu_workload_allocated:rate5m{{{run}}}": "1x30",
        f'gpu_workload_info{{{run},instance="n1:9836",job_name="old"}}': "1x10 stale",
        f'gpu_workload_info{{{run},instance="n1:9836",job_name="pretrain"}}': "_x11 1x20",
    }
    found = _complaint(_query("throughput", "Runs of the same name and user", "Per GPU hour"), series, {}, tmp_path)

    assert "many-to-many" not in found
    assert found.count("3.6E+04") == 1
