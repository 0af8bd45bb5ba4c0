"""Scripted GPUs and node in, the text that Prometheus reads out: whole cycles, as tables.

`pytest tests/contract/cycles --update` writes the expected texts anew; the difference is then to be reviewed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.cycles.cases import CASES
from tests.golden import compare

EXPECTED = Path(__file__).resolve().parent / "expected.txt"


def test_texts_of_all_cases_are_the_expected_ones(request: pytest.FixtureRequest) -> None:
    compare(EXPECTED, "\n".join(f"## {case.name}\n{case.run()}" for case in CASES), request)
