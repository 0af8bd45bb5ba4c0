"""What the demo draws of a dashboard's JSON: units, merged tables, variables in queries and links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from coloraide import Color

from deploy.demo.drawing import document, fields, units, variables
from deploy.demo.drawing.document import Panel
from deploy.demo.drawing.table import ink_on, merged
from deploy.demo.drawing.variables import ALL, Clicked, Variable
from deploy.demo.prometheus import Span
from deploy.demo.site import dashboards
from exporter.ledger.palette import STYLES, StateStyle
from tests.stack import ROOT

FILES = sorted((ROOT / "dashboards/json").glob("*.json"))
UIDS = {json.loads(file.read_text())["uid"] for file in FILES}
_URL = re.compile(r'"url": ("(?:[^"\\]|\\.)+")')
SPAN = Span(start=0.0, end=300.0, step=5.0)


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "shown"),
    [
        (0.356, "percentunit", None, "35.6 %"),
        (0.356, "percentunit", 0, "36 %"),
        (3.57e3, "watt", None, "3.57 kW"),
        (80 * 2**30, "bytes", None, "80 GiB"),
        (93.6, "s", None, "1.56 mins"),
        (0.0, "short", None, "0"),
        (12345.0, "short", None, "12.35 k"),
        (51.0, "celsius", None, "51 °C"),
        (2.5, "suffix:GPU h", None, "2.5 GPU h"),
        (1132.4, "prefix:$", 0, "$1132"),
        (1795328436e3, "dateTimeAsIso", None, "2026-11-22 06:20:36"),
        (3.0, "locale", None, "3"),
        (1234567.5, "locale", None, "1,234,567.5"),
        (1234.4, "locale", 0, "1,234"),
        (3.0, "furlong", None, "3 furlong"),
        (float("inf"), "s", None, "∞"),
    ],
)
def test_a_value_is_written_in_its_unit(value: float, unit: str, decimals: int | None, shown: str) -> None:
    assert units.show(value, unit, decimals) == shown


@pytest.mark.parametrize("look", STYLES.values(), ids=STYLES)
def test_text_can_be_read_on_every_colour_of_the_states(look: StateStyle) -> None:
    paper, ink = (Color(colour).luminance() for colour in (look.colour, ink_on(look.colour)))
    assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) > 3


def test_every_unit_of_the_dashboards_is_known() -> None:
    folder = Path(__file__).resolve().parents[3] / "dashboards/json"
    fields = [part for path in folder.glob("*.json") for part in _parts(json.loads(path.read_text()), "fieldConfig")]
    properties = [one for part in fields for override in part["overrides"] for one in override["properties"]]
    used = {part["defaults"]["unit"] for part in fields if "unit" in part["defaults"]}
    used |= {one["value"] for one in properties if one["id"] == "unit"}
    assert "locale" in used
    assert {unit for unit in used if not units.known(unit)} == set()


def _parts(tree: Any, name: str) -> Iterator[Any]:
    """Everything of that name in a JSON document."""
    below: list[Any] = list(cast("Any", tree).values() if isinstance(tree, dict) else tree)
    if isinstance(tree, dict) and name in tree:
        yield tree[name]
    for each in below:
        if isinstance(each, dict | list):
            yield from _parts(each, name)


def test_rows_of_several_queries_are_merged_by_their_common_labels() -> None:
    used = [{"gpu": "0", "node": "a", "Value #A": 1.0}, {"gpu": "1", "node": "a", "Value #A": 2.0}]
    power = [{"gpu": "1", "node": "a", "Value #B": 300.0}, {"gpu": "2", "node": "a", "Value #B": 100.0}]
    assert merged([used, [], power]) == [
        {"gpu": "0", "node": "a", "Value #A": 1.0},
        {"gpu": "1", "node": "a", "Value #A": 2.0, "Value #B": 300.0},
        {"gpu": "2", "node": "a", "Value #B": 100.0},
    ]


def test_rows_that_contradict_each_other_stay_apart() -> None:
    owners = [{"gpu": "0", "workload": "a"}, {"gpu": "0", "workload": "b"}]
    assert merged([owners, [{"gpu": "0", "Value": 1.0}]]) == [
        {"gpu": "0", "workload": "a", "Value": 1.0},
        {"gpu": "0", "workload": "b"},
    ]


def test_a_query_gets_the_variables_and_the_time() -> None:
    chosen = [Variable("cluster", "Cluster", ("x",), ALL, ".*"), Variable("node", "Node", (), "a.b", "a\\\\.b")]
    text = 'rate(m{c=~"$cluster",n=~"${node:regex}"}[$__rate_interval]) / $__range_s + $unknown'
    expected = 'rate(m{c=~".*",n=~"a\\\\.b"}[60s]) / 300 + $unknown'
    assert variables.expression(text, chosen, SPAN) == expected


def test_a_link_takes_the_reader_along() -> None:
    chosen = [Variable("cluster", "Cluster", ("x",), ALL, ".*")]
    cell = '${__data.fields["Node"]:percentencode}'
    url = "/d/n?${datasource:queryparam}&${cluster:queryparam}&var-i=" + cell + "&${__url_time_range}"
    made = variables.link(url, chosen, "range=5m", Clicked("a b", cells={"Node": "a b"}))
    assert made == "/d/n?var-cluster=%24__all&var-i=a%20b&range=5m"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_link_of_every_dashboard_leads_to_a_page_of_the_demo(file: Path) -> None:
    urls = _URL.findall(file.read_text())
    given = {name: Variable(name, "", (), name, name) for name in ("cluster", "datasource", "namespace", "instance")}
    chosen = [Variable("docs", "", (), "/docs/", "/docs/"), *given.values()]
    cells = {"What to do": "gpulost", "Runbook": "gpulost"}

    made = [variables.link(json.loads(url), chosen, "range=5m", Clicked("gpulost", "gpulost", cells)) for url in urls]

    assert made
    for path in (url.partition("?")[0].partition("#")[0] for url in made):
        kind, _, rest = path.removeprefix("/").partition("/")
        assert kind in ("d", "docs"), path
        assert (ROOT / "docs" / rest).is_file() if kind == "docs" else rest in UIDS, path


STEPS = [{"color": "green", "value": None}, {"color": "#f00", "value": 0.5}]
ALL_BUSY = {"type": "value", "options": {"1": {"text": "all", "color": "#00f"}}}


def test_an_override_wins_over_the_defaults_and_a_mapping_over_the_threshold() -> None:
    config = {
        "defaults": {"unit": "percentunit", "noValue": "none", "custom": {"fillOpacity": 10}},
        "overrides": [
            {
                "matcher": {"id": "byName", "options": "Busy"},
                "properties": [
                    {"id": "decimals", "value": 0},
                    {"id": "thresholds", "value": {"steps": STEPS}},
                    {"id": "mappings", "value": [ALL_BUSY]},
                ],
            }
        ],
    }  # fmt: skip
    panel = Panel({"fieldConfig": config})
    busy, other = fields.of(panel, "Busy"), fields.of(panel, "Other")
    assert (busy.text(0.356), other.text(0.356), other.text(None)) == ("36 %", "35.6 %", "none")
    assert (busy.colour(0.2), busy.colour(0.6), busy.colour(1.0)) == ("#73bf69", "#f00", "#00f")
    assert (busy.text(1.0), busy.custom("fillOpacity")) == ("all", 10)


def test_pattern_maps_each_whole_value_that_it_fits() -> None:
    shown = {"type": "regex", "options": {"pattern": "gpu.+", "result": {"text": "Runbook"}}}
    panel = Panel({"fieldConfig": {"defaults": {"mappings": [shown]}}})

    assert fields.of(panel, "What to do").text("gpulost") == "Runbook"
    assert fields.of(panel, "What to do").text("a gpulost") == "a gpulost"


def test_every_panel_of_every_dashboard_is_of_a_kind_the_demo_draws() -> None:
    kinds = {panel.kind for one in dashboards() for section in one.sections for panel in section.panels}
    assert kinds <= {"stat", "table", "timeseries", "bargauge", "state-timeline", "text"}


def test_panels_of_a_collapsed_row_are_drawn_too() -> None:
    inner = {"type": "stat", "title": "inside"}
    found = document._sections([{"type": "row", "title": "more", "panels": [inner]}])
    assert [(section.title, [panel.title for panel in section.panels]) for section in found] == [("more", ["inside"])]
