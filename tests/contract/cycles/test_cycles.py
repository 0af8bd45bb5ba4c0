"""Scripted GPUs and node in, the text that Prometheus reads out: whole cycles, as tables.

`pytest tests/contract/cycles --update` writes the expected texts anew; the difference is then to be reviewed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.collectors import COLLECTORS
from exporter.ledger.states import SPLITS, STATES
from tests.contract.cycles.cases import CASES
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.rig import Rig, gpu
from tests.exporter_process import parse
from tests.golden import compare

EXPECTED = Path(__file__).resolve().parent / "expected.txt"


def test_texts_of_all_cases_are_the_expected_ones(request: pytest.FixtureRequest) -> None:
    compare(EXPECTED, "\n".join(f"## {case.name}\n{case.run()}" for case in CASES), request)


def test_page_has_every_state_and_collector_from_the_first_cycle() -> None:
    rig = Rig([gpu(0)], ScriptedNode())
    rig.cycles()
    found = [(name, dict(labels)) for name, labels in parse("\n".join(rig.page())).values]
    rig.stop()

    states = [labels["state"] for name, labels in found if name == "gpu_state_seconds_total"]
    read = {labels["collector"] for name, labels in found if name == "gpu_scrape_collector_success"}
    folded = {labels["state"] for name, labels in found if name == "gpu_exporter_state_detectable"}
    assert states == list(STATES)
    assert folded
    assert folded < {state.name for state in SPLITS}
    assert {collector.name for collector in COLLECTORS} <= read
