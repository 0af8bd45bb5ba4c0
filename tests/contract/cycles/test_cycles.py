"""Scripted GPUs and node in, the text that Prometheus reads out: whole cycles, as tables.

`pytest tests/contract/cycles --update` writes the expected texts anew; the difference is then to be reviewed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.cycles.cases import CASES, Case
from tests.golden import compare

EXPECTED = Path(__file__).resolve().parent / "expected"


def test_every_expected_text_has_a_case() -> None:
    assert {path.stem for path in EXPECTED.glob("*.txt")} == {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cycles(case: Case, request: pytest.FixtureRequest) -> None:
    compare(EXPECTED / f"{case.name}.txt", case.run(), request)
