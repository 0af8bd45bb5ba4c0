"""Thresholds of a namespace, an account and a class, judged by promtool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from deploy.prometheus.overrides import Override
from deploy.prometheus.render import Settings, render
from tests.contract.rules.case import JOB, NODE, OWNER
from tests.contract.rules.cases_waste import crash_loop, jobs
from tests.contract.rules.cases_workload import UP, allocated, ledger
from tests.contract.rules.promtool import complaint, only
from tests.contract.rules.series import share, xid

SERVICE = 'workload="ml/chat",kind="pod",workload_namespace="ml",workload_pod="chat-1"'
LAB = 'workload="lab/exp",kind="pod",workload_namespace="lab",workload_pod="exp-1"'
OVERRIDES = (
    Override(alert="GpuUnderutilized", where='account="physics"', values={"min_utilization_ratio": 0.05}),
    Override(alert="GpuUnderutilized", where='class="service"', values={"severity": "info"}),
    Override(alert="GpuUnderutilized", where='workload_namespace=~"lab|ml"', values={"min_utilization_ratio": 0.15}),
)


def test_each_workload_is_judged_by_the_first_override_that_is_about_it(tmp_path: Path) -> None:
    """All are busy for a fifth of their time: too little by the alert's own value."""
    series = {
        text: values
        for owner, work in ((OWNER, "batch"), (JOB, "batch"), (SERVICE, "service"), (LAB, "batch"))
        for text, values in (
            *allocated(owner, "1x60").items(),
            *ledger(owner, computing="0+12x60", wait_cpu="0+48x60").items(),
            (f'gpu_workload_info{{{NODE},{owner},class="{work}"}}', "1x60"),
        )
    }
    fired = '{alertname="GpuUnderutilized", severity="info", workload="ml/chat"}'

    assert _complaint("GpuUnderutilized", Settings(overrides=OVERRIDES), series, ("50m", fired), tmp_path) == ""


def _complaint(alert: str, settings: Settings, series: Mapping[str, str], fired: tuple[str, str], folder: Path) -> str:
    """Promtool's, where something else than `fired` fires at its time, or nothing."""
    made = [rule for group in render(settings)["groups"] for rule in group["rules"] if rule.get("alert") == alert]
    recordings = [group for group in only({alert})["groups"] if "record" in group["rules"][0]]
    groups = [*recordings, {"name": "overrides", "rules": made}]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    at, labels = fired
    query = f'count by (alertname, workload, severity, user) (ALERTS{{alertname="{alert}",alertstate="firing"}})'
    samples = [{"labels": labels, "value": 1}] if labels else []
    test = {
        "interval": "1m",
        "input_series": [{"series": text, "values": values} for text, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": at, "exp_samples": samples}],
    }
    order = [group["name"] for group in groups]
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "group_eval_order": order, "tests": [test]}
    return complaint(document, folder)


_CHAINS = {
    **jobs("eve", 25),
    **{
        name.replace("gpu_workload_allocated_gpus", "gpu_workload_info"): values.replace("8x", "1x")
        for name, values in jobs("eve", 25).items()
        if name.startswith("gpu_workload_allocated_gpus")
    },
    **crash_loop("bob"),
}
"""Two owners of many short workloads that idle: eve's are of account `vision`, bob's are pods."""


@pytest.mark.parametrize(
    ("of_all", "of_account", "told"),
    [({}, {"min_gpu_hours": 1000}, "bob"), ({"min_gpu_hours": 1000}, {"min_gpu_hours": 4}, "eve")],
)
def test_letter_to_an_owner_of_the_account_has_its_thresholds(
    of_all: Mapping[str, float], of_account: Mapping[str, float], told: str, tmp_path: Path
) -> None:
    settings = Settings(
        values={"GpuOwnerWaste": of_all},
        overrides=[Override(alert="GpuOwnerWaste", where='account="vision"', values=of_account)],
    )
    fired = f'{{alertname="GpuOwnerWaste", severity="warning", user="{told}"}}'

    assert _complaint("GpuOwnerWaste", settings, _CHAINS, ("420m", fired), tmp_path) == ""


_CRASHED = {
    **xid(31, "restart_app", "_x30 1x60", "_x30 1800x60"),
    **share(OWNER, "1x29 stale"),
    **allocated(OWNER, "1x29 stale"),
    **UP,
    f'gpu_workload_info{{{NODE},{OWNER},class="batch"}}': "1x29 stale",
}
"""An error that has ended its workload."""


@pytest.mark.parametrize(
    ("settings", "fired"),
    [
        (Settings(values={"GpuXidApplication": {"except": 'workload_namespace="ml"'}}), ""),
        (
            Settings(
                overrides=[
                    Override(alert="GpuXidApplication", where='workload_namespace="ml"', values={"severity": "info"})
                ]
            ),
            '{alertname="GpuXidApplication", severity="info", user="ada", workload="ml/train-0"}',
        ),
    ],
)
def test_workload_that_an_error_ended_is_selected_as_before(settings: Settings, fired: str, tmp_path: Path) -> None:
    assert _complaint("GpuXidApplication", settings, _CRASHED, ("32m", fired), tmp_path) == ""
