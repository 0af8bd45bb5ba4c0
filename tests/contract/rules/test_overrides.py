"""Thresholds of a namespace, an account and a class, judged by promtool."""

from __future__ import annotations

from pathlib import Path

import yaml

from deploy.prometheus.overrides import Override
from deploy.prometheus.render import Settings, render
from tests.contract.rules.case import JOB, NODE, OWNER
from tests.contract.rules.cases_workload import held, ledger
from tests.contract.rules.promtool import complaint

SERVICE = 'workload="ml/chat",kind="pod",namespace="ml",pod="chat-1"'
LAB = 'workload="lab/exp",kind="pod",namespace="lab",pod="exp-1"'
OVERRIDES = (
    Override(alert="GpuUnderutilized", where='account="physics"', values={"utilization": 0.05}),
    Override(alert="GpuUnderutilized", where='class="service"', values={"severity": "info"}),
    Override(alert="GpuUnderutilized", where='namespace=~"lab|ml"', values={"utilization": 0.15}),
)


def test_each_workload_is_judged_by_the_first_override_that_is_about_it(tmp_path: Path) -> None:
    """All are busy for a fifth of their time: too little by the alert's own value."""
    series = {
        text: values
        for owner, work in ((OWNER, "batch"), (JOB, "batch"), (SERVICE, "service"), (LAB, "batch"))
        for text, values in (
            *held(owner, "1x60").items(),
            *ledger(owner, busy="0+12x60", wait_cpu="0+48x60").items(),
            (f'gpu_workload_info{{{NODE},{owner},class="{work}"}}', "1x60"),
        )
    }
    made = [rule for group in render(Settings(overrides=OVERRIDES))["groups"] for rule in group["rules"]]
    mine = [rule for rule in made if rule["alert"] == "GpuUnderutilized"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "overrides", "rules": mine}]}))
    query = 'count by (alertname, workload, severity) (ALERTS{alertname="GpuUnderutilized",alertstate="firing"})'
    fired = '{alertname="GpuUnderutilized", severity="info", workload="ml/chat"}'
    test = {
        "interval": "1m",
        "input_series": [{"series": text, "values": values} for text, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "50m", "exp_samples": [{"labels": fired, "value": 1}]}],
    }

    assert complaint({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}, tmp_path) == ""
