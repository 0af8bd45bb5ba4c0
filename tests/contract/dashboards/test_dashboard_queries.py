"""The queries: they parse, and ask for what there is, as it must be asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest

from dashboards.parts.lines import MAX_LINES, lines
from deploy.prometheus.recordings_common import STATE_INDEX
from deploy.prometheus.render import MEANINGS
from exporter.collectors.xid_catalogue import CATALOGUE, PAGE
from exporter.ledger import palette
from tests.contract.dashboards.inference import WrongLabelError, labels, matchers, ranged, selectors, walk
from tests.contract.dashboards.reading import (
    NAMES,
    Query,
    every_query,
    load,
    panels,
    properties,
    queries,
    stand_in,
    variables,
)
from tests.contract.dashboards.vocabulary import METRICS, RECORDED
from tests.contract.rules.promtool import complaint

MAX_EXPRESSION = 1500
_LEGEND = re.compile(r"{{\s*(\w+)\s*}}")
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
_QUERY_RESULT = re.compile(r"query_result\((?P<expr>.+)\)")
STATES_IN_ORDER = f"max by (state) (last_over_time({STATE_INDEX.record}[$__range] @ end()))"
"""One element per state, whose value is its place in a state timeline."""
_PRESENT = "gpu_exporter_build_info"
"""Of each exporter one series: whether any is scraped, which no recorded series can say."""
_JOINED = {
    STATE_INDEX.record,
    MEANINGS.record,
    "gpu:price_per_hour",
    "cluster:gpu_exporters:count",
    "up",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "scrape_samples_scraped",
    "scrape_duration_seconds",
}
"""Metrics of everybody and of the site, kept to the exporters by a join with a series that is selected by cluster, and
the age of the rules."""


def _parsed(query: Query) -> Any:
    return promql.parse(query.promql)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {"node", "gpu"}])
def test_what_two_clusters_call_alike_is_told_apart(name: str) -> None:
    """Slurm counts its jobs from 1 in each. The boards that are left out are of one node, and of one GPU."""
    found = {query.panel: labels(_parsed(query)) for query in queries(name)}

    assert {
        panel for panel, shown in found.items() if shown & {"workload", "instance"} and "cluster" not in shown
    } == set()


@pytest.mark.parametrize("name", NAMES)
def test_queries_parse(name: str) -> None:
    for query in queries(name):
        _parsed(query)


@pytest.mark.parametrize("name", NAMES)
def test_metrics_exist(name: str) -> None:
    unknown = {
        selector.name
        for query in queries(name)
        for selector in selectors(_parsed(query))
        if selector.name not in METRICS
    }

    assert unknown == set()


@pytest.mark.parametrize("name", NAMES)
def test_labels_exist(name: str) -> None:
    for query in queries(name):
        try:
            found = labels(_parsed(query))
        except WrongLabelError as error:
            pytest.fail(f"{query}\n{error}")
        assert set(_LEGEND.findall(query.legend)) <= found, query


@pytest.mark.parametrize("name", NAMES)
def test_rates_are_of_counters(name: str) -> None:
    wrong = [
        (function, metric)
        for query in queries(name)
        for function, metric in ranged(_parsed(query))
        if METRICS[metric].type != "counter"
    ]

    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_expression_of_a_panel_has_six_lines_and_1500_characters_at_most(name: str) -> None:
    long = [query for query in queries(name) if query.expr.count("\n") >= MAX_LINES or len(query.expr) > MAX_EXPRESSION]

    assert long == []


@pytest.mark.parametrize("name", NAMES)
def test_legend_that_names_a_job_has_its_name(name: str) -> None:
    legends = [query for query in queries(name) if "{{workload}}" in query.legend and 'kind!="slurm"' not in query.expr]

    assert all("{{workload}} {{job_name}}" in query.legend for query in legends)
    joined = "group_left (job_name) 0 * topk by (cluster, workload)"
    assert all(joined in " ".join(query.expr.split()) for query in legends)


def test_expression_breaks_before_its_outermost_operators() -> None:
    one, two = (f'sum(a_series_with_a_long_name{{at="{each} or other"}} / on (x) another)' for each in "pq")

    assert lines(f"{one} or {two} unless on (x) third") == f"{one}\nor {two} unless on (x) third"
    assert lines("a + b or c") == "a + b or c"


@pytest.mark.parametrize("name", NAMES)
def test_no_window_is_fixed(name: str) -> None:
    fixed = [query for query in queries(name) if re.search(r"\[[^$\]]", query.expr)]

    assert fixed == []


@pytest.mark.parametrize(("name", "title"), [("health", "XIDs in the time range"), ("gpu", "XIDs in the range")])
def test_xids_of_the_hardware_come_first(name: str, title: str) -> None:
    (panel,) = (panel for panel in panels(name) if panel["title"] == title)
    advised = properties(panel, "What to do")["mappings"][0]["options"]

    assert panel["options"]["sortBy"] == [{"desc": False, "displayName": "What to do"}]
    assert {raw.partition(" ")[2] for raw in advised} == {PAGE, *(entry.class_ for entry in CATALOGUE.values())}
    red = [raw for raw in advised if advised[raw]["color"] == palette.BAD]
    assert sorted(advised)[: len(red)] == sorted(red)


@pytest.mark.parametrize("name", ["job", "throughput", "workload-kubernetes", "workload-slurm"])
def test_steps_that_take_minutes_are_no_zeros_on_the_axis(name: str) -> None:
    (panel,) = (panel for panel in panels(name) if panel["title"] == "Steps per second")

    assert panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"] == {"type": "log", "log": 10}
    assert panel["fieldConfig"]["defaults"]["decimals"] == 3


@pytest.mark.parametrize("name", NAMES)
def test_legends_have_no_mean_of_the_moments_that_a_state_was_there(name: str) -> None:
    """Grafana leaves moments without a value out: of a GPU lost half-way that was 97 % busy and 100 % unobserved."""
    calcs = [panel["options"]["legend"]["calcs"] for panel in panels(name) if panel["type"] == "timeseries"]

    assert not {"mean", "lastNotNull"} & {calc for each in calcs for calc in each}


def test_no_count_is_shortened() -> None:
    """`short` makes 1.94 K of 1,936 GPUs, and a currency $1K of $1132."""
    assert [str(query) for query in every_query() if query.unit == "short" or query.unit.startswith("currency")] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_choice_of_series_is_the_same_at_every_step_of_a_graph(name: str) -> None:
    """Else a legend of the top ten has more than ten entries."""
    loose = [
        str(query)
        for query in queries(name)
        if not query.instant
        for node in walk(_parsed(query))
        if isinstance(node, promql.AggregateExpr)
        and str(node.op) in {"topk", "bottomk"}
        and str(node.param) != "1"
        and "@ end()" not in query.expr.replace(STATES_IN_ORDER, "")
    ]

    assert loose == []


def test_graphs_over_a_day_ask_recorded_series_only() -> None:
    """Their cost grows with the fleet and with the range; recordings answer in no time."""
    raw = {
        (str(query.panel), selector.name)
        for name in NAMES
        if load(name)["time"]["from"] == "now-24h"
        for query in queries(name)
        if not query.instant
        for selector in selectors(_parsed(query))
        if selector.name not in {*RECORDED, _PRESENT} and not selector.name.startswith("ALERTS")
    }

    assert raw == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_query_selects_the_cluster(name: str) -> None:
    loose = [
        (str(query), selector.name)
        for query in queries(name)
        for selector in selectors(_parsed(query))
        if matchers(selector).get("cluster") != "$cluster" and selector.name not in _JOINED
        # It belongs to the Prometheus that evaluates the rules, and that has no label of a cluster.
        if matchers(selector).get("alertname") != "GpuWatchdog"
    ]

    assert loose == []


@pytest.mark.parametrize("name", ["fleet", "waste"])
def test_fleet_wide_panels_ask_recorded_series_only(name: str) -> None:
    raw = {
        selector.name
        for query in queries(name)
        for selector in selectors(_parsed(query))
        if selector.name not in {*RECORDED, _PRESENT} and not selector.name.startswith("ALERTS")
    }

    assert raw == set()


@pytest.mark.parametrize("name", NAMES)
def test_annotations_ask_for_what_there_is(name: str) -> None:
    for each in load(name)["annotations"]["list"]:
        labels(promql.parse(each["expr"]))


@pytest.mark.parametrize(("recorded", "text"), [("GpuLost", "A GPU is lost."), ("GpuOther", "GpuLost")])
def test_annotation_is_the_sentence_of_the_alert_or_its_name(recorded: str, text: str, tmp_path: Path) -> None:
    (annotation,) = (each for each in load("fleet")["annotations"]["list"] if each["name"] == "Critical alerts")
    alert = 'alertname="GpuLost",cluster="c1",instance="n1",gpu="3",severity="critical",runbook="gpulost"'
    series = {
        f'ALERTS{{{alert},alertstate="firing"}}': "1x5",
        f"ALERTS_FOR_STATE{{{alert}}}": "60x5",
        f'alert:gpu_alert:index{{alertname="{recorded}",meaning="A GPU is lost."}}': "0x5",
    }
    labels = alert.replace('"3"', '"GPU 3"')
    asked = {
        "expr": annotation["expr"].replace("$cluster", ".*").replace("@ end()", ""),
        "eval_time": "5m",
        "exp_samples": [{"labels": f'{{{labels},meaning="{text}"}}', "value": 60000}],
    }
    planted = [{"series": name, "values": values} for name, values in series.items()]

    assert (
        complaint({"tests": [{"interval": "1m", "input_series": planted, "promql_expr_test": [asked]}]}, tmp_path) == ""
    )
    assert annotation["titleFormat"] == "{{meaning}}"


@pytest.mark.parametrize("name", NAMES)
def test_variables_ask_for_what_there_is(name: str) -> None:
    for variable in variables(name).values():
        if variable["type"] != "query":
            continue
        if chosen := _QUERY_RESULT.fullmatch(variable["query"]["query"]):
            found = labels(promql.parse(stand_in(chosen["expr"])))
            assert set(re.findall(r"(\w+)=", variable["regex"])) <= found, variable["name"]
            continue
        asked = _LABEL_VALUES.fullmatch(variable["query"]["query"])
        assert asked, variable["name"]
        assert asked["label"] in labels(promql.parse(asked["selector"])), variable["name"]
