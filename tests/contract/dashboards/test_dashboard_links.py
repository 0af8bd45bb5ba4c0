"""Links and variables: every click arrives, and carries what the reader has chosen."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import promql_parser as promql
import pytest

from dashboards.parts import uid
from deploy.prometheus.render import ALERTS
from tests.contract.dashboards.inference import labels
from tests.contract.dashboards.reading import (
    DOCS,
    NAMES,
    board_links,
    links,
    load,
    panels,
    properties,
    renamed,
    stand_in,
    variables,
    variables_used,
)
from tests.stack import ROOT

BY_UID = {load(name)["uid"]: name for name in NAMES}
_GIVEN = re.compile(r"var-(\w+)=([^&]+)")
_CELL = re.compile(r'__data\.fields\["([^"]+)"\]')
_LABEL = re.compile(r"__field\.labels\.(\w+)")
EVERY_LINK = [(name, panel, url) for name in NAMES for panel in panels(name) for url in board_links(panel)]


def _target(url: str) -> str:
    assert url.startswith("/d/"), url
    return urlsplit(url).path.removeprefix("/d/")


def test_links_lead_to_dashboards_that_exist() -> None:
    assert {_target(url) for _, _, url in EVERY_LINK} <= set(BY_UID)


def test_links_carry_data_source_cluster_and_time_range() -> None:
    bare = [
        (name, url)
        for name, _, url in EVERY_LINK
        if not all(f"${{{each}}}" in url for each in ("datasource:queryparam", "__url_time_range"))
        or ("${cluster:queryparam}" in url) == ("&var-cluster=" in url)
    ]

    assert bare == []


def test_links_set_variables_the_target_has_and_all_it_must_be_told() -> None:
    for name, panel, url in EVERY_LINK:
        known = variables(BY_UID[_target(url)])
        given = {each for each, _ in _GIVEN.findall(url)}
        needed = {each["name"] for each in known.values() if each["type"] == "query" and not each["includeAll"]}
        assert given <= set(known), (name, panel["title"], url)
        assert needed <= given, (name, panel["title"], url)


def test_links_take_their_values_from_columns_and_labels_that_exist() -> None:
    for name, panel, url in EVERY_LINK:
        where = (name, panel["title"], url)
        assert set(_CELL.findall(url)) <= _shown(panel), where
        wanted = set(_LABEL.findall(url))
        for target in panel["targets"] if wanted else ():
            assert wanted <= labels(promql.parse(stand_in(target["expr"]))), where


def _shown(panel: dict[str, Any]) -> set[str]:
    """Titles of a table's columns that are in its frame: a link reads no other."""
    transformations: list[dict[str, Any]] = panel.get("transformations") or []
    excluded: set[str] = set()
    for transformation in transformations:
        excluded |= set(transformation["options"].get("excludeByName") or {})
    return {title for field, title in renamed(panel).items() if field not in excluded}


def test_links_of_rows_with_a_cluster_carry_it() -> None:
    """Nodes, pods and jobs of two clusters may have one name."""
    bare = [
        (name, panel["title"], url)
        for name, panel, url in EVERY_LINK
        if "Cluster" in _shown(panel)
        and re.search(r"var-(instance|workload)=\$\{__data", url)
        and "var-cluster=" not in url
    ]

    assert bare == []


def test_links_to_the_documentation_arrive() -> None:
    found = {url.removeprefix(DOCS) for name in NAMES for panel in panels(name) for url in links(panel)}
    pages = {url for url in found if not url.startswith("/d/")}

    assert pages == {
        "runbooks/${__value.raw}.md",
        "runbooks/gpurecoveryactionneeded.md",
        "diagnosis.md#the-states",
    }
    assert (ROOT / "docs/runbooks/gpurecoveryactionneeded.md").is_file()
    assert "\n## The states\n" in (ROOT / "docs/diagnosis.md").read_text()
    for name in NAMES:
        docs = variables(name)["docs"]
        assert docs["query"].endswith("/docs/")
        assert (docs["type"], docs["skipUrlSync"]) == ("constant", True), "an address could lead runbooks anywhere"


def test_alert_row_leads_to_page_that_its_label_names() -> None:
    tables = [panel for name in NAMES for panel in panels(name) if "runbook" in renamed(panel)]

    assert {panel["title"] for panel in tables} == {"Alerts", "Alerts, one by one"}
    assert all("runbooks/" in str(properties(panel, "What to do")["links"]) for panel in tables)
    assert all((ROOT / f"docs/runbooks/{alert.runbook}.md").is_file() for alert in ALERTS)


def test_dashboards_name_no_alert_but_the_watchdog() -> None:
    named = {name: set(re.findall(r"\bGpu[A-Z]\w+", str(load(name)))) for name in NAMES}

    assert set().union(*named.values()) & {alert.name for alert in ALERTS} == {"GpuWatchdog"}


def test_every_list_of_alerts_has_the_runbook() -> None:
    bare = [
        (name, panel["title"])
        for name in NAMES
        for panel in panels(name)
        if panel["type"] == "table" and "alertname" in renamed(panel) and "runbook" not in renamed(panel)
    ]

    assert bare == []


def test_links_lead_from_the_fleet_to_the_gpu_and_to_the_workload_in_two_clicks() -> None:
    def reached(start: str) -> set[str]:
        return {_target(url) for name, _, url in EVERY_LINK if load(name)["uid"] == start}

    first = reached(uid.FLEET)
    assert {uid.NODE, uid.KUBERNETES, uid.SLURM, uid.WASTE, uid.HEALTH} <= first
    assert uid.GPU in reached(uid.NODE)
    assert {uid.KUBERNETES, uid.SLURM} <= reached(uid.WASTE)


@pytest.mark.parametrize("name", NAMES)
def test_every_dashboard_lists_the_others(name: str) -> None:
    months = name in {"showback", "capacity"}
    live, accounting, bill = load(name)["links"]
    tags = {each: load(each)["tags"] for each in NAMES}

    assert (live["type"], live["tags"], live["keepTime"]) == ("dashboards", [uid.LIVE_TAG], not months)
    assert (accounting["type"], accounting["tags"], accounting["keepTime"]) == (
        "dashboards",
        [uid.ACCOUNTING_TAG],
        months,
    )
    assert all(each["includeVars"] and "placement" not in each for each in (live, accounting, bill))
    assert (bill["type"], bill["url"]) == ("link", f"/d/{uid.SHOWBACK}?from=now-1M/M&to=now-1M/M")
    assert {each for each in NAMES if uid.ACCOUNTING_TAG in tags[each]} == {"showback", "capacity"}
    assert all(len({uid.LIVE_TAG, uid.ACCOUNTING_TAG} & set(each)) == 1 for each in tags.values())


@pytest.mark.parametrize("name", NAMES)
def test_no_variable_is_unused_and_none_unknown(name: str) -> None:
    known = variables(name)
    used = {each for panel in panels(name) for text in _texts(panel) for each in variables_used(text)}
    used |= {each for variable in known.values() for each in variables_used(str(variable.get("query", "")))}

    assert set(known) - used == set()
    assert used - set(known) == set()


def _texts(panel: dict[str, Any]) -> list[str]:
    return [*(target["expr"] for target in panel["targets"]), "${datasource}", *links(panel)]
