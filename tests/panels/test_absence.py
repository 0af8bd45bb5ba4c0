"""Without rules, with young rules and with silent nodes no panel states its empty answer as a fact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboards.parts.absence import NO_RULES, NOT_SCRAPED, REASONS, UNREACHABLE, YOUNG, Reason
from dashboards.parts.style import BLUE, GREEN
from tests.contract.dashboards.reading import NAMES, stand_in
from tests.contract.dashboards.vocabulary import RECORDED
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import ask, ask_at
from tests.panels.asked import Answered, answered, last
from tests.panels.printed import printed, why_not
from tests.panels.series import END, SHOWN
from tests.panels.states import ALL, HALF, with_silent, with_young_rules, without_rules

pytestmark = pytest.mark.xdist_group("panels")

_BY_DASHBOARD = {
    "node": {"instance": "s1"},
    "gpu": {"instance": "s1", "gpu": "0"},
    "job": {"workload": "slurm:7", "instance": "s1"},
    "workload-kubernetes": {"instance": "k1|k2"},
    "workload-slurm": {"instance": "s1"},
}
"""What each is opened on. Of the nodes of workloads Grafana would ask too, where it finds any."""
_REASON = re.compile(r"\) or on \(\) (?:label_replace\()?(?:NaN \* )?(?:topk\(1, |max\()label_replace\(-1001 .*")
_ZERO = " or on () vector(0)"


def _open(url: str) -> list[Answered]:
    found: list[Answered] = []
    for board in NAMES:
        chosen = _BY_DASHBOARD.get(board, {})
        found += answered(Reader(url, SHOWN, chosen), board, board)
    return found


def _served(state: AbstractContextManager[str]) -> Iterator[list[Answered]]:
    with state as url:
        yield _open(url)


@pytest.fixture(scope="module")
def no_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Answered]]:
    yield from _served(without_rules(tmp_path_factory.mktemp("no-rules")))


@pytest.fixture(scope="module")
def young(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Answered]]:
    yield from _served(with_young_rules(tmp_path_factory.mktemp("young")))


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Answered]]:
    yield from _served(with_silent(tmp_path_factory.mktemp("half"), HALF))


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Answered]]:
    yield from _served(with_silent(tmp_path_factory.mktemp("silent"), ALL))


def _own(each: Answered) -> list[str]:
    """The queries of a panel, without what they answer when something is missing."""
    bare = [_REASON.sub(")", _on_one_line(target)) for target in each.panel["targets"]]
    return [expr.removeprefix("(") if expr.count("(") > expr.count(")") else expr for expr in bare]


def _on_one_line(target: Mapping[str, Any]) -> str:
    return " ".join(target["expr"].split())


def _reads_rules(each: Answered) -> bool:
    """A query that adds the job's name to the rows of another one does not count: without rules they have no name."""
    rows = [expr for expr in _own(each) if "workload_job_name:" not in expr]
    return any("ALERTS" in expr or any(name in expr for name in RECORDED) for expr in rows)


def _reasons(each: Answered) -> list[Reason]:
    return [found for rows in each.series.values() for series in rows if (found := _reason(series))]


def _reason(series: Mapping[str, Any]) -> Reason | None:
    """The reason that its label says, or in a number of one series its last value."""
    text = series["metric"].get("missing", "").strip(" ()")
    return next((each for each in REASONS if text == each.text or last(series) == each.code), None)


def _facts(each: Answered) -> int:
    return sum(_reason(series) is None for rows in each.series.values() for series in rows)


def _counts_from_zero(each: Answered) -> bool:
    return any(_ZERO in _on_one_line(target) for target in each.panel["targets"])


def claims(panels: Sequence[Answered], reason: Reason) -> list[str]:
    """Panels that show their words for an empty answer, or a count of 0, although `reason` applies."""
    wrong: list[str] = []
    for each in panels:
        zero = _counts_from_zero(each) and [last(series) for rows in each.series.values() for series in rows] == [0]
        if (zero or not _facts(each)) and _reasons(each) != [reason]:
            wrong.append(f"{each.board} / {each.title}: {[each.text for each in _reasons(each)]}")
    return wrong


def test_without_rules_no_panel_of_recorded_series_states_a_fact(no_rules: list[Answered]) -> None:
    panels = [each for each in no_rules if _reads_rules(each)]

    assert len(panels) > 80
    assert claims(panels, NO_RULES) == []


def test_young_rules_are_the_reason_of_an_empty_panel(young: list[Answered]) -> None:
    panels = [each for each in young if _reads_rules(each)]

    assert claims(panels, YOUNG) == []
    assert [each.title for each in panels if each.board == "fleet" and not _facts(each)] == [
        "Unreachable",
        "Warnings",
    ]


def test_without_any_scrape_each_panel_says_so(silent: list[Answered]) -> None:
    assert claims(silent, NOT_SCRAPED) == []


def test_half_of_the_nodes_silent_is_no_good_news(half: list[Answered]) -> None:
    of_silent_node = [each for each in half if each.board in {"node", "gpu"}]
    others = [each for each in half if each.board not in {"node", "gpu"} and not _counts_from_zero(each)]

    assert claims(of_silent_node, NOT_SCRAPED) == []
    assert claims(others, UNREACHABLE) == []


def test_totals_count_the_gpus_of_silent_nodes(half: list[Answered]) -> None:
    fleet = {each.title: each for each in half if each.board == "fleet"}
    drawn = fleet["GPUs by state"].series["A"]
    states = {each["metric"]["state"]: last(each) for each in drawn if each["values"][-1][0] == SHOWN.end}

    assert last(fleet["GPUs"].series["A"][0]) == 10
    assert last(fleet["Unreachable"].series["A"][0]) == states["unreachable"] == 6
    assert sum(states.values()) == pytest.approx(10, rel=0.01)
    assert last(fleet["Critical"].series["A"][0]) + last(fleet["Warnings"].series["A"][0]) > 0


def test_no_total_looks_good_while_nodes_are_silent(half: list[Answered]) -> None:
    totals = [each for each in half if each.panel["type"] == "stat" and _facts(each) and _covers(each)]
    silent = {(each.board, each.title): _covers(each) for each in totals}

    assert [each.title for each in totals if _covers(each) != " " and _colour(each) == GREEN] == []
    assert {silent["fleet", "GPUs wasted"], silent["health", "NVLinks down"], silent["waste", "Free"]} == {
        "without 6 unreachable"
    }
    assert ("fleet", "GPUs") not in silent


def test_total_looks_good_while_all_nodes_report(half: list[Answered]) -> None:
    (links,) = (each for each in half if (each.board, each.title) == ("health", "NVLinks down"))
    whole = [{**series, "metric": {"covers": " "}} for series in links.series["A"]]

    assert _colour(links) == BLUE
    assert _colour(replace(links, series={"A": whole})) == GREEN


def _covers(each: Answered) -> str:
    return next((series["metric"].get("covers", "") for rows in each.series.values() for series in rows), "")


def _colour(each: Answered) -> str:
    """The colour of a number, by the thresholds of its own name or of all."""
    (value,) = {last(series) for rows in each.series.values() for series in rows}
    overrides = each.panel["fieldConfig"]["overrides"]
    own = [
        found["properties"][0]["value"]
        for found in overrides
        if re.search(found["matcher"]["options"].strip("/"), _covers(each))
    ]
    thresholds = own[0] if own else each.panel["fieldConfig"]["defaults"]["thresholds"]
    return [step["color"] for step in thresholds["steps"] if step["value"] is None or value >= step["value"]][-1]


@pytest.mark.parametrize("title", ["Pods that waste most", "Critical", "How busy the nodes are"])
def test_panel_without_the_construction_is_found(tmp_path: Path, title: str) -> None:
    with without_rules(tmp_path) as url:
        (each,) = (panel for panel in _open(url) if (panel.board, panel.title) == ("fleet", title))
        planted = replace(each, series={"A": _ask_bare(url, each)})

    assert claims([each], NO_RULES) == []
    assert claims([planted], NO_RULES) == [f"fleet / {title}: []"]


def _ask_bare(url: str, each: Answered) -> list[dict[str, object]]:
    target = each.panel["targets"][0]
    expr = _own(each)[0] + (_ZERO if _ZERO in _on_one_line(target) else "")
    expr = stand_in(expr).replace("$cluster", ".*")
    return ask_at(url, expr, END) if target.get("instant") else ask(url, expr, SHOWN)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_fleet_without_rules_reads_so(no_rules: list[Answered]) -> None:
    titles = ("Critical", "Alerts", "Pods that waste most", "GPU hours by state")
    panels = [each for title in titles for each in no_rules if (each.board, each.title) == ("fleet", title)]

    critical, alerts, pods, hours = printed(panels, [(), ("Alert",), ("Workload",), ()])

    assert [cells["value"] for cells in critical.values()] == [NO_RULES.short]
    assert alerts == {NO_RULES.text: alerts[NO_RULES.text]}
    assert (alerts[NO_RULES.text]["Alert"], alerts[NO_RULES.text]["Times"]) == (NO_RULES.text, "-")
    assert (pods[NO_RULES.text]["Workload"], pods[NO_RULES.text]["Wasted"]) == (NO_RULES.text, "-")
    assert [cells["name"] for cells in hours.values()] == [NO_RULES.text]
