"""Each link of the way of whoever is on call: page, runbook, dashboard, and the check on the node."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from deploy.prometheus import walk
from deploy.prometheus.declaration import Alert
from deploy.prometheus.render import ALERTS, RUNBOOKS, Settings, render
from exporter.faults.rules import NAMES, RULES, runbooks_of
from tests.contract.dashboards.reading import NAMES as DASHBOARDS
from tests.contract.dashboards.reading import load
from tests.stack import ROOT

REPOSITORY = RUNBOOKS.split("docs/runbooks/")[0]
PUBLISHED = Settings(runbooks=RUNBOOKS)
BOARDS = {load(name)["uid"]: load(name) for name in DASHBOARDS}
URLS = {
    rule["alert"]: rule["annotations"]["runbook_url"]
    for group in render(PUBLISHED)["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_page_leads_to_the_runbook_and_the_runbook_to_dashboards_and_check(alert: Alert) -> None:
    page = (ROOT / URLS[alert.name].removeprefix(REPOSITORY)).read_text()

    addresses = re.findall(r"`(/d/[^`]+)`", page)
    assert addresses == [address for _, address in walk.dashboards(alert)]
    for address in addresses:
        board = BOARDS[urlsplit(address).path.removeprefix("/d/")]
        variables = {variable["name"] for variable in board["templating"]["list"]}
        given = {name.removeprefix("var-") for name in parse_qs(urlsplit(address).query)}
        assert given <= variables
    named = re.search(r"On the node: `gpu-exporter check` \(rules ([^)]*)\)", page)
    assert set(named[1].split(", ") if named else ()) == set(walk.rules(alert)) <= set(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_of_the_check_leads_to_the_runbook_of_an_alert_that_names_it(rule: object) -> None:
    name: str = rule.name  # type: ignore[attr-defined]
    alerts = [alert for alert in ALERTS if alert.runbook in runbooks_of(name)]

    assert len(alerts) == len(runbooks_of(name)) > 0
    assert all(name in walk.rules(alert) for alert in alerts)


def test_dashboards_on_the_way_lead_back_to_the_runbooks() -> None:
    """The lists of alerts on Fleet, Health and Node have the page of each alert."""
    for uid in ("gpu-fleet", "gpu-health", "gpu-node"):
        assert "runbooks/${__value.raw}.md" in str(BOARDS[uid])
