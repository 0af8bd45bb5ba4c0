"""Documentation in the demo: links to a heading arrive there."""

from __future__ import annotations

import re

import pytest

from deploy.demo.cluster import ROOT
from deploy.demo.written import written


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("## The states", "the-states"),
        ("### allocated_idle", "allocated_idle"),
        ("# Where one job's GPU time went, as shares", "where-one-jobs-gpu-time-went-as-shares"),
        ("## Less <b> & more", "less-b--more"),
    ],
)
def test_a_heading_has_the_name_that_links_to_it_use(heading: str, name: str) -> None:
    assert f'<span id="{name}">' in written(f"Text\n\n{heading}\n\nmore")


def test_the_table_of_states_is_where_dashboards_lead() -> None:
    assert "diagnosis.md#the-states" in (ROOT / "dashboards/json/waste.json").read_text()
    assert len(re.findall('id="the-states"', written((ROOT / "docs/diagnosis.md").read_text()))) == 1
