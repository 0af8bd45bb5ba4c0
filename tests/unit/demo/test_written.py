"""Documentation in the demo: links to a heading arrive there."""

from __future__ import annotations

import re

import pytest

from dashboards.parts.link import DIAGNOSIS
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
    page, _, place = DIAGNOSIS.path.partition("#")

    assert len(re.findall(f'id="{place}"', written((ROOT / "docs" / page).read_text()))) == 1
