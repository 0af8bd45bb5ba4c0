"""The committed JSON: made by the builders, whole, and fit for provisioning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import _gojsonnet
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.catalogue import DASHBOARDS
from dashboards.parts import uid
from dashboards.parts.frame import to_json
from dashboards.parts.states import COLOURS, STATES, TITLES
from tests.contract.dashboards.reading import FOLDER, NAMES, default_unit, load, panels, renamed, variables

RULES = FOLDER.parents[1] / "deploy/prometheus/rules"
UIDS = {
    "exporter": "gpu-exporter",
    "fleet": "gpu-fleet",
    "gpu": "gpu-device",
    "health": "gpu-health",
    "node": "gpu-node",
    "throughput": "gpu-throughput",
    "job": "gpu-job",
    "waste": "gpu-waste",
    "capacity": "gpu-capacity",
    "showback": "gpu-showback",
    "workload-kubernetes": "gpu-workload-kubernetes",
    "workload-slurm": "gpu-workload-slurm",
}
"""Bookmarks hold them: change none."""


def test_every_dashboard_is_committed_and_no_other() -> None:
    assert set(NAMES) == set(DASHBOARDS)


@pytest.mark.parametrize("name", NAMES)
def test_committed_json_is_what_the_builders_make(name: str) -> None:
    assert to_json(DASHBOARDS[name]()) == (FOLDER / f"{name}.json").read_text(), "run: python -m dashboards"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_on_the_way_through_the_sdk(name: str) -> None:
    data = load(name)

    again = json.loads(json.dumps(Dashboard.from_json(data), cls=JSONEncoder))

    assert list(_lost(data, again)) == []


def _lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where `after` lacks or changes something of `before`."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from (f"{path}.{key}" for key in before.keys() - after if before[key] not in (None, [], {}, ""))
        for key in before.keys() & after:
            yield from _lost(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{path}[{index}]")
    elif before != after:
        yield f"{path}: {before!r} != {after!r}"


@pytest.mark.parametrize("name", NAMES)
def test_legend_of_a_missing_number_is_a_dash_and_not_the_words_of_an_empty_panel(name: str) -> None:
    legends = [each for each in panels(name) if each["type"] == "timeseries" and each["options"]["legend"]["calcs"]]
    dash = {"type": "special", "options": {"match": "null+nan", "result": {"text": "-"}}}

    assert [each["title"] for each in legends if dash not in each["fieldConfig"]["defaults"].get("mappings", [])] == []


def test_uids_never_change() -> None:
    assert {name: load(name)["uid"] for name in NAMES} == UIDS


@pytest.mark.parametrize("name", NAMES)
def test_file_can_be_provisioned(name: str) -> None:
    data = load(name)

    assert "__inputs" not in data
    assert data["editable"] is False
    assert uid.TAG in data["tags"]
    assert data["title"].startswith("GPU / ")
    assert data["refresh"]


@pytest.mark.parametrize("name", NAMES)
def test_variables_begin_with_data_source_and_cluster(name: str) -> None:
    assert list(variables(name))[:2] == ["datasource", "cluster"]


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_of_one_value_is_compared_and_not_matched(name: str) -> None:
    """Grafana escapes no regex for it, and an address such as [2001:db8::7]:9836 is one."""
    single = [
        key
        for key, each in variables(name).items()
        if each["type"] == "query" and not each["multi"] and not each["includeAll"]
    ]
    text = json.dumps(load(name))

    assert [key for key in single if f'=~\\"${key}\\"' in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_says_what_it_shows(name: str) -> None:
    poor = [panel["title"] for panel in panels(name) if not _is_sentence(panel.get("description", ""))]

    assert poor == []
    assert _is_sentence(load(name)["description"])


def _is_sentence(text: str) -> bool:
    return len(text) >= 12 and text.endswith(".") and text[0].isupper()


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_has_a_unit_and_the_chosen_data_source(name: str) -> None:
    for panel in panels(name):
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in sources), panel["title"]
        assert panel["type"] == "table" or default_unit(panel), panel["title"]


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_ids_of_their_own_and_do_not_overlap(name: str) -> None:
    seen = [panel["id"] for panel in load(name)["panels"]]
    cells: set[tuple[int, int]] = set()
    for panel in load(name)["panels"]:
        place = panel["gridPos"]
        mine = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & mine, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells |= mine

    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_sorted_by_columns_that_they_have(name: str) -> None:
    tables = [panel for panel in panels(name) if panel["type"] == "table"]

    assert all(
        each["displayName"] in renamed(panel).values() for panel in tables for each in panel["options"]["sortBy"]
    )


def test_gpus_of_a_workload_begin_with_the_one_that_the_others_wait_for_and_go_on_with_the_least_used() -> None:
    (table,) = (panel for panel in panels("workload-slurm") if panel["title"].startswith("Its GPUs"))

    assert [(each["displayName"], each["desc"]) for each in table["options"]["sortBy"]] == [
        ("Others wait", True),
        ("Busy", False),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_alerts_are_marked_on_the_graphs(name: str) -> None:
    marked = load(name)["annotations"]["list"]

    assert {'severity="critical"', 'severity="warning"'} == {
        word for each in marked for word in each["expr"].split(", ") if word.startswith("severity")
    }


def test_every_state_of_the_ledger_has_a_title_and_a_colour() -> None:
    assert len(set(TITLES.values())) == len(set(COLOURS.values())) == len(STATES)


def test_mixin_has_every_dashboard_and_all_rules() -> None:
    mixin = FOLDER.parent / "mixin.libsonnet"
    fields = "{d: m.grafanaDashboards, r: m.prometheusRules, a: m.prometheusAlerts}"

    found = json.loads(_gojsonnet.evaluate_snippet("test", f"local m = import '{mixin}'; {fields}"))

    assert found["d"] == {f"{UIDS[name]}.json": load(name) for name in NAMES}
    assert found["r"] == yaml.safe_load((RULES / "gpu-recording.yaml").read_text())
    assert found["a"] == yaml.safe_load((RULES / "gpu-alerts.yaml").read_text())


def test_provisioning_files_are_of_grafanas_form() -> None:
    folder = FOLDER.parent / "provisioning"
    providers = yaml.safe_load((folder / "dashboards.yaml").read_text())
    sources = yaml.safe_load((folder / "datasource.yaml").read_text())

    assert providers["apiVersion"] == sources["apiVersion"] == 1
    assert [each["type"] for each in providers["providers"]] == ["file"]
    assert [each["type"] for each in sources["datasources"]] == ["prometheus"]
