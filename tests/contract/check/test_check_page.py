"""docs/check.md says what the rules do; the plugin's configuration calls the command as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter import commands
from exporter.tools.reference.sections import SECTIONS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/check.md"


def test_tables_on_the_page_are_those_of_the_rules() -> None:
    text = PAGE.read_text()

    assert SECTIONS[PAGE.name].renewed(text) == text, "run `make check-page`"


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        SECTIONS[PAGE.name].renewed("# Check\n")


def test_node_problem_detector_is_told_options_there_are() -> None:
    plugin = json.loads((ROOT / "deploy/kubernetes/node-problem-detector.json").read_text())
    arguments = plugin["rules"][0]["args"]

    assert arguments[0] == "check"
    settings = commands.load("check", arguments[1:], {})
    assert settings.format == "npd"
    assert settings.check.deadline < float(plugin["pluginConfig"]["timeout"].removesuffix("s"))
