"""Values files that a page tells its reader to install: none is a fixture of the tests, and none changes an alert."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.chart.conftest import CHART, PRESETS, ROOT, Documents, Render, Values
from tests.contract.chart.test_chart_pages import merged

PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
        *(ROOT / "helm").rglob("*.md"),
        CHART / "README.md.tmpl",
        CHART / "templates/NOTES.txt",
    ]
)
OWN_VALUES = {CHART / "values.yaml"}
RULES: Values = {"prometheusRule": {"enabled": True}}


def named_files(text: str) -> set[Path]:
    """Return the YAML files of the chart that a text names, from the repository's root or the chart's folder."""
    names: list[str] = re.findall(r"[\w.-]+(?:/[\w.-]+)*\.yaml", text)
    found = {Path(os.path.normpath(folder / name)) for name in names for folder in (ROOT, CHART)}
    return {path for path in found if path.is_file() and CHART in path.parents} - OWN_VALUES


@functools.cache
def values_files() -> dict[Path, tuple[Path, ...]]:
    """Return the values files that pages name, with the pages."""
    named = {page: named_files(page.read_text()) for page in PAGES}
    files = {file for each in named.values() for file in each if not {"templates", "files"} & {*file.parts}}
    return {file: tuple(page for page in PAGES if file in named[page]) for file in sorted(files)}


def alerts(documents: Documents) -> dict[str, tuple[str, str | None]]:
    """Return expression and `for` of each alert by its name."""
    groups: list[Any] = [each["spec"]["groups"] for each in documents if each["kind"] == "PrometheusRule"]
    rules = [rule for spec in groups for group in spec for rule in group["rules"] if "alert" in rule]
    return {rule["alert"]: (rule["expr"], rule.get("for")) for rule in rules if "alert" in rule}


def test_pages_name_no_fixture_of_the_tests() -> None:
    fixtures = {file: pages for file, pages in values_files().items() if file.parent.name == "ci"}

    assert fixtures == {}
    assert [page for page in PAGES if re.search(r"gpu-exporter/ci\b|`ci/", page.read_text())] == []


def test_presets_are_named_by_a_page() -> None:
    assert {file for file in values_files() if file.parent.name == "presets"} == {*PRESETS.values()}


@pytest.mark.parametrize("file", values_files(), ids=lambda file: file.name)
def test_values_file_of_a_page_keeps_every_alert(file: Path, render: Render) -> None:
    own: Values = yaml.safe_load(file.read_text())

    assert alerts(render(merged(own, RULES))) == alerts(render(RULES))
